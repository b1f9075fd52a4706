"""DYNATOPS: mapping 1,000 x 100 in 0.3 s, 100 x 5,000 in 0.1 s, 10,000 x 100 in 30 s.

``python -m bench.bench_dynatops [--quick] [--first-seed N] [--json FILE]``. Brokers x topics,
5 topics per broker, 100 publications per topic, w_d = 1, equidistant positions, brokers in the
order of their hashed names at first: consistent hashing. *greedy* is Algorithm 3 with the trees
grown; *literal* is its naive twin on 60 brokers in the same run, *ratio* how many times longer it
takes than ours on the same problem. *saved* are means over seeds. One core; least and median of
several runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics as st
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tests.dynatops_problems import instance_of
from tests.naive import dynatops as naive
from tests.naive import dynatops_systems as systems

from pubweave.design.dynatops.mapping.best import best_mapping
from pubweave.design.dynatops.mapping.problem import MappingProblem, mapping_cost
from pubweave.design.dynatops.mapping.ring import Ring
from pubweave.design.dynatops.mapping.routed_overlay import RingRoutes
from pubweave.design.dynatops.mapping.swaps import ssbr_greedy
from pubweave.design.dynatops.placement import (
    Clusters,
    LastingPlacement,
    LastingRule,
    PlacementRule,
    UserPlacement,
)
from pubweave.design.dynatops.rivals import hierarchy_overlay, prefix_overlay
from pubweave.experiments.dynatops.mapping import PATTERNS, hashed_problem
from pubweave.generate.workloads.dynatops import Pattern, drawn_topics

GREEDY_BARS_S = {(1_000, 100): 0.3, (100, 5_000): 0.1, (10_000, 100): 30.0}
BEST_BAR_S, PLACEMENT_BAR_S = 3.0, 1.0
GREEDY_SAVES, BEST_SAVES = 0.30, 0.41
SEEDS = 10
USERS, BROKERS, TOPICS, LOAD_WEIGHT = 50_000, 100, 1_000, 100.0


def run(*, quick: bool = False, first_seed: int = 1) -> dict[str, Any]:
    """All figures; ``quick`` leaves 10,000 brokers out and takes three seeds."""
    figures: dict[str, Any] = {"load_average_before": os.getloadavg()[0]}
    best_mapping(*hashed_problem(20, 10, Pattern.UNIFORM, 1))
    _users(200)
    _lasting_users(200)
    for pattern in PATTERNS:
        for (brokers, topics), bar_s in GREEDY_BARS_S.items():
            if quick and brokers > 1_000:
                continue
            name = f"greedy {brokers:,} x {topics:,}, {pattern.value}"
            figures[name] = _greedy(brokers, topics, pattern, bar_s)
        seeds = range(first_seed, first_seed + (3 if quick else SEEDS))
        figures[f"saved 1,000 x 100, {pattern.value}"] = _saved(pattern, seeds)
    figures["literal"] = _literal()
    figures["systems"] = _systems()
    for name, join in {"users": _users, "users, lasting": _lasting_users}.items():
        times = _timed(lambda join=join: join(USERS), 5)  # type: ignore[misc]
        figures[name] = {
            "median_s": st.median(times),
            "least_s": min(times),
            "bar_s": PLACEMENT_BAR_S,
            "most_loaded_over_mean": float(join(USERS).loads.max() * BROKERS),
            "met": st.median(times) < PLACEMENT_BAR_S,
        }
    figures["lasting, one user"] = _lasting_literal()
    return figures


def _greedy(brokers: int, topics: int, pattern: Pattern, bar_s: float) -> dict[str, Any]:
    problem, mapping = hashed_problem(brokers, topics, pattern, 1)

    def work() -> None:
        # A problem made anew has no trees yet: growing them counts.
        fresh = MappingProblem(problem.wanted, problem.publications, problem.ring)
        ssbr_greedy(fresh, mapping)

    times = _timed(work, 2 if brokers > 1_000 else 7)
    return {
        "median_s": st.median(times),
        "least_s": min(times),
        "bar_s": bar_s,
        "met": st.median(times) <= bar_s,
    }


def _saved(pattern: Pattern, seeds: range) -> dict[str, Any]:
    """Savings against consistent hashing at 1,000 x 100, and the time of the better algorithm."""
    greedy, best, limits, times = [], [], [], []
    for seed in seeds:
        problem, mapping = hashed_problem(1_000, 100, pattern, seed)
        cost = mapping_cost(problem, mapping).notification_cost
        began = time.perf_counter()
        found = best_mapping(problem, mapping)
        times.append(time.perf_counter() - began)
        greedy.append(1 - ssbr_greedy(problem, mapping).last_cost.notification_cost / cost)
        best.append(1 - found.path.last_cost.notification_cost / cost)
        limits.append(1 - found.bound / cost)
    return {
        "seeds": f"{seeds[0]} to {seeds[-1]}",
        "greedy_saved": st.mean(greedy),
        "greedy_least": min(greedy),
        "greedy_bar": GREEDY_SAVES,
        "best_saved": st.mean(best),
        "best_least": min(best),
        "best_bar": BEST_SAVES,
        "no_mapping_saves_more_than": st.mean(limits),
        "best_median_s": st.median(times),
        "best_most_s": max(times),
        "best_bar_s": BEST_BAR_S,
        "met": st.mean(greedy) >= GREEDY_SAVES
        and min(best) >= BEST_SAVES
        and max(times) <= BEST_BAR_S,
    }


def _literal() -> dict[str, float]:
    """Algorithm 3 as printed, routes given, beside ours."""
    problem, mapping = hashed_problem(60, 30, Pattern.UNIFORM, 1)
    instance = instance_of(problem)
    literal = _timed(lambda: list(naive.ssbr_greedy(instance, mapping.tolist())), 1)
    ours = _timed(lambda: ssbr_greedy(problem, mapping), 7)
    return {
        "literal_s": literal[0],
        "ours_s": st.median(ours),
        "ratio": literal[0] / st.median(ours),
    }


def _systems() -> dict[str, float]:
    """All routes of 1,024 brokers in the systems of the comparison; squares also hop by hop."""
    roots = np.zeros(1, np.int64)
    hierarchy_overlay(2, roots)
    names = [f"b{number}" for number in range(1_024)]
    prefix_overlay(names[:20], ["x"])
    ring = Ring.equidistant(1_024)

    def literal() -> None:
        for a, b in product(range(64), repeat=2):
            systems.square_route(8, lambda level, leaf: systems.head(8, level, leaf), a, b)

    slow, ours = _timed(literal, 1)[0], st.median(_timed(lambda: hierarchy_overlay(8, roots), 5))
    return {
        "squares_s": st.median(_timed(lambda: hierarchy_overlay(32, roots), 3)),
        "prefixes_s": st.median(_timed(lambda: prefix_overlay(names, ["x"]), 3)),
        "ring_s": st.median(_timed(lambda: RingRoutes.of(ring), 3)),
        "literal_squares_8_x_8_s": slow,
        "ratio": slow / ours,
    }


def _users(count: int) -> UserPlacement:
    topics = drawn_topics(count, TOPICS, Pattern.MULTIMODAL, np.random.default_rng(1))
    everyone = np.zeros(count, np.int64)
    clusters = Clusters.of(BROKERS, BROKERS)
    rule = PlacementRule(LOAD_WEIGHT)
    return UserPlacement.joined(topics, everyone, clusters, TOPICS, rule)


def _lasting_users(count: int) -> LastingPlacement:
    topics = drawn_topics(count, TOPICS, Pattern.MULTIMODAL, np.random.default_rng(1))
    clusters = Clusters.of(BROKERS, BROKERS)
    everyone = np.zeros(count, np.int64)
    return LastingPlacement.joined(topics, everyone, clusters, TOPICS, LastingRule())


def _lasting_literal() -> dict[str, float]:
    """One user of 2,000 placed again among 100 brokers: by definition, and by ours."""
    placed, rng = _lasting_users(2_000), np.random.default_rng(2)
    old = drawn_topics(2_000, TOPICS, Pattern.MULTIMODAL, np.random.default_rng(1))
    new = drawn_topics(2_000, TOPICS, Pattern.MULTIMODAL, rng)
    hosts = [dict(enumerate(row.tolist())) for row in placed.hosting.users]
    hosts = [{topic: n for topic, n in users.items() if n} for users in hosts]
    loads, at = placed.hosting.load.tolist(), int(placed.broker_of[0])
    given, taken = set(old[0].tolist()), set(new[0].tolist())
    mean = sum(loads) / BROKERS
    slow = _timed(lambda: naive.lasting_costs(hosts, at, given, taken, loads, mean, 3.0), 1)[0]
    ours = _timed(lambda: placed.change(np.arange(2_000), old, new), 1)[0] / 2_000
    return {"literal_s": slow, "ours_s": ours, "ratio": slow / ours}


def _timed(work: Callable[[], Any], rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        started_at = time.perf_counter()
        work()
        times.append(time.perf_counter() - started_at)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_dynatops", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--first-seed", type=int, default=1, help="of those whose savings count")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    figures = run(quick=options.quick, first_seed=options.first_seed)
    print(json.dumps(figures, indent=2))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if all(v.get("met", True) for v in figures.values() if isinstance(v, dict)) else 1


if __name__ == "__main__":
    sys.exit(main())

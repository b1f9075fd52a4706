"""The bars of topic-connected overlays: building, churn, scale-out; ratios in the same run.

``python -m bench.bench_tco [--only build,churn,large,parts] [--seed N] [--json FILE]``. Built
overlays are verified. The rival of building is the obvious way, contributions of all pairs in a
matrix (numpy), at a size it can still do; the rival of churn is Low-ODA from scratch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pubweave.design.tco.changes import Leave
from pubweave.design.tco.divided import build_attached, build_divided
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import Mode, build_overlay
from pubweave.design.tco.verify import verify
from pubweave.design.warm_up import warm_up_tco
from pubweave.experiments.shadows.setting import ShadowsSetting, ShadowsWorld, make_world
from pubweave.generate.workloads.churn_rounds import Popularity, random_subscriptions

BUILD_BARS_S = {2_000: 0.2, 20_000: 8.0, 50_000: 60.0}
CHURN_BARS_MS = {"join": 0.2, "leave": 1.0, "backups": 3.0}
LARGE, LARGE_LEAVE_BAR_MS, LARGE_LEAVES = 50_000, 3.0, 1_000
RIVAL_NODES = 300
PART_NODES, PART_SIZE = 20_000, 5_000


def run(only: tuple[str, ...] = ("build", "churn", "parts"), seed: int = 1) -> dict[str, Any]:
    """The figures of all parts asked for; ``large`` takes minutes and is left out by default."""
    warm_up_tco()
    parts: dict[str, Callable[[int], dict[str, Any]]] = {
        "build": _build, "churn": _churn, "large": _large, "parts": _parts
    }  # fmt: skip
    figures: dict[str, Any] = {"seed": seed, "load_average_before": os.getloadavg()[0]}
    return figures | {name: parts[name](seed) for name in only}


def _drawn(nodes: int, popularity: Popularity, seed: int) -> Subscriptions:
    return random_subscriptions(nodes, 200, popularity, np.random.default_rng(seed))


def _timed(build: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    built = build()
    return built, time.perf_counter() - began


def _build(seed: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for nodes, bar in BUILD_BARS_S.items():
        for popularity in Popularity if nodes < LARGE else (Popularity.UNIFORM,):
            wanted = _drawn(nodes, popularity, seed)
            for mode in Mode if nodes < LARGE else (Mode.LOW_ODA,):
                links, seconds = _timed(lambda w=wanted, m=mode: build_overlay(w, m))
                figures[f"{popularity.value} {nodes} {mode.value}"] = {
                    "seconds": round(seconds, 3),
                    "bar_s": bar,
                    "met": seconds <= bar and verify(wanted, links).is_connected,
                    **_degrees(nodes, links),
                }
    wanted = _drawn(RIVAL_NODES, Popularity.UNIFORM, seed)
    links, ours = _timed(lambda: build_overlay(wanted))
    rival, theirs = _timed(lambda: matrix_low_oda(wanted))
    figures[f"rival: numpy matrix at {RIVAL_NODES}"] = {
        "ours_s": round(ours, 4),
        "rival_s": round(theirs, 2),
        "times_faster": round(theirs / ours),
        "same_links": links.tolist() == rival,
    }
    return figures


def _degrees(nodes: int, links: Any) -> dict[str, float]:
    degrees = np.bincount(links.ravel(), minlength=nodes)
    return {"average_degree": round(2 * len(links) / nodes, 3), "max_degree": int(degrees.max())}


def _churn(seed: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for popularity in Popularity:
        world = make_world(ShadowsSetting(popularity, seed))
        _, build_s = _timed(lambda w=world: build_overlay(w.wanted))
        records = world.play("lean", time.perf_counter, verify_every=100)
        own: dict[str, Any] = {"connected": all(record.gap is None for record in records)}
        for kind in ("join", "leave"):
            chosen = [record for record in records if record.kind == kind]
            own[f"{kind}_ms"] = statistics.fmean(record.repair_ms for record in chosen)
            own[f"{kind}_links_changed"] = statistics.fmean(record.changed for record in chosen)
            own[f"low_oda_is_times_{kind}"] = 1e3 * build_s / own[f"{kind}_ms"]
            own["backups_ms"] = statistics.fmean(record.backups_ms for record in chosen)
            own["tidy_ms"] = statistics.fmean(record.tidy_ms for record in chosen)
        own["met"] = all(own[f"{name}_ms"] <= bar for name, bar in CHURN_BARS_MS.items())
        figures[popularity.value] = own
    return figures


def _large(seed: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for popularity in Popularity:
        wanted = _drawn(LARGE, popularity, seed)
        links, build_s = _timed(lambda w=wanted: build_overlay(w))
        world = ShadowsWorld(ShadowsSetting(popularity, seed, nodes=LARGE), wanted, links, ())
        overlay, backups_s = _timed(lambda w=world: w.maintained("lean"))
        rng = np.random.default_rng(seed)
        gone = rng.choice(wanted.node_count, LARGE_LEAVES, replace=False).tolist()
        spent = []
        for node in gone:
            leave = Leave(wanted.nodes[node])
            spent.append(_timed(lambda o=overlay, change=leave: o.apply([change]))[1])
            overlay.update_backups()
            overlay.tidy()
        leave_ms = 1e3 * statistics.fmean(spent)
        connected = verify(*overlay.snapshot()).is_connected
        figures[popularity.value] = {
            "build_s": round(build_s, 1),
            "all_backups_s": round(backups_s, 1),
            "leave_ms": round(leave_ms, 3),
            "bar_ms": LARGE_LEAVE_BAR_MS,
            "met": leave_ms <= LARGE_LEAVE_BAR_MS and connected,
        }
    return figures


def _parts(seed: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for popularity in Popularity:
        wanted = _drawn(PART_NODES, popularity, seed)
        exact = _degrees(PART_NODES, build_overlay(wanted))
        for name, build in (("divide", build_divided), ("backbone", build_attached)):
            links = build(wanted, PART_SIZE, lambda function, tasks: [function(t) for t in tasks])
            own = _degrees(PART_NODES, links)
            average = own["average_degree"] / exact["average_degree"]
            highest = own["max_degree"] / exact["max_degree"]
            connected = verify(wanted, links).is_connected
            figures[f"{popularity.value} {name}"] = {
                "times_exact_average": round(average, 3),
                "times_exact_maximum": round(highest, 3),
                "met": average <= 1.15 and highest <= 2 and connected,
            }
    return figures


def matrix_low_oda(wanted: Subscriptions) -> list[list[int]]:
    """Algorithm 2 with the contributions of all pairs counted anew for each link."""
    order = wanted.canonical_order()
    count = len(order)
    label = np.full((count, wanted.topic_count), -1)
    for row, node in enumerate(order):
        label[row, wanted.topics_of(node)] = row
    degree = np.zeros(count, int)
    found: list[list[int]] = []
    while True:
        worth = np.zeros((count, count), int)
        for column in label.T:
            has = np.flatnonzero(column >= 0)
            worth[np.ix_(has, has)] += column[has][:, None] != column[has]
        worth = np.triu(worth, 1)
        if not worth.any():
            return found
        below = degree < degree.max()
        level = np.where(below[:, None] & below, worth, 0)
        e1 = np.unravel_index(worth.argmax(), worth.shape)
        e2 = np.unravel_index(level.argmax(), worth.shape) if level.any() else e1
        u, v = e1 if worth[e1] > 3 * worth[e2] else e2
        for column in label.T:
            if column[u] >= 0 and column[v] >= 0:
                column[column == column[v]] = column[u]
        degree[[u, v]] += 1
        found.append([int(order[u]), int(order[v])])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_tco", description=__doc__)
    parser.add_argument("--only", default="build,churn,parts", help="parts, with commas between")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    figures = run(tuple(options.only.split(",")), options.seed)
    print(json.dumps(figures, indent=2))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""The planner against the bars of its issue, the paper's figures, and its rivals in the same run.

``python -m benchmarks.bench_planner [--quick] [--json FILE]``. Problems: the paper's 12 topologies
with 20% of the links changed (`generate`), and the measured pairs of trees in the shared data
folder where it is present. Quick: fewer topologies, smaller sizes, shorter limits.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pubweave.generate.mutation import change_links
from pubweave.generate.trees import ipitt_topologies
from pubweave.model.plans import PlanStatus
from pubweave.model.topology import Topology
from pubweave.planning.problem import PlanningProblem
from pubweave.planning.result import PlanResult
from pubweave.planning.solve import solve

RATIO = 0.2
SEED = 2024
_PROVEN = (PlanStatus.OPTIMAL, PlanStatus.STEPS_OPTIMAL)

# size: (time limit in seconds, method, the bar, the paper's figure)
SIZES: dict[int, tuple[float, str, str, str]] = {
    40: (60, "auto", "steps and actions proven, median < 5 s", "naive set: minutes"),
    60: (
        60,
        "auto",
        "steps proven on >= 11 of 12, median <= 1.5 s, slowest 20 s; actions within 5%",
        "each-path < 45 s, up to 32% more steps",
    ),
    100: (15, "auto", "gap <= 1 step in 15 s", "each-path only, no proof"),
    150: (60, "auto", "gap <= 1 step in 60 s", "400 s, no proof"),
    1000: (10, "fast", "plan in 50 ms, balanced: steps <= 1.8 x bound in 10 s", "none"),
    10000: (30, "fast", "plan in 0.5 s, balanced: <= 30 steps in 30 s", "none"),
}


def run(quick: bool = False) -> dict[str, Any]:
    """All figures, by part."""
    figures: dict[str, Any] = {"load_average_before": os.getloadavg()[0]}
    # The first run compiles or loads the kernels: not counted.
    _planned(next(_problems(20, SEED))[1], "auto", 30)
    sizes = (40, 60, 1000) if quick else tuple(SIZES)
    for size in sizes:
        limit_s, method, bar, paper = SIZES[size]
        rows = [
            {"name": name, **_planned(problem, method, limit_s / 6 if quick else limit_s)}
            for name, problem in _problems(size, SEED)
            if not (quick and "2" in name[-1]) and not (size == 10000 and "2" in name[-1])
        ]
        figures[f"{size} brokers"] = {
            "bar": bar,
            "paper": paper,
            "summary": _summary(rows),
            "rows": rows,
        }
        print(f"{size}: {figures[f'{size} brokers']['summary']}  [{bar}]", flush=True)
    figures["measured trees"] = _measured(quick)
    figures["rivals"] = _rivals(quick)
    figures["load_average_after"] = os.getloadavg()[0]
    return figures


def _problems(brokers: int, seed: int) -> Iterator[tuple[str, PlanningProblem]]:
    for number, (name, source) in enumerate(ipitt_topologies(brokers, seed).items()):
        rng = np.random.default_rng([seed, brokers, number])
        yield name, PlanningProblem(source, change_links(source, RATIO, rng))


def _planned(problem: PlanningProblem, method: str, limit_s: float) -> dict[str, Any]:
    until = time.perf_counter() + limit_s
    result = solve(
        problem,
        method=method,
        stop=lambda: time.perf_counter() >= until,
        clock=time.perf_counter,
    )
    return _row(result)


def _row(result: PlanResult) -> dict[str, Any]:
    plan = result.plan
    return {
        "status": result.status.value,
        "steps": None if plan is None else plan.step_count,
        "actions": None if plan is None else plan.action_count,
        "steps_at_least": result.bounds.steps,
        "actions_at_least": result.bounds.actions,
        "seconds": round(result.seconds, 3),
        "first_plan_s": _rounded(result.figures.get("first_plan_s")),
        "steps_proven_s": _rounded(result.figures.get("steps_proven_s")),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    proven = [row["steps_proven_s"] for row in rows if row["steps_proven_s"] is not None]
    gaps = [row["steps"] - row["steps_at_least"] for row in rows if row["steps"] is not None]
    ratios = [
        row["steps"] / row["steps_at_least"]
        for row in rows
        if row["steps"] is not None and "unbalanced" not in row["name"]
    ]
    return {
        "problems": len(rows),
        "steps_proven": len(proven),
        "steps_proven_median_s": statistics.median(proven) if proven else None,
        "steps_proven_slowest_s": max(proven, default=None),
        "all_proven": sum(row["status"] == PlanStatus.OPTIMAL.value for row in rows),
        "median_s": statistics.median(row["seconds"] for row in rows),
        "largest_gap": max(gaps, default=None),
        "balanced_steps_per_bound_max": round(max(ratios, default=0.0), 2),
        "first_plan_slowest_s": max(row["first_plan_s"] or 0.0 for row in rows),
        "steps": [row["steps"] for row in rows],
        "steps_at_least": [row["steps_at_least"] for row in rows],
    }


def _measured(quick: bool) -> dict[str, Any]:
    """Pairs of trees from measured round-trip times."""
    folder = Path(os.environ.get("PUBWEAVE_DATA") or "../shared/data")
    path = folder / "itt" / "itt_instances.jsonl"
    if not path.exists():
        return {"skipped": "the shared data folder is absent (set PUBWEAVE_DATA)"}
    rows = []
    for line in path.read_text().splitlines():
        document = json.loads(line)
        if document["changed_links"] == 0 or (quick and document["n"] > 60):
            continue
        problem = PlanningProblem(_tree(document["initial"]), _tree(document["goal"]))
        rows.append({"name": document["id"], **_planned(problem, "auto", 5 if quick else 30)})
    print(f"measured trees: {_summary(rows)}", flush=True)
    return {"summary": _summary(rows), "rows": rows}


def _tree(links: list[list[float]]) -> Topology:
    return Topology.from_links([(f"b{int(a)}", f"b{int(b)}") for a, b, _ in links])


def _rivals(quick: bool) -> dict[str, Any]:
    """The paper's program and best-first search on the same problems."""
    size, limit_s, count = (20, 20, 2) if quick else (60, 300, 3)
    rows = []
    for name, problem in list(_problems(size, SEED))[:count]:
        row: dict[str, Any] = {"name": name}
        for method in ("auto", "ip-each-path", "bfs"):
            row[method] = _planned(problem, method, limit_s if method != "auto" else 60)
        # Compared: the time to a plan of proven fewest steps with theirs to any plan.
        own = row["auto"]["steps_proven_s"]
        row["times_shorter"] = {
            method: round(row[method]["seconds"] / own, 1)
            for method in ("ip-each-path", "bfs")
            if own
        }
        rows.append(row)
        print(f"rivals at {size}, {name}: {row}", flush=True)
    return {"brokers": size, "bar": "never more steps, at least 50 times shorter", "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_planner", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer problems, shorter limits")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures here")
    options = parser.parse_args()
    figures = run(options.quick)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
        print(f"all figures: {options.json}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

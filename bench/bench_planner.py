"""The planner against the bars of its issue, the paper's figures, and its rivals in the same run.

Parts: ``exactness`` (brute force on small problems), the overlay sizes 40 to 10000 of the paper's
setting, ``measured`` (pairs of trees in the shared data folder), ``rivals`` (best-first search and
the paper's each-path program on the problems of 60 brokers) and ``actions`` (the best known number
of actions at 60: the least of all methods here and, where ours is not proven, of a longer run of
ours). The last table has every bar with `met` or `missed` and its figure.

A rival's planning time is the time to its final plan, or its limit where it has none. Ours, beside
it, is the time to our first plan of no more steps than the rival's final one; our proof of the
fewest steps comes later and has its own bar.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.planner_bars import (
    Bar,
    action_bar,
    exactness_bar,
    rival_bars,
    size_bars,
    table,
)
from bench.planner_problems import Run, measured_problems, paper_problems, planned
from pubweave.planning.problem.problem import PlanningProblem

SEED = 2024
RIVALS = ("ip-each-path", "bfs", "bfs-parallel")
# size: (time limit in seconds, method, topologies, the paper's figure)
SIZES: dict[int, tuple[float, str, int, str]] = {
    40: (60, "auto", 12, "naive set: minutes"),
    60: (60, "auto", 12, "each-path: under 45 s, up to 32% more steps"),
    100: (15, "auto", 12, "each-path only, no proof"),
    150: (60, "auto", 12, "400 s, no proof"),
    1000: (10, "fast", 12, "nothing"),
    10000: (30, "fast", 6, "nothing"),
}
PARTS = ("exactness", *map(str, SIZES), "measured", "rivals", "actions")
_MEASURED_LIMIT_S = 30.0
_EXACT_LIMIT_S = 30.0


@dataclass(frozen=True)
class Settings:
    """What to run, and how long at most."""

    parts: tuple[str, ...]
    seed: int = SEED
    topologies: int = 12
    limit_s: float = math.inf
    rival_limit_s: float = 300.0
    long_limit_s: float = 300.0
    exactness: int = 60
    brokers_max: int = 10**6


class Bench:
    """One run of the benchmark: figures by part, bars in order."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.bars: list[Bar] = []
        self.figures: dict[str, Any] = {
            "settings": asdict(settings),
            "load_average_before": os.getloadavg()[0],
        }
        self._sixty: list[Run] = []
        self._rivals: list[Run] = []

    def run(self) -> None:
        # The first plans load the kernels: not counted. Large plans have a judge of their own.
        for method, brokers, limit_s in (("auto", 20, 5.0), ("fast", 600, 0.5)):
            planned("warm-up", next(paper_problems(brokers, 1))[1], method, limit_s)
        named: dict[str, Callable[[], None]] = {
            "exactness": self._exactness,
            "measured": self._measured,
            "rivals": self._run_rivals,
            "actions": self._actions,
        }
        for part in PARTS:
            if part in self.settings.parts:
                print(f"== {part}", flush=True)
                named[part]() if part in named else self._size(int(part))
        self.figures["load_average_after"] = os.getloadavg()[0]
        self.figures["bars"] = [asdict(bar) | {"verdict": bar.verdict} for bar in self.bars]

    def _size(self, size: int) -> None:
        limit_s, method, count, paper = SIZES[size]
        runs = self._runs(
            paper_problems(size, self.settings.seed, self._count(count)), method, limit_s
        )
        if size == 60:
            self._sixty = runs
        self._add(str(size), runs, size_bars(size, runs))
        print(f"   the paper: {paper}", flush=True)

    def _runs(
        self, problems: Iterable[tuple[str, PlanningProblem]], method: str, limit_s: float
    ) -> list[Run]:
        limit_s = min(limit_s, self.settings.limit_s)
        runs = []
        for name, problem in problems:
            runs.append(planned(name, problem, method, limit_s, self.settings.seed))
            print(f"   {_line(runs[-1])}", flush=True)
        return runs

    def _add(self, part: str, runs: Sequence[Run], bars: list[Bar]) -> None:
        self.figures[part] = {"summary": summary(runs), "runs": [run.as_json() for run in runs]}
        self.bars += bars
        for bar in bars:
            print(f"   {bar.verdict}: {bar.promise}: {bar.figure}", flush=True)

    def _exactness(self) -> None:
        from tests.naive.planning import fewest
        from tests.naive.planning_instances import small_problem

        agreed = impossible = 0
        wrong = []
        count = self.settings.exactness
        for number in range(count):
            # Spread over the 500 of the tests, beyond them for other seeds.
            place = number * max(1, 500 // count) + (self.settings.seed - SEED) * 500
            problem = small_problem(abs(place))
            truth = fewest(problem, most_steps=100)
            run = planned(str(place), problem, "auto", _EXACT_LIMIT_S)
            found = None if run.steps is None else (run.steps, run.actions)
            proven = run.status == ("infeasible" if truth is None else "optimal")
            holds = truth is None or (
                run.steps_at_least <= truth[0] and run.actions_at_least <= truth[1]
            )
            impossible += truth is None
            if proven and holds and found == truth:
                agreed += 1
            else:
                wrong.append({"problem": place, "truth": truth, "run": run.as_json()})
        bar = exactness_bar(agreed, impossible, count)
        self.figures["exactness"] = {"agreed": agreed, "tried": count, "wrong": wrong}
        self._add_bar(bar)

    def _add_bar(self, bar: Bar) -> None:
        self.bars.append(bar)
        print(f"   {bar.verdict}: {bar.promise}: {bar.figure}", flush=True)

    def _measured(self) -> None:
        runs = self._runs(measured_problems(self.settings.brokers_max), "auto", _MEASURED_LIMIT_S)
        if not runs:
            print("   skipped: the shared data folder is absent (set PUBWEAVE_DATA)")
            return
        self._add("measured", runs, [])
        print(f"   {json.dumps(summary(runs))}", flush=True)

    def _run_rivals(self) -> None:
        problems = list(paper_problems(60, self.settings.seed, self._count(12)))
        ours = self._sixty_runs()
        for method in RIVALS:
            runs = self._runs(problems, method, self.settings.rival_limit_s)
            self._rivals += runs
            self._add(f"rivals: {method}", runs, rival_bars(ours, runs))

    def _actions(self) -> None:
        problems = dict(paper_problems(60, self.settings.seed, self._count(12)))
        ours = self._sixty_runs()
        limit_s = min(self.settings.long_limit_s, 5 * self.settings.limit_s)
        longer = [
            planned(run.name, problems[run.name], "auto", limit_s, self.settings.seed + 1)
            for run in ours
            if run.status != "optimal"
        ]
        best: dict[str, tuple[int, int]] = {}
        for run in [*ours, *longer, *self._rivals]:
            if run.steps is not None and run.actions is not None:
                found = (run.steps, run.actions)
                best[run.name] = min(best.get(run.name, found), found)
        self.figures["actions"] = {"best_known": best, "longer": [r.as_json() for r in longer]}
        self._add_bar(action_bar(ours, best))

    def _sixty_runs(self) -> list[Run]:
        """Our own runs at 60 brokers, made now where that part was not asked for."""
        if not self._sixty:
            problems = paper_problems(60, self.settings.seed, self._count(12))
            self._sixty = self._runs(problems, "auto", SIZES[60][0])
        return self._sixty

    def _count(self, count: int) -> int:
        return min(count, self.settings.topologies)


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """What a reader wants to know first."""
    proven = [run.steps_proven_s for run in runs if run.steps_proven_s is not None]
    gaps = [run.steps - run.steps_at_least for run in runs if run.steps is not None]
    return {
        "problems": len(runs),
        "plans": len(gaps),
        "steps_proven": len(proven),
        "steps_proven_median_s": round(statistics.median(proven), 3) if proven else None,
        "steps_proven_slowest_s": max(proven, default=None),
        "all_proven": sum(run.status == "optimal" for run in runs),
        "median_s": round(statistics.median(run.seconds for run in runs), 3),
        "largest_gap": max(gaps, default=None),
        "first_plan_slowest_s": max((run.first_plan_s or 0.0 for run in runs), default=None),
    }


def _line(run: Run) -> str:
    proven = "-" if run.steps_proven_s is None else f"{run.steps_proven_s:.2f} s"
    return (
        f"{run.name:<24} {run.method:<13} {run.status:<13} steps {run.steps} (>= "
        f"{run.steps_at_least}), actions {run.actions} (>= {run.actions_at_least}), "
        f"{run.seconds:.2f} s, proven {proven}"
    )


def _settings(arguments: Sequence[str]) -> tuple[Settings, Path | None]:
    parser = argparse.ArgumentParser(
        prog="python -m bench.bench_planner",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", metavar="PART,...", help=f"parts to run, of {', '.join(PARTS)}")
    add("--sizes", metavar="N,...", help="only these overlay sizes, and no other part")
    add("--seed", type=int, default=SEED, help=f"of the problems (default {SEED})")
    add("--topologies", type=int, default=12, help="how many of the paper's 12")
    add("--limit", type=float, default=math.inf, metavar="S", help="shorten every limit to this")
    add("--rival-limit", type=float, default=300.0, metavar="S", help="for each rival's plan")
    add("--long-limit", type=float, default=300.0, metavar="S", help="for the best known actions")
    add("--exactness", type=int, default=60, metavar="N", help="small problems for brute force")
    add("--quick", action="store_true", help="2 topologies, small sizes, short limits")
    add("--json", type=Path, metavar="FILE", help="also write all figures here")
    given = parser.parse_args(arguments)
    parts = tuple((given.sizes or given.only or ",".join(PARTS)).split(","))
    for part in parts:
        if part not in PARTS or (given.sizes and not part.isdigit()):
            parser.error(f"no part {part!r}: there are {', '.join(PARTS)}")
    settings = Settings(
        parts,
        given.seed,
        given.topologies,
        given.limit,
        given.rival_limit,
        given.long_limit,
        given.exactness,
    )
    if given.quick:
        small = tuple(part for part in parts if part not in {"100", "150", "10000"})
        settings = Settings(small, given.seed, 2, min(5.0, given.limit), 10.0, 10.0, 12, 60)
    return settings, given.json


def main(arguments: Sequence[str] | None = None) -> int:
    settings, output = _settings(sys.argv[1:] if arguments is None else arguments)
    bench = Bench(settings)
    started_at = time.perf_counter()
    bench.run()
    print(f"\nseed {settings.seed}, {time.perf_counter() - started_at:.0f} s in all\n")
    print(table(bench.bars))
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(bench.figures, indent=2) + "\n")
        print(f"\nall figures: {output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

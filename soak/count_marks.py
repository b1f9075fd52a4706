"""How many runs reach each marked rare branch, over all scenarios in turns.

    python -m soak.count_marks --seeds 2000

A branch that none of them reaches is tested by none of them: exit code 1 then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator

from pubweave.sim.kernel.marks import MARKS
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.simulate import DURABLE, SCENARIOS, run_seed

MQTT_STRATEGIES = ("topic_connected", "rendezvous")
FIRST_SEED = 270_000
MAX_BROKERS = 8
"""Small overlays are quick, and rare things meet each other there sooner."""


def kinds() -> list[tuple[str, dict[str, object]]]:
    """Scenarios with their options, each of which has brokers."""
    names = [name for name in sorted(SCENARIOS) if name != "autopilot"]
    found: list[tuple[str, dict[str, object]]] = [(name, {}) for name in names]
    found += [(name, {"durability": "journal"}) for name in names if name in DURABLE]
    return found + [("mqtt", {"strategy": strategy}) for strategy in MQTT_STRATEGIES]


def runs(seeds: int) -> Iterator[tuple[str, dict[str, object], int]]:
    """So many runs, the kinds in turns, no seed twice."""
    turns = kinds()
    for number in range(seeds):
        scenario, options = turns[number % len(turns)]
        yield scenario, options, FIRST_SEED + number


def _run(run: tuple[str, dict[str, object], int]) -> RunResult:
    scenario, options, seed = run
    return run_seed(scenario, seed, max_brokers=MAX_BROKERS, **options)


def count_marks(seeds: int, jobs: int, *, to_the_end: bool) -> tuple[Counter[str], int]:
    """By mark, how many runs have reached it; and how many runs that were. Unless ``to_the_end``,
    no more than it takes to reach all."""
    reached: Counter[str] = Counter()
    done = 0
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for result in pool.imap_unordered(_run, runs(seeds)):
            done += 1
            reached.update(result.marks.keys())
            if not to_the_end and len(reached) == len(MARKS):
                break
    return reached, done


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the marked branches that runs reach")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    reached, done = count_marks(given.seeds, given.jobs, to_the_end=True)
    for name in sorted(MARKS, key=lambda name: -reached[name]):
        print(f"{reached[name]:6} {name:30} {MARKS[name]}")
    print(f"{done} runs, {len(reached)} of {len(MARKS)} marks reached")
    return 0 if len(reached) == len(MARKS) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The traces of every scenario as digests: an oracle for changes that only move or rename.

    python -m soak.trace_digests --write tests/sim/trace_digests.json
    python -m soak.trace_digests --compare tests/sim/trace_digests.json --seeds 5

A run of the simulator is the same, byte for byte, for the same seed. So a change that is meant to
alter no behavior must leave every digest as it is. A change that is meant to alter behavior writes
the file anew and says so in its commit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
from functools import partial
from pathlib import Path

from pubweave.sim.kernel.trace import Trace
from pubweave.sim.simulate import DURABLE, SCENARIOS, run_seed

SEEDS = 50
MAX_BROKERS = {"autopilot": 10, "relocate": 20, "routing": 30, "transform": 30, "mqtt": 8}


def runs() -> list[tuple[str, str]]:
    """Each scenario with each durability it can be run with."""
    return [
        (scenario, durability)
        for scenario in sorted(SCENARIOS)
        for durability in ("memory", "journal")
        if durability == "memory" or scenario in DURABLE
    ]


def digest(scenario: str, durability: str, seed: int) -> str:
    """The digest of one run: of its trace, and of what the run has counted and found wrong."""
    options: dict[str, object] = {"max_brokers": MAX_BROKERS.get(scenario, 14)}
    if durability != "memory":
        options |= {"durability": durability}
    result = run_seed(scenario, seed, trace=Trace(), **options)
    said = f"{result.trace_digest} {sorted(result.counts.items())} {result.violations}"
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def digests(scenario: str, durability: str, seeds: int, jobs: int) -> list[str]:
    """The digest of each seed."""
    run = partial(digest, scenario, durability)
    if jobs == 1:
        return [run(seed) for seed in range(seeds)]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        return pool.map(run, range(seeds), chunksize=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of each scenario")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="scenarios, separated by commas")
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--write", type=Path, metavar="FILE")
    goal.add_argument("--compare", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    chosen = set(filter(None, arguments.only.split(",")))
    known = json.loads(arguments.compare.read_text()) if arguments.compare else {}
    found, different = {}, 0
    for scenario, durability in runs():
        if chosen and scenario not in chosen:
            continue
        name = f"{scenario} {durability}"
        found[name] = digests(scenario, durability, arguments.seeds, arguments.jobs)
        if arguments.compare:
            pairs = zip(found[name], known[name], strict=False)
            wrong = [seed for seed, (now, before) in enumerate(pairs) if now != before]
            different += len(wrong)
            print(
                f"{name}: {len(found[name])} seeds, {len(wrong)} different {wrong[:10]}", flush=True
            )
        else:
            print(f"{name}: {len(found[name])} seeds", flush=True)
    if arguments.write:
        arguments.write.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

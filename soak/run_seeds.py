"""Fresh seeds of every scenario, with and without journal, on one state of the code.

    python -m soak.run_seeds --count 2000 --first 27000000 --json seeds.json
    python -m soak.run_seeds --only routing:journal --only mqtt:memory:rendezvous --count 100
    python -m soak.run_seeds --count 2000 --first 27000000 --json seeds.json --resume

A run is named SCENARIO:DURABILITY, and :STRATEGY for mqtt. The runs take turns, some seeds each, so
that what was done after an hour is alike for all. Ctrl-C keeps what is done; ``--resume`` goes on
from there, and refuses if the code has changed since. Every seed that failed is printed with its
first violation and the command that shows it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pubweave.sim.kernel.results import RunResult
from pubweave.sim.simulate import DURABLE, SCENARIOS, run_seed

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "pubweave"
MQTT_STRATEGIES = ("tree", "topic_connected", "rendezvous")
TURN = 20
"""How many seeds of one run are done before the next one has its turn."""


@dataclass
class Tally:
    """What became of the seeds of one run so far."""

    seeds: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    """The first violation by seed."""

    def add(self, result: RunResult) -> None:
        self.seeds += 1
        self.counts = dict(Counter(self.counts) + Counter(result.counts))
        if result.violations:
            self.failed[result.seed] = result.violations[0]


def every_run() -> list[str]:
    """All scenarios with all durabilities, mqtt with every strategy."""
    return [
        ":".join((scenario, durability, *strategy))
        for scenario in sorted(SCENARIOS)
        for durability in ("memory", "journal")
        if durability == "memory" or scenario in DURABLE
        for strategy in ([(each,) for each in MQTT_STRATEGIES] if scenario == "mqtt" else [()])
    ]


def options_of(run: str) -> tuple[str, dict[str, Any]]:
    """The scenario of a run and what it is started with."""
    scenario, durability, *strategy = run.split(":")
    options: dict[str, Any] = {} if durability == "memory" else {"durability": durability}
    return scenario, options | ({"strategy": strategy[0]} if strategy else {})


def command(run: str, seed: int) -> str:
    """What shows one seed of a run again."""
    scenario, options = options_of(run)
    flags = "".join(f" --{name} {value}" for name, value in options.items())
    return f"pubweave simulate {scenario}{flags} --seed {seed} --trace"


def source_digest() -> str:
    """Of all modules of the package: results of two states of the code are not added up."""
    whole = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        whole.update(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def turns(runs: Sequence[str], tallies: dict[str, Tally], count: int) -> Iterator[tuple[str, int]]:
    """Each run with the place of its next seed, in turns."""
    places = {run: tallies[run].seeds for run in runs}
    while any(place < count for place in places.values()):
        for run in runs:
            end = min(places[run] + TURN, count)
            yield from ((run, place) for place in range(places[run], end))
            places[run] = end


def _one(first: int, turn: tuple[str, int]) -> tuple[str, RunResult]:
    run, place = turn
    scenario, options = options_of(run)
    return run, run_seed(scenario, first + place, **options)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def table(tallies: dict[str, Tally]) -> str:
    """A line per run."""
    lines = [f"{'run':30} {'seeds':>6} {'failed':>6}  wanted / due / excused"]
    for run, tally in tallies.items():
        counted = " / ".join(f"{tally.counts.get(n, 0):,}" for n in ("wanted", "due", "excused"))
        lines.append(f"{run:30} {tally.seeds:6,} {len(tally.failed):6,}  {counted}")
    return "\n".join(lines)


def read(path: Path, digest: str, first: int) -> dict[str, Tally]:
    """What an earlier call wrote; SystemExit if that was other code or other seeds."""
    held = json.loads(path.read_text())
    if (held["source"], held["first"]) != (digest, first):
        raise SystemExit(f"{path}: written by other code or with another --first: begin a new file")
    return {
        run: Tally(t["seeds"], t["counts"], {int(seed): text for seed, text in t["failed"].items()})
        for run, t in held["runs"].items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000, help="seeds of each run [2000]")
    parser.add_argument("--first", type=int, default=0, help="the first seed [0]")
    parser.add_argument("--only", action="append", default=[], metavar="RUN", choices=every_run())
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, help="stop after so many minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="results, written as they come")
    parser.add_argument("--resume", action="store_true", help="go on from the file of --json")
    given = parser.parse_args()
    runs = given.only or every_run()
    digest = source_digest()
    tallies = {run: Tally() for run in runs}
    if given.resume and given.json is not None and given.json.exists():
        tallies |= read(given.json, digest, given.first)
    began = saved = time.monotonic()
    work = partial(_one, given.first)
    with multiprocessing.get_context("fork").Pool(given.jobs, _ignore_interrupts) as pool:
        try:
            # In order, so that the seeds that are done are always the first ones of each run.
            for run, result in pool.imap(work, turns(runs, tallies, given.count)):
                tallies[run].add(result)
                if result.violations:
                    print(f"{result.violations[0]}\n  {command(run, result.seed)}", flush=True)
                now = time.monotonic()
                if given.json is not None and now - saved > 5:
                    saved = now
                    _write(given.json, digest, given.first, tallies)
                if given.minutes is not None and now - began > 60 * given.minutes:
                    break
        except KeyboardInterrupt:
            print("interrupted: the seeds so far count; --json with --resume goes on from there")
        pool.terminate()
    if given.json is not None:
        _write(given.json, digest, given.first, tallies)
    print(table(tallies))
    return int(any(tally.failed for tally in tallies.values()))


def _write(path: Path, digest: str, first: int, tallies: dict[str, Tally]) -> None:
    held = {run: asdict(tally) for run, tally in tallies.items()}
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"source": digest, "first": first, "runs": held}, indent=1))
    fresh.replace(path)


if __name__ == "__main__":
    sys.exit(main())

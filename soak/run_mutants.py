"""Mutation testing: breaks protocol code in small ways, and sees which of our checks notice.

    make mutants                                                  # 100 mutants, about two hours
    python -m soak.run_mutants --count 20 --seed 7 --only core/mqtt
    python -m soak.run_mutants --list                             # what would be broken
    python -m soak.run_mutants --one pubweave/core/broker.py:17   # one mutant, both checks

Each mutant is a copy of the package in which one place of one module of the core is wrong
(`mutations`). First the simulator runs 30 seeds of every scenario on it, those of the mutant's
room first, and stops at the first violation; a run that takes ten times as long as it should has
noticed it, too. What the simulator does not notice is given to the fast tests. The report names
the mutants that neither notices: each is a check that is missing, or a change without effect,
which is for a person to say. Ctrl-C keeps what is done; ``--resume`` goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from pubweave.sim.simulate import DURABLE, SCENARIOS
from soak.mutations import Mutation, count_sites, mutated, mutation

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "pubweave"
LEFT_OUT = ("core/config", "core/vocabulary", "core/metering", "core/queries.py")
"""Settings, declarations and figures: no protocol."""
NOTHING_TO_FIND = frozenset({"autopilot"})
"""Scenarios that simulate no broker."""
FIRST = {
    "core/mqtt": ("mqtt",),
    "core/transformation": ("transform",),
    "core/migration": ("relocate",),
    "core/relocation": ("relocate",),
    "core/self_organizing": ("reorganize",),
    "core/routing/topic_connected": ("churn", "hybrid"),
    "core/routing/rendezvous": ("rendezvous", "placement", "hybrid"),
    "core/routing/tree": ("routing", "transform"),
}
"""By room: the scenarios that are the likeliest to notice a mistake there."""
TESTS = ("tests/unit/core", "tests/unit/wire", "tests/transcripts", "tests/sim", "tests/sockets")
"""The fast tests of protocols."""
SLOWEST_S = 900.0
"""A check that takes longer than this has noticed that something hangs."""


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant."""

    mutation: Mutation
    noticed_by: str
    """``simulator``, ``tests`` or, if neither noticed it, empty."""
    how: str
    seconds: float


def protocol_modules(only: Sequence[str]) -> list[Path]:
    """The modules that may be broken; ``only``: those below these folders of the package."""
    found = []
    for path in sorted((PACKAGE / "core").rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        is_left_out = path.name == "__init__.py" or place.startswith(LEFT_OUT)
        if not is_left_out and (not only or place.startswith(tuple(only))):
            found.append(path)
    return found


def draw(modules: Sequence[Path], count: int, rng: random.Random) -> list[Mutation]:
    """Mutations of all modules, each as likely as any other."""
    every = [(path, number) for path in modules for number in range(count_sites(path.read_text()))]
    if count > len(every):
        raise SystemExit(f"--count {count}: only {len(every)} mutations fit into these modules")
    return [_mutation(path, number) for path, number in rng.sample(every, count)]


def _mutation(path: Path, number: int) -> Mutation:
    return mutation(path.relative_to(PACKAGE.parent).as_posix(), path.read_text(), number)


def plant(mistake: Mutation, folder: Path) -> None:
    """Make the mutant: a copy of the core with the mistake, and links to everything else."""
    package = folder / "pubweave"
    package.mkdir()
    for path in PACKAGE.iterdir():
        if path.name != "core" and path.name != "__pycache__":
            (package / path.name).symlink_to(path)
    shutil.copytree(PACKAGE / "core", package / "core")
    target = folder / mistake.module
    target.write_text(mutated(mistake.module, target.read_text(), mistake.number))


def runs_for(module: str) -> list[str]:
    """All scenarios with all durabilities, the likeliest to notice a mistake in a module first."""
    place = module.removeprefix("pubweave/")
    first = next((names for room, names in FIRST.items() if place.startswith(room)), ())
    names = sorted(set(SCENARIOS) - NOTHING_TO_FIND, key=lambda name: (name not in first, name))
    runs = [
        (name, durability)
        for name in names
        for durability in ("memory", "journal")
        if durability == "memory" or name in DURABLE
    ]
    if place.startswith("core/journal"):
        runs.sort(key=lambda run: run[1] != "journal")
    return [f"{name}:{durability}" for name, durability in runs]


def judge(mistake: Mutation, seeds: int, *, has_tests: bool) -> Verdict:
    """Give a mutant to the simulator and, if that does not notice, to the fast tests."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as scratch:
        folder = Path(scratch)
        plant(mistake, folder)
        simulate = ["-m", "soak.mutant_seeds", "--seeds", str(seeds), *runs_for(mistake.module)]
        how = _failure(simulate, folder)
        if how is not None:
            return Verdict(mistake, "simulator", how, time.monotonic() - began)
        if has_tests:
            how = _failure(_pytest(mistake.module), folder)
        noticed_by = "" if how is None else "tests"
        return Verdict(mistake, noticed_by, how or "", time.monotonic() - began)


def _pytest(module: str) -> list[str]:
    """The fast tests of the mutant's own room, then the others."""
    room = ROOT / "tests/unit" / Path(module).relative_to("pubweave").parent
    own = [str(room.relative_to(ROOT))] if room.is_dir() else []
    mark = ["-m", "not slow and not browser"]
    return [
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        *mark,
        *own,
        *TESTS,
        "tests/sockets",
    ]


def _failure(arguments: Sequence[str], folder: Path) -> str | None:
    """Run Python on a mutant; the last line that it says if it fails, None if it does not."""
    environment = os.environ | {
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SLOWEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {SLOWEST_S:.0f} s"
    if done.returncode == 0:
        return None
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return (failed or lines or [f"exit code {done.returncode}"])[-1][:300]


def judge_all(
    mutations: Sequence[Mutation], seeds: int, jobs: int, *, has_tests: bool
) -> Iterator[Verdict]:
    """Verdicts as they come."""
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(judge, each, seeds, has_tests=has_tests) for each in mutations]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for each in waiting:
                each.cancel()


def report(verdicts: Sequence[Verdict]) -> str:
    """How many were noticed by what, and those that nothing noticed."""
    by = Counter(each.noticed_by for each in verdicts)
    unseen = [each for each in verdicts if not each.noticed_by]
    lines = [
        f"{len(verdicts)} mutants: {by['simulator']} noticed by the simulator, {by['tests']} more "
        f"by the fast tests, {len(unseen)} by neither"
    ]
    for title, some in (
        ("noticed by the tests only:", [each for each in verdicts if each.noticed_by == "tests"]),
        ("noticed by neither:", unseen),
    ):
        if some:
            lines += [title, *(f"  {each.mutation.name}  {each.mutation}" for each in some)]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100, help="how many mutants [100]")
    parser.add_argument("--seed", type=int, default=0, help="which ones [0]")
    parser.add_argument("--seeds", type=int, default=30, help="of each scenario [30]")
    parser.add_argument("--only", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--one", metavar="MODULE:NUMBER", help="only this mutant")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-tests", action="store_true", help="ask the simulator only")
    parser.add_argument("--list", action="store_true", help="show the mutants, run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="verdicts, written as they come")
    parser.add_argument("--resume", action="store_true", help="keep what is in the file of --json")
    given = parser.parse_args()
    mutations = _chosen(given.one, given.only, given.count, given.seed)
    if given.list:
        print("\n".join(f"{each.name}  {each}" for each in mutations))
        return 0
    verdicts: list[Verdict] = []
    if given.resume and given.json is not None and given.json.exists():
        verdicts = _read(given.json)
        done = {each.mutation for each in verdicts}
        mutations = [each for each in mutations if each not in done]
    try:
        found = judge_all(mutations, given.seeds, given.jobs, has_tests=not given.no_tests)
        for verdict in found:
            verdicts.append(verdict)
            said = verdict.noticed_by or "NOT NOTICED"
            print(f"{said:12} {verdict.seconds:5.0f} s  {verdict.mutation}", flush=True)
            if given.json is not None:
                given.json.write_text(json.dumps([asdict(each) for each in verdicts], indent=1))
    except KeyboardInterrupt:
        print("interrupted: the verdicts so far count; --json with --resume goes on from there")
    print(report(verdicts))
    return 0


def _chosen(one: str | None, only: Sequence[str], count: int, seed: int) -> list[Mutation]:
    if one is None:
        return draw(protocol_modules(only), count, random.Random(seed))
    module, _, number = one.rpartition(":")
    path = PACKAGE.parent / module
    if not path.is_file() or not number.isdigit():
        raise SystemExit(f"--one {one}: expected MODULE:NUMBER, e.g. pubweave/core/broker.py:17")
    sites = count_sites(path.read_text())
    if int(number) >= sites:
        raise SystemExit(f"--one {one}: {module} has mutations 0 to {sites - 1}")
    return [_mutation(path, int(number))]


def _read(path: Path) -> list[Verdict]:
    return [
        Verdict(Mutation(**each["mutation"]), each["noticed_by"], each["how"], each["seconds"])
        for each in json.loads(path.read_text())
    ]


if __name__ == "__main__":
    sys.exit(main())

"""How old the news in a followed profile is, beside a live overlay on the same machine.

    python -m soak.run_follow [--brokers N] [--seconds S] [--work DIR] [--json]

Starts the overlay of ``pubweave demo`` (stock traders on broker processes) and, once it has
written telemetry, ``pubweave profile --follow`` beside it. Every refresh tells how long the oldest
record of its batch waited from the writing of its file until it was in the profile (``told_s``).
The command is ready when it says that it follows: Spark has started, and the first profile is there
(``start_s`` after the command began). What was written before waits from then on (``waited_s``):
the bar is for what is written while the command follows, and ``told_s`` says what a start costs.
Both are ended by an interrupt, as a user would.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

WAITED_MAX_S = 30.0
START_LIMIT_S = 120.0
END_LIMIT_S = 60.0
PUBWEAVE = (sys.executable, "-m", "pubweave")


@dataclass(frozen=True)
class Refresh:
    """One profile of the followed run."""

    batch: int
    at_s: float
    """Since the command was ready."""
    waited_s: float
    """Of the oldest record of the batch, since its file was written and the command was ready."""
    told_s: float
    """The same since its file was written."""
    open_records: int
    closed_records: int
    rebuilt: str | None


def run(brokers: int, seconds: float, work: Path) -> dict[str, Any]:
    """Follow a live overlay for some time; every refresh, and the longest wait."""
    overlay_dir, profile_dir = work / "overlay", work / "profile"
    demo = ("demo", "--brokers", str(brokers), "--seconds", str(10 * seconds), "--json",
            "--run-dir", str(overlay_dir))  # fmt: skip
    follow = ("profile", str(overlay_dir), "-o", str(profile_dir), "--follow", "--json")
    with _running(demo, work / "overlay.log"):
        _wait_for(overlay_dir / "telemetry" / "deliveries")
        with _running(follow, work / "follow.log") as process:
            refreshes, start_s = _watched(process, seconds)
    later = refreshes[1:]  # the first profile is the start
    waits = [refresh.waited_s for refresh in later]
    return {
        "load_average": os.getloadavg()[0],
        "start_s": start_s,
        "told_s_max": max((refresh.told_s for refresh in later), default=float("inf")),
        "waited_s_max": max(waits, default=float("inf")),
        "bar": f"{'met' if waits and max(waits) <= WAITED_MAX_S else 'MISSED'} "
        f"(at most {WAITED_MAX_S:g} s)",
        "refreshes": [asdict(refresh) for refresh in refreshes],
    }


def _watched(process: subprocess.Popen[str], seconds: float) -> tuple[list[Refresh], float]:
    """The refreshes of some seconds from when the command is ready, and how long that took."""
    started = time.time()
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("following"):
            break
    ready = time.time()
    drained = threading.Thread(target=process.stderr.read, daemon=True)
    drained.start()
    ending = threading.Timer(seconds, process.send_signal, [signal.SIGINT])
    ending.start()
    refreshes = [_refresh(json.loads(line), ready, time.time()) for line in process.stdout]
    ending.cancel()
    return refreshes, ready - started


def _refresh(about: dict[str, Any], ready: float, now: float) -> Refresh:
    told = about["refresh"]
    return Refresh(
        batch=about["batch"],
        at_s=now - ready,
        waited_s=min(told["waited_s"], now - ready),
        told_s=told["waited_s"],
        open_records=told["open_records"],
        closed_records=told["closed_records"],
        rebuilt=told["rebuilt"],
    )


@contextmanager
def _running(arguments: tuple[str, ...], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A command of pubweave, interrupted when the block ends; the overlay prints to its log."""
    piped = arguments[0] == "profile"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*PUBWEAVE, *arguments],
            stdout=subprocess.PIPE if piped else out,
            stderr=subprocess.PIPE if piped else out,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(folder: Path) -> None:
    """Until a folder has a file."""
    until = time.monotonic() + START_LIMIT_S
    while not any(folder.glob("*.parquet")):
        if time.monotonic() > until:
            raise TimeoutError(f"{folder} stays empty: the overlay's log is beside it")
        time.sleep(0.2)


def main() -> int:
    """The command line; exit code 1 if any record waited too long."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--work", type=Path, help="keep telemetry, profile and logs there")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = given.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        figures = run(given.brokers, given.seconds, work)
    if given.json:
        print(json.dumps(figures))
        return 0 if figures["waited_s_max"] <= WAITED_MAX_S else 1
    for row in figures.pop("refreshes"):
        anew = "" if row["rebuilt"] is None else f"  all counted anew: {row['rebuilt']}"
        print(
            f"batch {row['batch']:3} at {row['at_s']:5.0f} s: waited {row['waited_s']:4.1f} s "
            f"({row['told_s']:4.1f} from writing), "
            f"{row['open_records']:9,} open, {row['closed_records']:9,} closed{anew}"
        )
    for name, value in figures.items():
        print(f"{name:16} {value}")
    return 0 if figures["waited_s_max"] <= WAITED_MAX_S else 1


if __name__ == "__main__":
    sys.exit(main())

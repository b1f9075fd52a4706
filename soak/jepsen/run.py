"""The command line of the trial; see the sign of this room.

    python -m soak.jepsen --minutes 30 --strategy all --seed 1
    python -m soak.jepsen --minutes 5 --strategy tree_journal --only kill --only "full disk"
    python -m soak.jepsen --minutes 5 --only stop --for 45
    python -m soak.jepsen --minutes 2 --only none              # no faults, for comparison

Exit code 0 if everything holds, 1 on violations, 2 if it could not be set up. Ctrl-C ends a trial
early, with a verdict on what was until then. Everything is kept in --keep DIR/STRATEGY-seed-N:
report.html, report.json, histories (which `soak.jepsen.checker` judges again), logs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pubweave.runtime.net.errors import OverlayError
from soak.jepsen import schedule
from soak.jepsen.page import write_page
from soak.jepsen.sandbox import INSIDE, SetUpError, enter, unshare_command
from soak.jepsen.settings import KINDS, TrialSettings
from soak.jepsen.trial import Trial

NONE = "none"
OUTSIDE = "PUBWEAVE_JEPSEN_OUTSIDE"


def parser() -> argparse.ArgumentParser:
    kinds = sorted({*schedule.COMMON, *(k for each in KINDS.values() for k in each.extra)})
    made = argparse.ArgumentParser(
        prog="python -m soak.jepsen", description=(__doc__ or "").splitlines()[0]
    )
    made.add_argument("--minutes", type=float, default=30.0, help="of traffic, per strategy")
    made.add_argument("--strategy", choices=[*KINDS, "all"], default="tree")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--brokers", type=int, default=6)
    made.add_argument("--rate", type=float, default=80.0, help="native publications/s in all")
    made.add_argument("--mqtt-rate", type=float, default=16.0, help="the same of MQTT clients")
    made.add_argument("--payload", type=int, default=120, metavar="BYTES")
    made.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[*kinds, NONE],
        metavar="FAULT",
        help=f"only these faults: {', '.join(kinds)}; {NONE}",
    )
    made.add_argument("--for", type=float, dest="for_s", metavar="SECONDS", help="each fault")
    made.add_argument(
        "--settle",
        type=float,
        metavar="SECONDS",
        help="native subscriptions stand after so long without a fault, not when confirmed",
    )
    made.add_argument("--patience", type=float, default=120.0, metavar="SECONDS")
    made.add_argument("--history-mb", type=int, default=2000, help="a trial with more ends early")
    made.add_argument("--keep", type=Path, default=Path("runs/soak"), metavar="DIR")
    made.add_argument("--json", action="store_true", help="the verdicts as JSON on standard output")
    return made


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Outside: look for a sandbox and go in. Inside: the trials."""
    given = parser().parse_args()
    if given.minutes < 0.75:
        print(
            "--minutes must be 0.75 at least: the first 5 s and the last 20 s are calm",
            file=sys.stderr,
        )
        return 2
    if INSIDE not in os.environ and OUTSIDE not in os.environ:
        command = unshare_command()
        if command is not None:
            return enter(sys.argv[1:], command)
    return asyncio.run(_all(given))


async def _all(given: argparse.Namespace) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    kinds = list(KINDS) if given.strategy == "all" else [given.strategy]
    found: list[dict[str, Any]] = []
    for kind in kinds:
        if stop.is_set():
            break
        settings = TrialSettings(
            kind=kind,
            minutes=given.minutes,
            seed=given.seed,
            brokers=given.brokers,
            rate=given.rate,
            mqtt_rate=given.mqtt_rate,
            payload_bytes=given.payload,
            faults=tuple(given.only),
            for_s=given.for_s,
            settle_s=20.0 if given.settle is None else given.settle,
            awaits_confirmation=given.settle is None,
            patience_s=given.patience,
            history_mb=given.history_mb,
        )
        try:
            found.append(await _one(settings, given.keep, stop))
        except (SetUpError, OverlayError) as error:
            say(f"cannot set up {kind}: {error}")
            return 2
    if given.json:
        print(json.dumps(found))
    return 1 if any(each["violations"] for each in found) else 0


async def _one(settings: TrialSettings, keep: Path, stop: asyncio.Event) -> dict[str, Any]:
    directory = (keep / f"{settings.kind}-seed-{settings.seed}").absolute()
    number = 1
    while directory.exists():
        number += 1
        directory = directory.with_name(f"{settings.kind}-seed-{settings.seed}-{number}")
    directory.mkdir(parents=True)
    say(f"{settings.kind}: everything goes to {directory}")
    found = await Trial(settings, directory, say, stop).run()
    (directory / "report.json").write_text(json.dumps(found, indent=1))
    write_page(found, directory / "report.html")
    say(f"{settings.kind}: {in_words(found)}; {directory / 'report.html'}")
    return found


def in_words(found: dict[str, Any]) -> str:
    counts = found["counts"]
    shown = ", ".join(f"{count} {kind}" for kind, count in found["violations"].items())
    lines = [
        f"{found['verdict']}{': ' + shown if shown else ''}",
        f"{counts.get('published', 0):,} published, {counts.get('wanted', 0):,} wanted, "
        f"{counts.get('due', 0):,} due, {counts.get('missing', 0):,} missing",
        f"{counts.get('faults', 0)} faults",
    ]
    return "; ".join(lines)

"""Attacks on a secured overlay while good clients publish: does anybody notice?

    python -m fuzz.run_attacks [--minutes 10] [--seconds 10] [--only NAME] [--json FILE]

Two brokers as processes with TLS, users and rules; a good publisher at the first, a good
subscriber at the second, 100 publications a second. Each attack goes against the first broker for
``--seconds``, each fuzzing for ``--minutes``. For each: how long the good publications took, that
none was lost or doubled, what the broker counted, its memory before and after. A quiet stretch of
the same length goes before every attack, for comparison in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from fuzz.attacks import ATTACKS, FUZZES, PLAYED_BROKER
from pubweave.model.topology import Topology
from pubweave.runtime.client.client import Client
from pubweave.runtime.client.connect import connect
from pubweave.runtime.net.clock import UnixClock
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import make_spec
from pubweave.runtime.security.directory import SecurityDirectory
from pubweave.runtime.security.setup import SecuritySetup
from pubweave.runtime.settings.tree import BrokerTable, SecurityTable, Settings

RATE_PER_S = 100.0
QUIET_S = 5.0
SETTLE_S = 2.0
LATE_MS = 50.0
"""More than this beside the quiet stretch, at the 99th percentile, counts as noticed."""
RULES = """
[users.operator]
operate = true
[users.good]
publish = ["class = 'good'"]
subscribe = ["class = 'good'"]
[users.mallory]
publish = ["class prefix 'mallory/'"]
subscribe = ["class prefix 'mallory/'"]
"""


@dataclass(frozen=True)
class Stretch:
    """What the good clients saw during some seconds."""

    published: int
    delivered: int
    latency_ms_p50: float
    latency_ms_p99: float
    latency_ms_max: float


@dataclass(frozen=True)
class Outcome:
    """One attack beside the quiet stretch before it."""

    attack: str
    seconds: float
    attempts: int
    quiet: Stretch
    attacked: Stretch
    refused: dict[str, int]
    protocol_errors: int
    rss_mb: tuple[float, float]
    broker_died: bool
    bugs: int
    """Exceptions in the broker's log: what it did not expect, and closed the connection for."""

    @property
    def is_unnoticed(self) -> bool:
        """Whether nothing was lost or late, nobody died, and the attack was counted."""
        return (
            self.attacked.delivered == self.attacked.published
            and self.attacked.latency_ms_p99 <= self.quiet.latency_ms_p99 + LATE_MS
            and not self.broker_died
            and not self.bugs
            and (bool(self.refused) or self.protocol_errors > 0)
        )


class GoodClients:
    """One publisher and one subscriber, and how long it takes between them."""

    def __init__(self, publisher: Client, subscriber: Client) -> None:
        self._publisher = publisher
        self._subscriber = subscriber
        self._clock = UnixClock()
        self._latencies_ms: list[float] = []
        self._published = 0

    async def run(self) -> None:
        """Publish and receive until cancelled."""
        notifications = await self._subscriber.subscribe("class = 'good'")
        await self._publisher.advertise("class = 'good'")
        await asyncio.sleep(1.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._publish())
            async for publication in notifications:
                if publication.publisher != self._publisher.id:
                    continue  # whoever has a broker's key can make up others
                took_s = self._clock.now() - publication.published_at
                self._latencies_ms.append(1000.0 * took_s)

    async def _publish(self) -> None:
        began = time.monotonic()
        while True:
            await self._publisher.publish("good", {}, b"x" * 100)
            self._published += 1
            due = began + self._published / RATE_PER_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def watch(self, seconds: float) -> Stretch:
        """What happened in the next seconds; waits for what is under way at the end."""
        first, sent = len(self._latencies_ms), self._published
        await asyncio.sleep(seconds)
        published = self._published - sent
        for _ in range(200):
            if len(self._latencies_ms) - first >= published:
                break
            await asyncio.sleep(0.05)
        found = np.array(self._latencies_ms[first : first + published])
        p50, p99, most = (np.percentile(found, q) if len(found) else -1.0 for q in (50, 99, 100))
        return Stretch(published, len(found), *(round(float(v), 2) for v in (p50, p99, most)))


@dataclass(frozen=True)
class Target:
    """The overlay under attack, what secures it, and the log of the broker in question."""

    overlay: Overlay
    security: SecurityDirectory
    log: Path


def make_target(directory: Path) -> Target:
    topology = Topology.from_links([("b1", "b2"), ("b1", PLAYED_BROKER)])
    security = SecurityDirectory(directory / "secure")
    setup = SecuritySetup(security, datetime.datetime.now(datetime.UTC))
    list(setup.create(topology.brokers, ["good", "mallory"]))
    security.access.write_text(RULES)
    table = BrokerTable(security=SecurityTable(directory=security.path))
    spec = make_spec(topology, Settings(table), base_port=0)
    run_directory = RunDirectory(directory / "run")
    overlay = Overlay(spec, run_directory, restart=False)
    return Target(overlay, security, run_directory.log_file("b1"))


async def attacked(target: Target, good: GoodClients, name: str, seconds: float) -> Outcome:
    """One attack, with a quiet stretch before it."""
    overlay, security = target.overlay, target.security
    quiet = await good.watch(QUIET_S)
    before, rss_before, bugs = await _counts(overlay), _rss_mb(overlay), _bugs(target.log)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fuzz.attacks", name),
        *("--address", str(overlay.spec.addresses["b1"]), "--security", str(security.path)),
        *("--seconds", str(seconds)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    told, seen = await asyncio.gather(process.communicate(), good.watch(seconds + SETTLE_S))
    if process.returncode != 0:
        raise RuntimeError(f"the attacker failed: {told[1].decode()}")
    after = await _counts(overlay)
    refused = {k: n - before[0].get(k, 0) for k, n in after[0].items() if n > before[0].get(k, 0)}
    return Outcome(
        name,
        seconds,
        json.loads(told[0])["attempts"],
        quiet,
        seen,
        refused,
        after[1] - before[1],
        (rss_before, _rss_mb(overlay)),
        overlay.pid("b1") is None or overlay.pid("b2") is None,
        _bugs(target.log) - bugs,
    )


async def _counts(overlay: Overlay) -> tuple[dict[str, int], int]:
    status = (await overlay.snapshot()).statuses["b1"]
    if status is None or status.access is None:
        return {}, 0
    return dict(status.access.refused), status.counters.protocol_errors


def _share_priority(pid: int | None) -> None:
    """Brokers have sessions of their own, and so priorities: give them that of this process."""
    with contextlib.suppress(OSError, IndexError):
        own = Path("/proc/self/autogroup").read_text().split()[-1]
        Path(f"/proc/{pid}/autogroup").write_text(own)


def _bugs(log: Path) -> int:
    return log.read_text().count("handling messages failed") if log.exists() else 0


def _rss_mb(overlay: Overlay) -> float:
    pid = overlay.pid("b1")
    text = "" if pid is None else Path(f"/proc/{pid}/status").read_text()
    lines = [line for line in text.splitlines() if line.startswith("VmRSS:")]
    return round(int(lines[0].split()[1]) / 1024, 1) if lines else -1.0


async def run(names: list[str], seconds: float, fuzz_s: float) -> list[Outcome]:
    outcomes = []
    with tempfile.TemporaryDirectory() as scratch:
        target = make_target(Path(scratch))
        async with target.overlay as overlay:
            # Its place at the first broker is the attacker's from now on.
            os.kill(overlay.pid(PLAYED_BROKER) or 0, signal.SIGKILL)
            for broker in ("b1", "b2"):
                _share_priority(overlay.pid(broker))
            credentials = target.security.credentials("good")
            addresses = overlay.spec.addresses
            async with (
                connect(addresses["b1"], credentials=credentials) as publisher,
                connect(addresses["b2"], credentials=credentials) as subscriber,
            ):
                good = GoodClients(publisher, subscriber)
                running = asyncio.create_task(good.run())
                await asyncio.sleep(2.0)
                for name in names:
                    lasts_s = fuzz_s if name in FUZZES else seconds
                    outcome = await attacked(target, good, name, lasts_s)
                    outcomes.append(outcome)
                    print(_line(outcome), flush=True)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
    return outcomes


def _line(outcome: Outcome) -> str:
    quiet, seen = outcome.quiet, outcome.attacked
    refused = ", ".join(f"{name} {count:,}" for name, count in sorted(outcome.refused.items()))
    verdict = "unnoticed" if outcome.is_unnoticed else "NOTICED"
    return (
        f"{outcome.attack:20} {outcome.attempts:8,} attempts, {outcome.seconds:.0f} s: {verdict}; "
        f"p50/p99/max {seen.latency_ms_p50:.1f}/{seen.latency_ms_p99:.1f}/"
        f"{seen.latency_ms_max:.1f} ms (quiet {quiet.latency_ms_p50:.1f}/"
        f"{quiet.latency_ms_p99:.1f}/{quiet.latency_ms_max:.1f}); "
        f"{seen.published - seen.delivered} of {seen.published} lost; "
        f"RSS {outcome.rss_mb[0]:.0f} -> {outcome.rss_mb[1]:.0f} MB; refused: {refused or '-'}; "
        f"protocol errors {outcome.protocol_errors:,}, bugs {outcome.bugs}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each fuzzing")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each other attack")
    parser.add_argument("--only", action="append", choices=list(ATTACKS))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    names = arguments.only or list(ATTACKS)
    outcomes = uvloop.run(run(names, arguments.seconds, 60.0 * arguments.minutes))
    if arguments.json is not None:
        documents: list[dict[str, Any]] = [asdict(outcome) for outcome in outcomes]
        arguments.json.write_text(json.dumps(documents, indent=2) + "\n")
    sys.exit(0 if all(outcome.is_unnoticed for outcome in outcomes) else 1)


if __name__ == "__main__":
    main()

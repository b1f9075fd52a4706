"""A broker whose disk is really full: does it stop accepting, say so, and go on when there is room?

    python -m soak.run_full_disk [--megabytes 24] [--rounds 3] [--json]   # as root: mounts
    python -m soak.run_full_disk --directory /mnt/small     # on a small file system

One broker process with its journal on a small file system, a publisher and a subscriber. In each
round the rest of the file system is filled up; once in between, the broker is killed and started
again while it is full. What is asked: nothing is acknowledged while nothing can be written, a
status query is answered and names the problem, and when there is room again everything published
arrives once and in order.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from bench.rivals import ROOT, free_ports

import pubweave
from pubweave.model.records.status import BrokerStatus

FILTER = "class = 'full'"
FULL_S = 3.0
GAP_S = 1.0
BLOCK = 4096


@dataclass
class SmallDisk:
    """A directory on a file system that can be filled up."""

    directory: Path

    @property
    def _ballast(self) -> Path:
        return self.directory / "ballast"

    def fill(self) -> int:
        """Take all the room there is; how many bytes that was."""
        with self._ballast.open("ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(b"\0" * BLOCK)
        return self._ballast.stat().st_size

    def clear(self) -> None:
        self._ballast.unlink()


class Process:
    """The broker under test."""

    def __init__(self, directory: Path, log: Path) -> None:
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self._log = log
        self._command = [sys.executable, "-m", "pubweave", "broker", "--id", "b1"]
        self._command += ["--listen", self.address, "--durability", "journal"]
        self._command += ["--journal-dir", str(directory / "journal")]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def exit_code(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    def last_words(self) -> str:
        return self._log.read_text().strip().splitlines()[-1]


@dataclass
class FullDiskRun:
    disk: SmallDisk
    broker: Process
    rounds: int
    published: int = 0
    acknowledged: int = 0
    got: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    async def run(self) -> dict[str, Any]:
        self.broker.start()
        await self._until_up()
        found: list[dict[str, Any]] = []
        address = self.broker.address
        async with pubweave.connect(address) as publisher, pubweave.connect(address) as subscriber:
            await publisher.advertise(FILTER)
            wanted = await subscriber.subscribe(FILTER)
            await subscriber.flush()
            tasks = [
                asyncio.create_task(self._publish(publisher)),
                asyncio.create_task(self._receive(wanted)),
            ]
            for number in range(self.rounds):
                await asyncio.sleep(GAP_S)
                found.append(await self._full(is_killed=number == 1))
            await asyncio.sleep(GAP_S)
            tasks[0].cancel()
            await publisher.flush()
            await _until(lambda: len(self.got) >= self.published, 30.0)
            tasks[1].cancel()
        self.broker.kill()
        is_clean = self.got == list(range(1, self.published + 1)) and not self.problems
        return {
            "published": self.published,
            "delivered": len(self.got),
            "once_and_in_order": self.got == list(range(1, self.published + 1)),
            "rounds": found,
            "problems": self.problems,
            "is_clean": is_clean,
        }

    async def _publish(self, publisher: pubweave.Client) -> None:
        while True:
            self.published += 1
            await publisher.publish("full", {"n": self.published}, b"x" * 500)
            await publisher.flush()
            self.acknowledged = self.published
            await asyncio.sleep(0.002)

    async def _receive(self, wanted: pubweave.Subscription) -> None:
        async for notification in wanted:
            self.got.append(int(notification.attributes["n"]))

    async def _full(self, *, is_killed: bool) -> dict[str, Any]:
        """One time without room; what was seen."""
        ballast = self.disk.fill()
        await asyncio.sleep(0.5)
        before = self.acknowledged
        self.disk.fill()  # what a snapshot gave back meanwhile
        await asyncio.sleep(FULL_S)
        told = await self._status()
        problem = told.journal.problem if told.journal is not None else ""
        seen: dict[str, Any] = {"ballast_bytes": ballast, "status": problem}
        seen["acknowledged_while_full"] = self.acknowledged - before
        if "No space left" not in problem:
            self.problems.append(f"status says {problem!r}")
        if is_killed:
            seen["killed"] = await self._restart_without_room()
        self.disk.clear()
        began, reached = time.monotonic(), self.acknowledged
        if is_killed and self.broker.exit_code() is not None:
            self.broker.start()
        await _until(lambda: self.acknowledged > reached, 60.0)
        seen["goes_on_after_s"] = round(time.monotonic() - began, 2)
        return seen

    async def _restart_without_room(self) -> str:
        """Start it again while the disk is full; what came of it, in words."""
        self.broker.kill()
        self.broker.start()
        await asyncio.sleep(5.0)
        code = self.broker.exit_code()
        return "is up" if code is None else f"exit {code}: {self.broker.last_words()}"

    async def _status(self) -> BrokerStatus:
        async with pubweave.connect(self.broker.address, client_id="$looks") as observer:
            return msgspec.json.decode(await observer.query("status"), type=BrokerStatus)

    async def _until_up(self) -> None:
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(pubweave.ClientError, OSError):
                    await self._status()
                    return
                await asyncio.sleep(0.1)


async def _until(is_so: Callable[[], bool], limit_s: float) -> None:
    """TimeoutError if it is not so in time."""
    end = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {limit_s:g} s")
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def small_disk(directory: Path | None, megabytes: int) -> Iterator[SmallDisk]:
    """``directory``, or a file system made for this."""
    if directory is not None:
        yield SmallDisk(directory)
        return
    if os.geteuid():
        raise SystemExit("mounting needs root: name a small file system with --directory")
    with tempfile.TemporaryDirectory(prefix="pubweave-full-") as made:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", made], check=True
        )
        try:
            yield SmallDisk(Path(made))
        finally:
            subprocess.run(["umount", "--lazy", made], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--directory", type=Path, help="on a small file system")
    parser.add_argument("--megabytes", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with (
        small_disk(options.directory, options.megabytes) as disk,
        tempfile.TemporaryDirectory() as d,
    ):
        broker = Process(disk.directory, Path(d) / "b1.log")
        result = asyncio.run(FullDiskRun(disk, broker, options.rounds).run())
    print(json.dumps(result, indent=None if options.json else 2))
    sys.exit(0 if result["is_clean"] else 1)


if __name__ == "__main__":
    main()

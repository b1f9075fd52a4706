"""The overlay of `run_sleepers`: ``pubweave up`` as a process, its brokers behind it.

Everything is found as an operator would: process ids in the run directory, counters with
``pubweave status --json``. It ends by itself after a time, should nobody be left to end it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.rivals import ROOT

import pubweave

START_LIMIT_S = 90.0
STOP_LIMIT_S = 25.0
BACK_LIMIT_S = 60.0
STATUS_LIMIT_S = 60.0
LOOK_EVERY_S = 0.1
TELLING = ("clients_expired",)
"""Counters that tell of losses, besides all that have one of these words in their names:"""
TELLING_WORDS = ("lost", "left")


class RunFailedError(Exception):
    """The run cannot be judged; the message says why."""


def environment() -> dict[str, str]:
    """Of every process here: it runs the code that this process has imported, with one thread."""
    paths = [str(Path(pubweave.__file__).parent.parent), str(ROOT)]
    if earlier := os.environ.get("PYTHONPATH"):
        paths.append(earlier)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}


class OverlayProcess:
    """``pubweave up`` in a directory, from `start` to `close`."""

    def __init__(self, scratch: Path, *, strategy: str, durability: str, limit_s: float) -> None:
        self._scratch = scratch
        self._run_dir = scratch / "run"
        self._options = ["--strategy", strategy, "--durability", durability]
        self._options += ["--duration", str(limit_s)]
        self._process: subprocess.Popen[bytes] | None = None
        self._known_pids: set[int] = set()
        self._first_counted: dict[tuple[str, int], dict[str, int]] | None = None
        self._counted: dict[tuple[str, int], dict[str, int]] = {}

    # --- its beginning and its end -----------------------------------------------------------

    async def start(self, brokers: int, seed: int) -> None:
        """All brokers of a tree that is drawn from the seed."""
        await self._pubweave(
            "topology",
            "generate",
            "random",
            "-n",
            str(brokers),
            "--seed",
            str(seed),
            "-o",
            "t.json",
        )
        self._process = self._up()
        deadline = time.monotonic() + START_LIMIT_S
        while self._state().get("condition") != "running":
            self.check()
            if time.monotonic() > deadline:
                raise RunFailedError("the overlay did not come up")
            await asyncio.sleep(LOOK_EVERY_S)
        self.pids()

    def _up(self) -> subprocess.Popen[bytes]:
        options = ["up", "t.json", "--port", "0", "--no-zookeeper", "--no-telemetry", "-q"]
        options += ["--run-dir", str(self._run_dir), *self._options]
        with (self._scratch / "up.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "pubweave", *options],
                cwd=self._scratch,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us
            )

    def check(self) -> None:
        """RunFailedError if the overlay is gone."""
        assert self._process is not None
        if self._process.poll() is not None:
            said = (self._scratch / "up.log").read_text()[-1500:]
            raise RunFailedError(f"pubweave up ended with {self._process.returncode}: {said}")

    def close(self) -> None:
        """Wake all that sleep and end everything; what is still there then is killed."""
        if self._process is None:
            return
        for pid in self._known_pids:
            self._signal(pid, signal.SIGCONT)
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pid in self._known_pids:
            self._signal(pid, signal.SIGKILL)

    # --- its brokers -------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        try:
            found = json.loads((self._run_dir / "overlay.json").read_bytes())
        except FileNotFoundError:
            return {}
        assert isinstance(found, dict)
        return found

    def addresses(self) -> dict[str, str]:
        return {broker: known["address"] for broker, known in self._state()["brokers"].items()}

    def pids(self) -> dict[str, int | None]:
        """The process of every broker; None while it has none."""
        found = {broker: known["pid"] for broker, known in self._state()["brokers"].items()}
        self._known_pids |= {pid for pid in found.values() if pid is not None}
        return found

    def send(self, broker: str, what: signal.Signals) -> None:
        """A signal to a broker's process; RunFailedError if it has none."""
        pid = self.pids()[broker]
        if pid is None or not self._signal(pid, what):
            raise RunFailedError(f"{broker} has no process to send {what.name} to")

    def is_asleep(self, broker: str) -> bool:
        text = Path(f"/proc/{self.pids()[broker]}/stat").read_text()
        return text.rpartition(")")[2].split()[0] == "T"

    async def wait_until_back(self, broker: str, killed: int | None) -> float:
        """Seconds until a broker that was killed listens again, in another process: ``up``
        starts it."""
        began = time.monotonic()
        while self.pids()[broker] in (None, killed):
            self.check()
            if time.monotonic() - began > BACK_LIMIT_S:
                raise RunFailedError(f"{broker} was not started again")
            await asyncio.sleep(LOOK_EVERY_S)
        return time.monotonic() - began

    def _signal(self, pid: int, what: signal.Signals) -> bool:
        """Only to a process that is a broker's still: numbers are given again."""
        try:
            if b"overlay.fork_server" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                return False
            os.kill(pid, what)
        except OSError:
            return False
        return True

    # --- what it says ------------------------------------------------------------------------

    async def count(self) -> list[str]:
        """Ask for the counters; the brokers that do not answer. Those of a broker that is killed
        later are kept; the first time is what everything is counted from."""
        document = json.loads(await self._pubweave("status", "--json", may_fail=True))
        for broker, status in document["broker_status"].items():
            if status["state"] == "up":
                counters = status["counters"]
                telling = {name: counters[name] for name in counters if _is_telling(name)}
                self._counted[broker, status["pid"]] = telling
        if self._first_counted is None:
            self._first_counted = dict(self._counted)
        down = document["down"]
        assert isinstance(down, list)
        return down

    def counted(self) -> dict[str, dict[str, int]]:
        """What each broker has counted since the first `count`, all its processes together."""
        total: dict[str, Counter[str]] = {}
        for key, telling in self._counted.items():
            before = (self._first_counted or {}).get(key, {})
            news = {name: count - before.get(name, 0) for name, count in telling.items()}
            total.setdefault(key[0], Counter()).update(news)
        return {broker: dict(counters) for broker, counters in sorted(total.items())}

    async def _pubweave(self, *arguments: str, may_fail: bool = False) -> str:
        """What a verb prints; RunFailedError if it fails."""
        options = [] if "-o" in arguments else ["--run-dir", str(self._run_dir)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pubweave", *arguments, *options),
            cwd=self._scratch,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(STATUS_LIMIT_S):
                out, err = await process.communicate()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        if process.returncode and not may_fail:
            raise RunFailedError(f"pubweave {arguments[0]}: {err.decode()[-500:]}")
        return out.decode()


def _is_telling(counter: str) -> bool:
    return counter in TELLING or any(word in counter for word in TELLING_WORDS)

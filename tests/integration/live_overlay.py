"""``pubweave up`` as a process, plans for it, and other ``pubweave`` processes beside it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from pubweave.generate.topologies.trees import change_links
from pubweave.model.files.plan import PlanRecord, topology_hash, write_plan
from pubweave.model.files.topology import write_topology
from pubweave.model.plans import Plan
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningProblem
from pubweave.planning.solver import solve_problem
from pubweave.runtime.overlay.run_directory import (
    OverlayCondition,
    OverlayState,
    read_state,
    read_store_login,
)

WAIT_S = 60.0


class LiveOverlay:
    """A running overlay in a directory of its own."""

    def __init__(
        self,
        directory: Path,
        topology: Topology,
        *,
        telemetry: bool = False,
        security: Path | None = None,
        further: tuple[str, ...] = (),
    ) -> None:
        """``further`` are other options of ``up``."""
        self.directory = directory
        self.topology = topology
        write_topology(topology, directory / "before.json")
        self._process = start(
            "up", str(directory / "before.json"), "--port", "0", "-q",
            *(() if telemetry else ("--no-telemetry",)), *self.options,
            *(() if security is None else ("--security", str(security))),
            *further,
        )  # fmt: skip
        try:
            until(self._is_running)
        except BaseException:
            self.close()
            raise

    @property
    def options(self) -> tuple[str, ...]:
        return ("--run-dir", str(self.directory / "run"))

    @property
    def state(self) -> OverlayState:
        return read_state(self.directory / "run")

    @property
    def login(self) -> str | None:
        """That of its own ZooKeeper."""
        return read_store_login(self.directory / "run", self.state)

    def current(self) -> Topology:
        """What the overlay looks like, as its state file says."""
        state = self.state
        return Topology.from_links(state.links, state.brokers)

    def make_plan(self, seed: int, ratio: float = 0.3) -> tuple[Path, Plan, Topology]:
        """A plan from what the overlay is now to something else: its file, itself, the target."""
        source = self.current()
        target = change_links(source, ratio, np.random.default_rng(seed))
        limit = time.monotonic() + 0.5
        result = solve_problem(
            PlanningProblem(source, target),
            stop=lambda: time.monotonic() > limit,
            clock=time.monotonic,
        )
        assert result.plan is not None
        path = self.directory / f"plan-{seed}.json"
        hashes = {"source_hash": topology_hash(source), "target_hash": topology_hash(target)}
        write_plan(PlanRecord(result.plan, **hashes), path)
        return path, result.plan, target

    def signal_broker(self, broker: str, number: signal.Signals) -> None:
        pid = self.state.brokers[broker].pid
        assert pid is not None
        os.kill(pid, number)

    def zookeeper_pid(self) -> int:
        """The process of the overlay's own ZooKeeper."""
        config = str(self.directory / "run" / "zookeeper" / "zoo.cfg").encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if config in (entry / "cmdline").read_bytes():
                    return int(entry.name)
        raise AssertionError("no ZooKeeper runs for this overlay")

    @contextlib.contextmanager
    def stopped_broker(self, broker: str) -> Iterator[None]:
        """A broker that does nothing for a while, so that a step cannot end meanwhile."""
        self.signal_broker(broker, signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal_broker(broker, signal.SIGCONT)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A ``pubweave`` process to its end."""
        process = start(*arguments, *self.options)
        output, errors = process.communicate(timeout=WAIT_S)
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.run("status", "--json").stdout)
        return document

    def is_whole(self) -> bool:
        """All brokers and exactly the links of the current topology stand."""
        status = self.status()
        return bool(not status["down"] and status["links_up"] == status["links"])

    def _is_running(self) -> bool:
        assert self._process.poll() is None, self._process.communicate()
        with contextlib.suppress(ValueError):
            return self.state.condition is OverlayCondition.RUNNING
        return False

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def start(*arguments: str) -> subprocess.Popen[str]:
    """A ``pubweave`` process whose output can be read."""
    return subprocess.Popen(
        [sys.executable, "-m", "pubweave", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def json_until(
    stream: IO[str] | None, is_reached: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The first JSON line of a process that is so."""
    assert stream is not None
    for line in stream:
        document: dict[str, Any] = json.loads(line)
        if is_reached(document):
            return document
    raise AssertionError("the output ended before that")


def until(condition: Callable[[], bool], limit_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)

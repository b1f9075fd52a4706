"""A run of drivers: rounds of work under faults, each with a rest, and an end that leaves nothing.

A workload is a part of its own (`native`, `mqtt`). After a rest, what was due must have come; when
all has stopped, no task runs, no connection stands and nobody listens, and no exception was lost.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pubweave.drivers.faults import DriverFaults, FaultCounts
from pubweave.drivers.overlay import DrivenOverlay
from pubweave.generate.topologies.trees import random_tree
from pubweave.runtime.net.connection import number_from
from pubweave.sim.eventloop.loop import VirtualLoop
from pubweave.sim.eventloop.process import SimProcess
from pubweave.sim.kernel.disk import DiskSetting
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.run import Options

START_S = 3.0
REST_S = 12.0
"""After all has healed: longer than any pause between dials, and than stale entries are kept."""
LOOK_S = 0.5
QUIET_S = 3.0
"""When nothing has come for so long, no more is to come."""
REST_LIMIT_S = 240.0
STOP_LIMIT_S = 30.0
ROUNDS = 2


class Workload(Protocol):
    """Clients of a run."""

    @property
    def processes(self) -> Sequence[SimProcess]: ...

    @property
    def violations(self) -> Sequence[str]: ...

    @property
    def seen(self) -> int:
        """How much has come so far."""

    def start(self) -> None:
        """All clients connect."""

    def settle(self) -> None:
        """At rest: say what is wanted and offered in the next round."""

    def act_until(self, end: float) -> None:
        """Draw what clients do until an instant."""

    def is_quiet(self) -> bool:
        """Whether nobody waits for anything."""

    def judge(self, *, memory_was_lost: bool) -> None:
        """All is at rest."""

    def leave(self) -> None:
        """All clients go."""

    def counts(self) -> dict[str, int]: ...


@dataclass(frozen=True)
class DriverSetting:
    """What a run is like."""

    brokers: int
    clients: int
    faults: FaultCounts
    round_s: float
    actions: int
    latency_s: tuple[float, float]
    capacity: tuple[int, int]
    splits: float
    stops_in_trouble: bool
    """Faults strike while everything stops."""
    window_bytes: int
    """Of the sessions of brokers: larger than any message, or whoever sends two is let go."""
    unread_bytes: int
    """What an MQTT client may leave unread before it is written less to."""

    @classmethod
    def draw(cls, world: World, max_brokers: int) -> DriverSetting:
        slow = world.chance(0.3)
        small = world.chance(0.4)
        return cls(
            brokers=world.integer(1, max_brokers),
            clients=world.integer(2, 7),
            faults=FaultCounts.draw(world),
            round_s=world.uniform(4.0, 12.0),
            actions=world.integer(40, 160),
            latency_s=(0.005, 0.08) if slow else (0.0001, 0.002),
            capacity=(2_000, 20_000) if small else (1 << 16, 1 << 18),
            splits=world.choice([0.0, 0.2, 0.8]),
            stops_in_trouble=world.chance(0.5),
            window_bytes=world.choice([1 << 15, 1 << 17, 1 << 20]),
            unread_bytes=world.choice([1 << 12, 1 << 15, 1 << 20]),
        )


class DriverRun:
    """One seed; `workload` is to be set before `run`."""

    def __init__(
        self,
        name: str,
        world: World,
        options: Options,
        setting: DriverSetting,
        *,
        with_mqtt: bool = False,
    ) -> None:
        self.name = name
        self.world = world
        self.setting = setting
        self.workload: Workload
        self.loop = VirtualLoop(world)  # type: ignore[abstract]
        network = self.loop.network
        network.latency_s, network.splits = setting.latency_s, setting.splits
        network.capacity = setting.capacity
        disks = DiskSetting.draw(world) if options.is_durable else DiskSetting()
        self.overlay = DrivenOverlay(
            self.loop,
            random_tree(setting.brokers, world.rng),
            disks,
            is_durable=options.is_durable,
            window_bytes=setting.window_bytes,
            mqtt_unread_bytes=setting.unread_bytes if with_mqtt else None,
        )
        self.faults = DriverFaults(
            self.overlay, lambda: self.workload.processes, setting.faults, options.pause_s
        )
        self.violations: list[str] = []

    def run(self) -> RunResult:
        with _quiet_process(self.world), self._logged(), self.loop.running():
            self._live()
        self.violations += self.workload.violations
        trace = self.world.trace
        return RunResult(
            scenario=self.name,
            seed=self.world.seed,
            violations=tuple(self.violations),
            setting={"brokers": self.setting.brokers, "clients": self.setting.clients},
            counts={
                **self.workload.counts(),
                "events": self.world.steps,
                **dict(sorted(self.faults.struck.items())),
            },
            virtual_s=round(self.world.now, 3),
            trace_digest=trace.digest() if trace is not None else None,
        )

    # --- phases ----------------------------------------------------------------------------

    def _live(self) -> None:
        world, workload = self.world, self.workload
        self.overlay.start()
        world.run_until(START_S)
        workload.start()
        if self._comes_to_rest():
            for _ in range(ROUNDS):
                if not self._go_round():
                    break
        if self.setting.stops_in_trouble and not self.violations:
            self.faults.strike_until(world.now + 1.0)
            workload.act_until(world.now + 1.0)
            world.run_until(world.now + 0.7)
        self._stop()
        gc.collect()
        self._violate_all("lost exception: ", self.loop.faults)
        self.loop.close()

    def _go_round(self) -> bool:
        workload, world = self.workload, self.world
        workload.settle()
        if not self._comes_to_rest():
            return False
        began, end = world.now, world.now + self.setting.round_s
        self.faults.strike_until(end)
        workload.act_until(end)
        world.run_until(end)
        self.faults.heal()
        if not self._comes_to_rest():
            return False
        crashed = any(
            at >= began for broker in self.overlay.brokers.values() for at in broker.crashes
        )
        workload.judge(memory_was_lost=crashed and not self.overlay.is_durable)
        return not workload.violations

    def _comes_to_rest(self) -> bool:
        world = self.world
        until = world.now + REST_LIMIT_S
        world.run_until(world.now + REST_S)
        seen, quiet_since = -1, world.now
        while world.now < quiet_since + QUIET_S:
            if world.now > until:
                self._violate("clients still wait, long after all has healed")
                return False
            world.run_until(world.now + LOOK_S)
            if seen != self.workload.seen or not self.workload.is_quiet():
                seen, quiet_since = self.workload.seen, world.now
        return True

    def _stop(self) -> None:
        """Everybody leaves; then nothing may be left."""
        self.workload.leave()
        self.world.run_until(self.world.now + 1.0)
        self.faults.heal()
        self.world.run_until(self.world.now + STOP_LIMIT_S)
        self.overlay.stop()
        self.world.run_until(self.world.now + STOP_LIMIT_S)
        brokers = [broker.process for broker in self.overlay.brokers.values()]
        for broker in self.overlay.brokers.values():
            if broker.life is not None and broker.life.done() and broker.life.exception():
                self._violate(f"{broker.process.name} failed: {broker.life.exception()!r}")
        for process in (*brokers, *self.workload.processes):
            self._check_left(process)

    def _check_left(self, process: SimProcess) -> None:
        if process.is_dead:
            return
        for task in process.tasks.values():
            self._violate(f"{process.name} has stopped, and a task goes on: {task!r}")
        for transport in process.transports.values():
            self._violate(f"{process.name} has stopped, and a connection stands: {transport!r}")
        for endpoint in process.endpoints.values():
            if endpoint.number not in process.transports:
                self._violate(f"{process.name} has stopped, and a socket is open: {endpoint.place}")
        for listening in self.loop.network.listening:
            if listening.process is process:
                self._violate(f"{process.name} has stopped and listens")

    def _violate(self, text: str) -> None:
        self.violations.append(f"{self.world.now:.3f} {text}")

    def _violate_all(self, prefix: str, texts: Sequence[str]) -> None:
        for text in texts:
            self._violate(prefix + text)

    # --- what belongs to the real process ----------------------------------------------------

    @contextlib.contextmanager
    def _logged(self) -> Iterator[None]:
        """Logs of drivers go into the trace; an error that was only logged is a violation."""
        logger = logging.getLogger("pubweave")
        handler = _TraceHandler(self)
        before = logger.propagate, logger.level
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.propagate = before[0]
            logger.setLevel(before[1])


class _TraceHandler(logging.Handler):
    def __init__(self, run: DriverRun) -> None:
        super().__init__()
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        run = self._run
        text = record.getMessage()
        run.world.note("log", text)
        if record.levelno >= logging.ERROR and "journal cannot be written" not in text:
            cause = record.exc_info[1] if record.exc_info else None
            run.violations.append(f"{run.world.now:.3f} logged: {text} {cause!r}")


@contextlib.contextmanager
def _quiet_process(world: World) -> Iterator[None]:
    """What a process has only one of is as the seed has it: chance, numbers, and no garbage is
    collected in between, so that what is forgotten is found at a certain instant."""
    state, collects = random.getstate(), gc.isenabled()
    random.seed(world.seed)
    number_from(1)
    gc.disable()
    try:
        yield
    finally:
        random.setstate(state)
        if collects:
            gc.enable()

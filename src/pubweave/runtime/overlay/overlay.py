"""An overlay on this machine: started, watched over, stopped.

`Overlay.start` returns when every broker listens and every link stands. From then on a broker
process that dies is reported at once and started again, waiting longer each time; it gets its
tables back from its neighbors and clients. `stop` leaves no process behind.

With a `StoreChoice` the overlay can be transformed while it runs: links are then what the store
says (`overlay/coordination`), from the start on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pubweave.deploy.documents import Layout, validate_name
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology
from pubweave.runtime.client.observer import OverlayObserver, OverlayStatuses
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.reserved_ports import ReservedPorts
from pubweave.runtime.overlay.broker_process import StartBroker
from pubweave.runtime.overlay.events import (
    BrokerDied,
    BrokerRestarted,
    OverlayEvent,
    StartProgress,
    StoreChoice,
    StoreTrouble,
)
from pubweave.runtime.overlay.fork_server import Exited, Listening, Started
from pubweave.runtime.overlay.processes import (
    BrokerRunner,
    InProcessRunner,
    ProcessRunner,
    RunnerEvent,
    ServerLost,
)
from pubweave.runtime.overlay.run_directory import (
    BrokerState,
    OverlayCondition,
    OverlayState,
    RunDirectory,
)
from pubweave.runtime.overlay.spec import OverlaySpec
from pubweave.runtime.security.directory import SecurityDirectory
from pubweave.runtime.store.zookeeper_target import Coordination, ZooKeeperTarget
from pubweave.telemetry.run_description import RunClock, RunDescription, write_run_description

if TYPE_CHECKING:
    from pubweave.runtime.overlay.coordination import OverlayCoordination

log = logging.getLogger(__name__)

START_LIMIT_S = 60.0
FIRST_BACK_OFF_S = 0.2
LONGEST_BACK_OFF_S = 10.0
STEADY_S = 30.0
"""A broker that ran this long before it died is started again without waiting long."""


@dataclass
class _Watched:
    """What the overlay knows of one broker."""

    pid: int | None = None
    is_listening: bool = False
    started_at: float = 0.0
    back_off_s: float = FIRST_BACK_OFF_S
    deaths: int = 0


class Overlay:
    """One overlay in one run directory: ``async with Overlay(spec, directory) as overlay``."""

    def __init__(
        self,
        spec: OverlaySpec,
        directory: RunDirectory,
        *,
        in_process: bool = False,
        restart: bool = True,
        store: StoreChoice | None = None,
        on_event: Callable[[OverlayEvent], None] = lambda event: None,
    ) -> None:
        """OverlayError if a port cannot be had, UnusableNameError if there is to be a store that
        cannot take a name. The directory is released by `stop`."""
        settings = spec.settings
        if settings.self_organizing.enabled and store is None:
            raise OverlayError(
                "a self-organizing overlay needs a store, where changes are decided: "
                "do not start it with --no-zookeeper"
            )
        if store is not None:
            Layout(spec.name)
            for broker in spec.brokers:
                validate_name(broker, "the broker's id")
        self._directory = directory
        self._ports = ReservedPorts(spec.addresses)
        self._mqtt_ports = ReservedPorts(spec.mqtt)
        self.spec = replace(spec, addresses=self._ports.addresses, mqtt=self._mqtt_ports.addresses)
        self.topology = spec.topology
        """As it is now."""
        security = settings.broker.security.directory
        self._security = None if security is None else SecurityDirectory(security)
        self.observer = OverlayObserver(
            self.spec.addresses,
            spec.topology.links,
            None if self._security is None else self._security.credentials(),
        )
        self.failure: str | None = None
        self._restart = restart
        self.on_progress: Callable[[StartProgress], None] = lambda progress: None
        self._on_event = on_event
        self._runner: BrokerRunner = (
            InProcessRunner(self._on_runner_event)
            if in_process
            else ProcessRunner(
                self._on_runner_event,
                with_telemetry=settings.broker.telemetry_directory is not None,
                with_agents=store is not None,
            )
        )
        self._brokers = {broker: _Watched() for broker in self.spec.brokers}
        self._coordination = None if store is None else self._coordinate(store)
        self._condition = OverlayCondition.STARTING
        self._started_at = time.time()
        self._changed = asyncio.Event()
        self._restarts: set[asyncio.Task[None]] = set()

    # --- what whoever starts an overlay calls ------------------------------------------------

    async def start(self, limit_s: float = START_LIMIT_S) -> None:
        """Start all brokers and wait for all links.

        OverlayError with the end of its log if a broker dies meanwhile; `stop` is still due."""
        self._describe_telemetry()
        self._write_state()
        if self._coordination is not None:
            await self._coordination.open()
        await self._runner.open()
        # Of each link the broker with the smaller id dials: let those that are dialed come first.
        for broker in sorted(self._brokers, reverse=True):
            await self._runner.start(self._order(broker))
        try:
            async with asyncio.timeout(limit_s):
                await self._wait_until_listening()
                await self._wait_until_linked()
        except TimeoutError:
            raise OverlayError(
                f"the overlay did not start within {limit_s:g} s: {self._missing()}"
            ) from None
        self._condition = OverlayCondition.RUNNING
        self._write_state()

    async def stop(self) -> None:
        """End all brokers, give ports and run directory back. May be called at any time."""
        if self._condition is OverlayCondition.STOPPED:
            return
        self._condition = OverlayCondition.STOPPED
        for restart in list(self._restarts):
            restart.cancel()
        try:
            await self.observer.close()
            await self._runner.close()
            if self._coordination is not None:
                await self._coordination.close()
        finally:
            self._ports.close()
            self._mqtt_ports.close()
            self._renew_state()
            self._directory.release()

    async def snapshot(self) -> OverlayStatuses:
        """What all brokers say of themselves; OverlayError if the overlay is lost as a whole."""
        if self.failure is not None:
            raise OverlayError(self.failure)
        return await self.observer.snapshot()

    def pid(self, broker: BrokerId) -> int | None:
        """The process of a broker; None while it has none."""
        watched = self._brokers.get(broker)
        return None if watched is None else watched.pid

    @property
    def zookeeper(self) -> ZooKeeperTarget | None:
        """Where the store of a started overlay is; None if it has none."""
        return None if self._coordination is None else self._coordination.target

    @property
    def deaths(self) -> int:
        """How many times a broker's process ended by itself."""
        return sum(watched.deaths for watched in self._brokers.values())

    async def __aenter__(self) -> Overlay:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- the store ---------------------------------------------------------------------------

    def _coordinate(self, choice: StoreChoice) -> OverlayCoordination:
        # Imported late: an overlay without a store does without kazoo.
        from pubweave.runtime.overlay.coordination import OverlayCoordination

        return OverlayCoordination(
            self.spec,
            self._directory,
            choice.target,
            self._on_topology,
            lambda text: self._on_event(StoreTrouble(text)),
        )

    def _on_topology(self, topology: Topology, addresses: dict[BrokerId, Address]) -> None:
        """The store says that the overlay looks like this now."""
        self.topology = topology
        self.observer.look_at(addresses, topology.links)
        if self._condition is OverlayCondition.RUNNING:
            self._renew_state()

    # --- starting ----------------------------------------------------------------------------

    def _order(self, broker: BrokerId) -> StartBroker:
        log_file = self._directory.log_file(broker).absolute()
        coordination = None
        if self._coordination is not None and self.spec.strategy_of(broker) == self.spec.strategy:
            coordination = Coordination(self.spec.name, self._coordination.target)
        held_file = log_file.with_suffix(".held")
        return StartBroker(self.spec.settings_of(broker, held_file), str(log_file), coordination)

    def _describe_telemetry(self) -> None:
        spec = self.spec
        telemetry = spec.settings.broker.telemetry
        if spec.settings.broker.telemetry_directory is not None:
            details = {"brokers": len(spec.brokers), "strategy": spec.strategy}
            write_run_description(
                spec.settings.broker.telemetry_directory,
                RunDescription(
                    spec.name, RunClock.UNIX, self._started_at, telemetry.sample, details
                ),
            )

    async def _wait_until_listening(self) -> None:
        while True:
            self._changed.clear()
            if self.failure is not None:
                raise OverlayError(self.failure)
            listening = sum(watched.is_listening for watched in self._brokers.values())
            self._report(listening, 0)
            if listening == len(self._brokers):
                return
            await self._changed.wait()

    async def _wait_until_linked(self) -> None:
        while True:
            seen = await self.snapshot()
            self._report(len(seen.up), seen.links_up)
            if not seen.down and seen.links_up == len(seen.links):
                return
            await asyncio.sleep(0.1)

    def _report(self, listening: int, links_up: int) -> None:
        links = len(self.spec.topology.links)
        self.on_progress(StartProgress(listening, len(self._brokers), links_up, links))

    def _missing(self) -> str:
        silent = [broker for broker, watched in self._brokers.items() if not watched.is_listening]
        if silent:
            return f"{len(silent)} broker(s) do not listen, for example {silent[0]!r}"
        return "some links are not established"

    # --- watching over it --------------------------------------------------------------------

    def _on_runner_event(self, event: RunnerEvent) -> None:
        match event:
            case Started(broker, pid):
                self._brokers[broker].pid = pid
                self._brokers[broker].started_at = time.monotonic()
            case Listening(broker, pid, _):
                self._on_listening(broker, pid)
            case Exited():
                self._on_exited(event)
            case ServerLost(exit_code):
                self.failure = f"all brokers are lost: their fork server ended with {exit_code}"
        self._changed.set()

    def _on_listening(self, broker: BrokerId, pid: int) -> None:
        watched = self._brokers[broker]
        watched.pid = pid
        watched.is_listening = True
        if self._condition is OverlayCondition.RUNNING:
            self._renew_state()
            if watched.deaths:
                self._on_event(BrokerRestarted(broker, pid))

    def _on_exited(self, event: Exited) -> None:
        watched = self._brokers[event.broker]
        watched.pid = None
        watched.is_listening = False
        if self._condition is OverlayCondition.STOPPED:
            return
        watched.deaths += 1
        is_starting = self._condition is OverlayCondition.STARTING
        restart_in_s = self._back_off(watched) if self._restart and not is_starting else None
        lines = tuple(self._directory.last_log_lines(event.broker))
        died = BrokerDied(event.broker, event.pid, event.exit_code, lines, restart_in_s)
        if is_starting:
            self.failure = f"{died}"
            return
        self._renew_state()
        self._on_event(died)
        if restart_in_s is not None:
            task = asyncio.create_task(self._start_again(event.broker, restart_in_s))
            self._restarts.add(task)
            task.add_done_callback(self._restarts.discard)

    def _back_off(self, watched: _Watched) -> float:
        if time.monotonic() - watched.started_at > STEADY_S:
            watched.back_off_s = FIRST_BACK_OFF_S
        pause_s = watched.back_off_s
        watched.back_off_s = min(pause_s * 2, LONGEST_BACK_OFF_S)
        return pause_s

    async def _start_again(self, broker: BrokerId, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        await self._runner.start(self._order(broker))

    def _renew_state(self) -> None:
        """As `_write_state`, where a full disk must not end the watch over the brokers."""
        try:
            self._write_state()
        except OSError as error:
            log.warning("the state file could not be renewed: %s", error)

    def _write_state(self) -> None:
        is_stopped = self._condition is OverlayCondition.STOPPED
        self._directory.write(
            OverlayState(
                overlay=self.spec.name,
                condition=self._condition,
                pid=os.getpid(),
                started_at=self._started_at,
                strategy=self.spec.strategy,
                brokers={
                    broker: BrokerState(str(address), None if is_stopped else self.pid(broker))
                    for broker, address in self.observer.addresses.items()
                },
                links=[(link.a, link.b) for link in sorted(self.topology.links)],
                zookeeper=None if self._coordination is None else self._coordination.name,
                security=None if self._security is None else str(self._security.path.absolute()),
                stopped_at=time.time() if is_stopped else None,
            )
        )

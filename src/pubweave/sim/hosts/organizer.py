"""A self-organizing broker in simulation: probes, and the errands of `deploy.link_exchange`, each
with a line of its own while it asks the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.vocabulary.effects import OrganizeEffect, ProbeBroker, ProposeExchange
from pubweave.core.vocabulary.events import BrokerProbed, ExchangeEnded, OrganizingPaused
from pubweave.deploy.commands import DeploymentError
from pubweave.deploy.documents import Layout
from pubweave.deploy.executor import ExecutorConfig
from pubweave.deploy.link_exchange import (
    PROBE_LIMIT_S,
    Errand,
    HostExecutor,
    OrganizerEngine,
    WaitFor,
)
from pubweave.deploy.store import (
    SessionChanged,
    StoreAnswer,
    StoreNotice,
    StoreRequest,
    StoreSessionState,
)
from pubweave.sim.hosts.deployment import SimExecutor
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.kernel.store_links import SimStore, StoreLine

REPORT_READ_S = 0.05
"""How often an executor's report is looked at."""


class SimErrand:
    """One errand of a host, until its end or that of the broker's incarnation."""

    def __init__(self, host: SimOrganizerHost, errand: Errand[None]) -> None:
        self.executor: SimExecutor | None = None
        self._host = host
        self._errand = errand
        self._line: StoreLine | None = None
        self._request: StoreRequest | None = None  # to be asked as soon as the line can
        self._is_dead = False

    def crash(self) -> None:
        self._is_dead = True
        if self._line is not None:
            self._line.die()
        if self.executor is not None:
            self.executor.crash()

    def go_on(self, answer: Any = None) -> None:
        if self._is_dead:
            return
        host, world = self._host, self._host.world
        try:
            step = self._errand.send(answer)
        except (StopIteration, DeploymentError):
            step = None
            host.errands.remove(self)
        if isinstance(step, StoreRequest):
            self._request = step
            if self._line is None:
                self._line = host.store.connect(f"{host.broker.name}~", self._hear)
            else:
                self._ask()
            return
        if self._line is not None:
            self._line.close()
            self._line = None
        match step:
            case WaitFor(seconds):
                world.after(seconds, self.go_on, world.now + seconds)
            case HostExecutor():
                self.executor = host.begin_executor()
                self._read_report(step, self.executor)
            case ExchangeEnded():
                host.broker.handle(step)
                self.go_on()
            case OrganizingPaused():
                host.pause(host.is_paused)
                self.go_on()

    # --- the store -------------------------------------------------------------------------

    def _hear(self, event: StoreAnswer | StoreNotice) -> None:
        if isinstance(event, StoreAnswer):
            self.go_on(event)
        elif event == SessionChanged(StoreSessionState.CONNECTED):
            self._ask()

    def _ask(self) -> None:
        line, request = self._line, self._request
        if line is not None and request is not None and not line.is_broken:
            self._request = None
            line.ask(request)

    def _read_report(self, step: HostExecutor, executor: SimExecutor) -> None:
        if self._is_dead:
            return
        seen = executor.report.deployment if executor.is_alive and executor.report else None
        if executor.is_alive and not step.is_over(seen):
            self._host.world.after(REPORT_READ_S, self._read_report, step, executor)
            return
        self.executor = None
        if executor.is_alive:
            executor.leave()
        self.go_on(seen)


class SimOrganizerHost:
    """Beside one broker, through all its incarnations."""

    def __init__(
        self,
        store: SimStore,
        broker: SimBroker,
        layout: Layout,
        config: OrganizeConfig,
        rtt_s: Callable[[str, str], float | None],
        on_executor: Callable[[SimExecutor], None],
    ) -> None:
        """``rtt_s``: the round trip between two brokers, None if the second does not answer."""
        self.store = store
        self.broker = broker
        self.world = broker.world
        self.errands: list[SimErrand] = []
        self.is_paused = False
        """Whoever leads the run wants the overlay left as it is."""
        self._layout = layout
        self._config = config
        self._rtt_s = rtt_s
        self._on_executor = on_executor
        self._executors = 0
        self._engine = OrganizerEngine(layout, broker.name, config)
        broker.on_organize = self._on_effect
        self.world.after(self.world.uniform(0, self._engine.look_every_s), self._look)

    @property
    def is_executing(self) -> bool:
        return any(errand.executor is not None for errand in self.errands)

    def crashed(self) -> None:
        """The broker is about to crash, and all this with it."""
        while self.errands:
            self.errands.pop().crash()
        self._engine = OrganizerEngine(self._layout, self.broker.name, self._config)

    def pause(self, is_paused: bool) -> None:
        """Tell the broker whether to leave the overlay as it is: by order, or for an operator."""
        self.is_paused = is_paused
        self.broker.handle(OrganizingPaused(is_paused or self._engine.is_operated))

    def begin_executor(self) -> SimExecutor:
        self._executors += 1
        name = f"{self.broker.name}~{self.broker.incarnation}.{self._executors}"
        config = ExecutorConfig(
            self._layout.overlay, name, step_timeout_s=20.0, missing_grace_s=6.0, retry_s=0.2
        )
        executor = SimExecutor(self.store, config)
        self._on_executor(executor)
        return executor

    def _on_effect(self, broker: SimBroker, effect: OrganizeEffect) -> None:
        self.world.note(broker.name, f"  {effect}")
        match effect:
            case ProbeBroker(other):
                rtt_s = self._rtt_s(broker.name, other)
                after_s = rtt_s or PROBE_LIMIT_S
                self.world.after(after_s, self._give_probe, other, rtt_s, broker.incarnation)
            case ProposeExchange():
                self._begin(self._engine.carry_out(effect, self.world.now))

    def _give_probe(self, other: str, rtt_s: float | None, incarnation: int) -> None:
        if self.broker.incarnation == incarnation:
            self.broker.handle(BrokerProbed(other, None if rtt_s is None else rtt_s * 1000.0))

    def _look(self) -> None:
        if self.broker.is_up():
            self._begin(self._engine.look())
        self.world.after(self._engine.look_every_s, self._look)

    def _begin(self, errand: Errand[None]) -> None:
        begun = SimErrand(self, errand)
        self.errands.append(begun)
        begun.go_on()

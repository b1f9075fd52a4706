"""Agents and executors of the simulation: the real ones, with a line to the store each.

An agent sits beside its broker: it begins with every incarnation of the core and dies with it.
Executors begin and die by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.vocabulary.effects import ActionEffect, DecideAction, ReportAction
from pubweave.core.vocabulary.events import LinkAdded
from pubweave.deploy.agent import Agent, AgentConfig, AgentEvent
from pubweave.deploy.executor import Executor, ExecutorConfig, ExecutorReport
from pubweave.deploy.store import StoreRequest, TimerFired
from pubweave.model.ids import BrokerId
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.kernel.store_links import SimStore, StoreLine


class SimAgent:
    """The agent of one broker, through all its incarnations."""

    def __init__(
        self,
        store: SimStore,
        broker: SimBroker,
        overlay: str,
        *,
        on_report: Callable[[BrokerId, ReportAction], None],
    ) -> None:
        self.broker = broker
        self._on_report = on_report
        self._store = store
        self._overlay = overlay
        self._agent: Agent | None = None
        self.line: StoreLine | None = None
        broker.on_action = self._on_action
        broker.before_start = self._before_start
        self._begin(broker.incarnation)

    @property
    def is_ready(self) -> bool:
        return self.broker.is_up() and self._agent is not None and self._agent.is_ready

    def crashed(self) -> None:
        """The broker is about to crash, and its agent with it."""
        if self.line is not None:
            self.line.die()
        self._agent = self.line = None

    def _before_start(self, broker: SimBroker) -> None:
        # Only the store knows which links a restarted broker has.
        broker.links.clear()
        self.broker.world.after(0.0, self._begin, broker.incarnation + 1)

    def _begin(self, incarnation: int) -> None:
        if incarnation != self.broker.incarnation or not self.broker.is_up():
            return
        actions = self.broker.broker.part(ActionCoordinator)
        config = AgentConfig(
            self.broker.name,
            self._overlay,
            "simulated",
            incarnation,
            0.2,
            remembers=self.broker.is_back,
            expecting=() if actions is None else actions.expecting(),
            ended=() if actions is None else actions.reports(),
        )
        self._agent = agent = Agent(config)
        self.line = self._store.connect(self.broker.name, lambda event: self._give(agent, event))

    def _on_action(self, broker: SimBroker, effect: ActionEffect) -> None:
        if isinstance(effect, DecideAction | ReportAction) and self._agent is not None:
            if isinstance(effect, ReportAction):
                self._on_report(broker.name, effect)
            broker.world.note(broker.name, f"  {effect}")
            self._give(self._agent, effect)

    def _give(self, agent: Agent, event: AgentEvent) -> None:
        world = self.broker.world
        if agent is not self._agent or self.line is None:
            return
        for effect in agent.handle(event, world.now):
            if isinstance(effect, StoreRequest):
                self.line.ask(effect)
            else:
                self.broker.handle(effect)
                if isinstance(effect, LinkAdded):
                    self.broker.link(effect.neighbor)
        deadline = agent.next_deadline()
        if deadline < float("inf"):
            world.at(deadline, self._on_timer, agent, deadline)

    def _on_timer(self, agent: Agent, deadline: float) -> None:
        if agent is self._agent and agent.next_deadline() == deadline:
            self._give(agent, TimerFired())


class SimStoreUser:
    """Whoever sits at a line to the store, from its start to its end."""

    def __init__(self, store: SimStore, name: str, machine: Any) -> None:
        """``machine`` is what decides: it has ``handle`` and ``next_deadline``."""
        self.is_alive = True
        self._world = store.world
        self._machine = machine
        self.line = store.connect(name, self._give)

    def crash(self) -> None:
        self.is_alive = False
        self.line.die()

    def leave(self) -> None:
        """End in good order: another one can take its place at once."""
        self.is_alive = False
        self.line.close()

    def carry_out(self, effect: Any) -> None:
        """Effects that are no requests to the store."""

    def _give(self, event: Any) -> None:
        if not self.is_alive:
            return
        for effect in self._machine.handle(event, self._world.now):
            if isinstance(effect, StoreRequest):
                self.line.ask(effect)
            else:
                self.carry_out(effect)
        deadline = self._machine.next_deadline()
        if deadline < float("inf"):
            self._world.at(deadline, self._on_timer, deadline)

    def _on_timer(self, deadline: float) -> None:
        self._give(TimerFired())


class SimExecutor(SimStoreUser):
    """One executor from its start to its end."""

    def __init__(self, store: SimStore, config: ExecutorConfig) -> None:
        self.config = config
        self.report: ExecutorReport | None = None
        super().__init__(store, config.name, Executor(config))

    def carry_out(self, effect: ExecutorReport) -> None:
        self.report = effect
        deployment = effect.deployment
        state = "" if deployment is None else f"{deployment.state.value} {deployment.steps_done}"
        self._world.note(self.config.name, f"{effect.role.value} {state} {effect.problem}")

    def _on_timer(self, deadline: float) -> None:
        if self._machine.next_deadline() == deadline:
            super()._on_timer(deadline)

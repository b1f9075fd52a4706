"""Remappings in the simulation: the store, an agent beside every broker, and one who sees to them
and dies now and then."""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.vocabulary.effects import ActionEffect, ReportRemap
from pubweave.deploy.agent import AgentConfig
from pubweave.deploy.documents import decode
from pubweave.deploy.layout import Layout
from pubweave.deploy.remap.documents import (
    FIRST_VERSION,
    RemapDocument,
    RemapRefusedError,
    submit_remap,
)
from pubweave.deploy.remap.remapper import RemapAgent, Remapper, RemapperConfig, RemapProgress
from pubweave.deploy.store import StoreEvent, StoreRequest, TimerFired, Write
from pubweave.model.ids import BrokerId
from pubweave.model.remaps import RemapStep
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.kernel.store_links import SimStore, StoreLine
from pubweave.sim.kernel.world import World

OVERLAY = "simulated"
SESSION_LIMIT_S = 1.5
STEP_LIMIT_S = 10.0


class SimRemapAgent:
    """The agent of one broker, from its start to its end."""

    def __init__(self, store: SimStore, broker: SimBroker, number: int) -> None:
        self._world = store.world
        self._broker = broker
        config = AgentConfig(broker.name, OVERLAY, broker.name, number, 0.2)
        self._agent = RemapAgent(config)
        self._is_alive = True
        self.line = store.connect(broker.name, self._give)
        broker.on_action = self._on_action

    def die(self) -> None:
        self._is_alive = False
        self.line.die()

    def _on_action(self, broker: SimBroker, effect: ActionEffect) -> None:
        if isinstance(effect, ReportRemap) and broker.is_up():
            self._give(effect)

    def _give(self, event: StoreEvent | ReportRemap) -> None:
        if not self._is_alive or not self._broker.is_up():
            return
        for effect in self._agent.handle(event, self._world.now):
            if isinstance(effect, StoreRequest):
                self.line.ask(effect)
            else:
                self._broker.handle(effect)
        deadline = self._agent.next_deadline()
        if deadline < float("inf"):
            self._world.at(deadline, self._give, TimerFired())


class SimRemapper:
    """One that sees to remappings, from its start to its end."""

    def __init__(self, store: SimStore, name: str) -> None:
        self._world = store.world
        self._remapper = Remapper(RemapperConfig(OVERLAY, name, STEP_LIMIT_S, 0.2))
        self.is_alive = True
        self.line: StoreLine = store.connect(name, self._give)

    def crash(self) -> None:
        self.is_alive = False
        self.line.die()

    def _give(self, event: StoreEvent) -> None:
        if not self.is_alive:
            return
        for effect in self._remapper.handle(event, self._world.now):
            if not isinstance(effect, RemapProgress):
                self.line.ask(effect)
        deadline = self._remapper.next_deadline()
        if deadline < float("inf"):
            self._world.at(deadline, self._give, TimerFired())


class SimRemaps:
    """Store, agents and remappers of one run, and how remappings went."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = SimStore(world, latency_s=(0.001, 0.01), session_limit_s=SESSION_LIMIT_S)
        self.store.on_change = self._on_change
        self.layout = Layout(OVERLAY)
        self.agents: dict[BrokerId, SimRemapAgent] = {}
        self.on_step: Callable[[RemapDocument], None] = lambda remap: None
        """Hears of every step of a remapping when it stands in the store."""
        self.counts: dict[str, int] = {}
        self.remap: RemapDocument | None = None
        """What stands in the store."""
        self._done = FIRST_VERSION
        self._names = 0
        self.start_remapper()

    def start_remapper(self) -> None:
        self._names += 1
        self.remapper = SimRemapper(self.store, f"r{self._names}")

    def crash_remapper(self, down_s: float) -> None:
        """Another one comes after a while; the store takes its time to notice."""
        if self.remapper.is_alive:
            self.count("remapper_crash")
            self.remapper.crash()
            self.world.after(down_s, self.start_remapper)

    def attend(self, broker: SimBroker) -> None:
        """A broker has started: it gets an agent."""
        self._names += 1
        self.agents[broker.name] = SimRemapAgent(self.store, broker, self._names)

    def gone(self, broker: BrokerId) -> None:
        agent = self.agents.pop(broker, None)
        if agent is not None:
            agent.die()

    def registered(self) -> tuple[BrokerId, ...]:
        """Brokers that live as far as the store knows."""
        paths = self.store.memory.paths()
        top = self.layout.brokers + "/"
        return tuple(path.removeprefix(top) for path in paths if path.startswith(top))

    def submit(self, positions: dict[BrokerId, int]) -> None:
        """Ask for a remapping; it may be refused, if one is under way."""
        try:
            self.store.run(submit_remap(self.layout, positions))
        except RemapRefusedError as error:
            self.count("remaps_refused")
            self.world.note("remap", f"refused: {error}")

    def version(self) -> int | None:
        """What all brokers should have come to; None while a remapping is under way."""
        if self.remap is not None and not self.remap.step.is_final:
            return None
        return self._done

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _on_change(self, request: StoreRequest) -> None:
        if request.path != self.layout.remap:
            return
        data = request.data if isinstance(request, Write) else getattr(request, "data", b"")
        self.remap = remap = decode(data, RemapDocument, request.path)
        self.world.note("remap", f"{remap.version} {remap.step.value} {remap.reason}")
        if remap.step is RemapStep.INIT:
            self.count("remaps")
        if remap.step is RemapStep.FINISH:
            self._done = remap.version
        if remap.step.is_final:
            self.count(f"remaps_{remap.step.value}")
        self.on_step(remap)

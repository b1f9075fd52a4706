"""Remappings in the simulation: the store, an agent beside every broker, and one who sees to them
and dies now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pubweave.core.vocabulary.effects import ActionEffect, ReportRemap
from pubweave.deploy.agent import AgentConfig
from pubweave.deploy.documents import Layout, decode
from pubweave.deploy.remap.remapper import (
    FIRST_VERSION,
    RemapAgent,
    RemapDocument,
    Remapper,
    RemapperConfig,
    RemapRefusedError,
    submit_remap,
)
from pubweave.deploy.store import StoreEvent, StoreRequest, Write
from pubweave.model.deployment import RemapStep
from pubweave.model.ids import BrokerId
from pubweave.sim.hosts.deployment import SimStoreUser
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.kernel.store_links import SimStore
from pubweave.sim.kernel.world import World

OVERLAY = "simulated"
SESSION_LIMIT_S = 1.5
STEP_LIMIT_S = 10.0


class SimRemapAgent(SimStoreUser):
    """The agent of one broker."""

    def __init__(self, store: SimStore, broker: SimBroker, number: int) -> None:
        self._broker = broker
        config = AgentConfig(broker.name, OVERLAY, broker.name, number, 0.2)
        super().__init__(store, broker.name, RemapAgent(config))
        broker.on_action = self._on_action

    def carry_out(self, effect: Any) -> None:
        self._broker.handle(effect)

    def _on_action(self, broker: SimBroker, effect: ActionEffect) -> None:
        if isinstance(effect, ReportRemap):
            self._give(effect)

    def _give(self, event: StoreEvent | ReportRemap) -> None:
        if self._broker.is_up():
            super()._give(event)


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
        name = f"r{self._names}"
        config = RemapperConfig(OVERLAY, name, STEP_LIMIT_S, 0.2)
        self.remapper = SimStoreUser(self.store, name, Remapper(config))

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
            agent.crash()

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

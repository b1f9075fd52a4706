"""The scenario `rendezvous`: a ring whose brokers come, go, crash and are remapped under traffic.

It lives as the scenario `churn` does, with the same faults and the same checker: a delivery is due
to every client whose broker has taken in its subscription, however broken the overlay is when the
publication is made, and also while the client has no broker because its own has crashed. Excused
is only what a broker had alone when it crashed while its publisher had gone. At rest the ring has
to be the sorted ring, and every tree the one that the ring and the clients' wishes make.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.design.dynatops.mapping.ring import key_of
from pubweave.model.ids import BrokerId
from pubweave.sim.churn.churn import ChurnScenario
from pubweave.sim.hosts.remap import SimRemaps
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.overlays.rendezvous import FAST, RendezvousOverlay, upkeep_of


class RendezvousScenario(ChurnScenario):
    """One run."""

    name = "rendezvous"
    overlay_type = RendezvousOverlay
    overlay: RendezvousOverlay

    def __init__(self, seed: int, **options: Any) -> None:
        """As `ChurnScenario`."""
        super().__init__(seed, **options)
        self.remaps = SimRemaps(self.world)
        self.overlay.version = self.remaps.version
        self.overlay.on_made = lambda broker: self.world.after(0.0, self._attend, broker)
        for broker in self.overlay.brokers.values():
            self._attend(broker)

    def _attend(self, broker: SimBroker) -> None:
        if broker.is_up() and self.is_on_ring(broker.name):
            self.remaps.attend(broker)

    def is_on_ring(self, broker: BrokerId) -> bool:
        return True

    def _config(self, broker: BrokerId) -> BrokerConfig:
        routed_by_topic = super()._config(broker)
        return replace(routed_by_topic, strategy="rendezvous", rendezvous=FAST)

    def _known_to(self, name: BrokerId) -> set[BrokerId]:
        """Whom a broker finds by asking those it knows, and those they know."""
        found, todo = {name}, [name]
        while todo:
            node = self.overlay.brokers.get(todo.pop())
            core = None if node is None else node.known_core
            if core is None:
                continue
            for occupant in upkeep_of(core).plane.table.known:
                if occupant.broker not in found:
                    found.add(occupant.broker)
                    todo.append(occupant.broker)
        return found - {name}

    # --- remappings ------------------------------------------------------------------------

    def _be_active(self) -> None:
        world = self.world
        end = world.now + self.setting.round_s
        for _ in range(world.integer(0, 3)):
            world.at(world.uniform(world.now, end), self._remap)
        if world.chance(0.4):
            world.at(world.uniform(world.now, end), self._crash_remapper)
        super()._be_active()

    def _remap(self) -> None:
        """Some brokers, or all, exchange their positions; the store may not know yet that one
        of them is gone."""
        where = {name: key_of(name) for name in self.remaps.registered()}
        for name, node in self.overlay.brokers.items():
            core = node.known_core
            if core is not None and self.is_on_ring(name):
                where[name] = upkeep_of(core).plane.table.own.position
        moving = [name for name in where if self.world.chance(self.world.choice([0.3, 1.0]))]
        places = [where[name] for name in moving]
        self.world.rng.shuffle(places)
        self.remaps.submit({**where, **dict(zip(moving, places, strict=True))})
        self.watch.happened()

    def _crash_remapper(self) -> None:
        self.remaps.crash_remapper(self.world.uniform(0.1, 3.0))

    def _on_crash(self, broker: SimBroker) -> None:
        """Its agent dies with it, and another one begins when it is back."""
        super()._on_crash(broker)
        self.remaps.gone(broker.name)
        broker.before_start = lambda node: self.world.after(0.0, self._attend, node)

    def _remove(self, name: BrokerId) -> None:
        super()._remove(name)
        self.remaps.gone(name)

    def _leave_broker(self) -> None:
        before = set(self._leaving)
        super()._leave_broker()
        for name in set(self._leaving) - before:
            self.overlay.leaving[name] = None

    def strategy_counts(self) -> dict[str, int]:
        ring = [node.broker for node in self._living if self.is_on_ring(node.name)]
        closed = sum(upkeep_of(broker).spare.closed for broker in ring)
        return {"links_closed": closed, **self.remaps.counts}

"""Remappings of a ring, again and again: brokers exchange positions under traffic and churn.

An agent is beside every broker of the ring; whoever sees to the remappings crashes now and then.
"""

from __future__ import annotations

from pubweave.design.dynatops.mapping.ring import key_of
from pubweave.model.ids import BrokerId
from pubweave.sim.hosts.remap import SimRemaps
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.overlays.clusters import RING, part_of
from pubweave.sim.overlays.rendezvous import ring_rules, upkeep_of
from pubweave.sim.parts.churn import BrokerChurn
from pubweave.sim.parts.run import SimPart


class RingRemaps(SimPart):
    """The remappings of one run."""

    def __init__(self, churn: BrokerChurn) -> None:
        self.world = churn.world
        self.remaps = SimRemaps(self.world)
        self._churn = churn
        self._overlay = overlay = churn.overlay
        rules = ring_rules(overlay)
        assert rules is not None, "only a ring is remapped"
        rules.version = self.remaps.version
        overlay.on_made = lambda broker: self.world.after(0.0, self._attend, broker)
        churn.on_crash = self._on_crash
        churn.on_removed = self.remaps.gone
        for broker in overlay.brokers.values():
            self._attend(broker)

    def _attend(self, broker: SimBroker) -> None:
        if broker.is_up() and part_of(broker.name) == RING:
            self.remaps.attend(broker)

    def _on_crash(self, broker: SimBroker) -> None:
        """Its agent dies with it, and another one begins when it is back."""
        self.remaps.gone(broker.name)
        broker.before_start = lambda node: self.world.after(0.0, self._attend, node)

    def begin(self, end: float) -> None:
        world = self.world
        for _ in range(world.integer(0, 3)):
            world.at(world.uniform(world.now, end), self._remap)
        if world.chance(0.4):
            world.at(world.uniform(world.now, end), self._crash_remapper)

    def _remap(self) -> None:
        """Some brokers, or all, exchange their positions; the store may not know yet that one
        of them is gone."""
        where = {name: key_of(name) for name in self.remaps.registered()}
        for name, node in self._overlay.brokers.items():
            core = node.known_core
            if core is not None and part_of(name) == RING:
                where[name] = upkeep_of(core).plane.table.own.position
        moving = [name for name in where if self.world.chance(self.world.choice([0.3, 1.0]))]
        places = [where[name] for name in moving]
        self.world.rng.shuffle(places)
        self.remaps.submit({**where, **dict(zip(moving, places, strict=True))})
        self._churn.watch.happened()

    def _crash_remapper(self) -> None:
        self.remaps.crash_remapper(self.world.uniform(0.1, 3.0))

    def counts(self) -> dict[str, int]:
        ring: list[BrokerId] = [n.name for n in self._churn.living if part_of(n.name) == RING]
        nodes = self._overlay.brokers
        closed = sum(upkeep_of(nodes[name].broker).spare.closed for name in ring)
        return {"links_closed": closed, **self.remaps.counts}

"""The scenario `hybrid`: clusters of brokers that reach a ring through gateways, under churn.

It lives as the scenario `rendezvous` does. Brokers come, go and crash in every part; clients whose
broker is gone go on anywhere, also in another part; the ring is remapped meanwhile. An operator
sees to it that every cluster keeps a gateway that was told of a living broker of the ring: beyond
that whoever is in charge may crash, and so may the broker it is linked with.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.generate.topologies.latencies import Matrix
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology
from pubweave.sim.churn.rendezvous import RendezvousScenario
from pubweave.sim.churn.setting import ChurnSetting, connected_topology
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.overlays.hybrid import RING, HybridOverlay, part_of
from pubweave.sim.overlays.topic_connected import repair_of

FEWEST = 6
"""Brokers: two of the ring, and two clusters of two."""


class HybridScenario(RendezvousScenario):
    """One run."""

    name = "hybrid"
    overlay_type = HybridOverlay
    overlay: HybridOverlay

    def __init__(self, seed: int, **options: Any) -> None:
        """As `ChurnScenario`."""
        self._ring_of: dict[BrokerId, tuple[BrokerId, ...]] = {}
        """By gateway: the brokers of the ring that it was told of."""
        super().__init__(seed, **options)

    def draw_setting(self, max_brokers: int, rtt: Matrix | None) -> Any:
        """A setting of `churn` whose brokers are dealt out to a ring and clusters."""
        drawn: ChurnSetting = super().draw_setting(max_brokers, rtt)
        world = self.world
        count = world.integer(FEWEST, max(FEWEST, max_brokers))
        parts = [RING, *(f"c{number}" for number in range(1, world.integer(1, count // 3 - 1) + 1))]
        names = []
        for place in range(count):
            # Two of each part; the others anywhere.
            part = parts[place // 2] if place < 2 * len(parts) else world.choice(parts)
            names.append(f"{part}b{place + 1}")
        interests = {name: tuple(t for t in drawn.topics if world.chance(0.35)) for name in names}
        links: set[Link] = set()
        for part in parts:
            inside = [name for name in names if part_of(name) == part]
            links |= connected_topology({name: interests[name] for name in inside}).links
            for name in inside[:2] if part != RING else ():
                self._tell_of_ring(name, [n for n in names if part_of(n) == RING])
        topology = Topology(frozenset(names), frozenset(links))
        return replace(drawn, interests=interests, topology=topology)

    def _tell_of_ring(self, gateway: BrokerId, ring: list[BrokerId]) -> None:
        some = tuple(name for name in ring if self.world.chance(0.6))
        self._ring_of[gateway] = some or (self.world.choice(ring),)

    def _config(self, broker: BrokerId) -> BrokerConfig:
        config = super()._config(broker)
        if self.is_on_ring(broker):
            return config
        topics = replace(config.topics, ring=self._ring_of.get(broker, ()))
        return replace(config, strategy="topic_connected", topics=topics)

    # --- who is where ----------------------------------------------------------------------

    def is_on_ring(self, broker: BrokerId) -> bool:
        return part_of(broker) == RING

    def is_peer(self, one: BrokerId, other: BrokerId) -> bool:
        return part_of(one) == part_of(other)

    def _known_to(self, name: BrokerId) -> set[BrokerId]:
        if self.is_on_ring(name):
            return super()._known_to(name)
        core = self.overlay.brokers[name].known_core
        return set() if core is None else set(repair_of(core).map.records)

    def next_broker(self) -> BrokerId:
        """It joins a part; in a cluster it may be told of the ring."""
        part = self.world.choice([RING, *self.overlay.clusters])
        name = f"{part}{super().next_broker()}"
        if part != RING and self.world.chance(0.5):
            self._tell_of_ring(name, [n for n in self.homes() if self.is_on_ring(n)])
        return name

    def is_spare(self, name: BrokerId) -> bool:
        """Whether every part has a broker, and every cluster a gateway, without this one."""
        staying = [home for home in self.homes() if home != name]
        parts = {part_of(home) for home in self.overlay.brokers}
        return {part_of(home) for home in staying} == parts and all(
            any(part_of(home) == part and self._reaches_ring(home, staying) for home in staying)
            for part in parts - {RING}
        )

    def _reaches_ring(self, gateway: BrokerId, living: Collection[BrokerId]) -> bool:
        return any(name in living for name in self._ring_of.get(gateway, ()))

    def _result(self) -> RunResult:
        clusters = {node.name: node.broker for node in self._living}
        linked = [
            name
            for name, broker in clusters.items()
            if not self.is_on_ring(name) and repair_of(broker).gateway.is_linked
        ]
        self.counts |= {"clusters": len(self.overlay.clusters), "gateways": len(linked)}
        return super()._result()

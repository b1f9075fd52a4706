"""A simulated hybrid network: topic-connected clusters around a ring of rendezvous brokers.

The truth of the ring is that of `overlays/rendezvous`, where a broker wants what the cluster behind
it wants. Of a cluster: everybody's map is true, one gateway is in charge and takes part in all of
the cluster's topics, and nothing crosses its border but over one link.
"""

from __future__ import annotations

from collections.abc import Iterable

from pubweave.core.routing.rendezvous.maintenance import RendezvousMaintenance
from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.model.ids import BrokerId
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.overlays.rendezvous import RendezvousOverlay, upkeep_of
from pubweave.sim.overlays.topic_connected import repair_of, routing_of

RING = ""
"""The part that a broker of the ring is in; other parts are clusters."""


def part_of(broker: BrokerId) -> str:
    """In which part a broker is; its name says so.

    >>> part_of("c2b17"), part_of("b3")
    ('c2', '')
    """
    return broker.partition("b")[0]


class HybridOverlay(RendezvousOverlay):
    """Brokers and clients of one run."""

    def contacts_of(self, broker: SimBroker) -> Iterable[BrokerId]:
        """Only gateways are told of links across the border."""
        return broker.config.topics.ring

    def members(self, part: str) -> list[BrokerId]:
        """The brokers of a part that live and do not leave."""
        return [
            name
            for name, node in self.brokers.items()
            if part_of(name) == part and name not in self.leaving and node.is_up()
        ]

    @property
    def clusters(self) -> list[str]:
        return sorted({part_of(name) for name in self.brokers} - {RING})

    def staying(self) -> dict[BrokerId, RendezvousMaintenance]:
        return {name: upkeep_of(self.brokers[name].broker) for name in self.members(RING)}

    def homes_left(self) -> list[BrokerId]:
        return [name for part in (RING, *self.clusters) for name in self.members(part)]

    def split_topics(self, wanted: dict[str, set[BrokerId]] | None = None) -> list[str]:
        """Only those that a client wants: a cluster's wish may outlast its clients for a while."""
        known = wanted or self.wanted_topics()
        return [topic for topic in super().split_topics(known) if topic in known]

    def check_tables(self) -> list[str]:
        """At rest: whether the ring and every cluster are as they should be."""
        problems = super().check_tables()
        for cluster in self.clusters:
            problems += self._check_cluster(cluster)
        return problems

    def _check_cluster(self, cluster: str) -> list[str]:
        members = self.members(cluster)
        repairs = {name: repair_of(self.brokers[name].broker) for name in members}
        problems = []
        for name, repair in repairs.items():
            routing = routing_of(self.brokers[name].broker)
            if routing.topics.keys() != routing.claimed.keys():
                # Something of these may still have to cross the border.
                problems.append(f"{name} takes part in topics that nobody claims")
            present = {n for n, r in repair.view.present.items() if not r.is_leaving}
            if present != set(members) or not repair.view.is_connected:
                problems.append(f"{name} is wrong about its cluster {cluster}")
            elif any(repair.map.records[n] != repairs[n].own for n in members):
                problems.append(f"{name} has an old record")
        return problems or self._check_border(cluster, repairs)

    def _check_border(self, cluster: str, repairs: dict[BrokerId, OverlayRepair]) -> list[str]:
        """One gateway, known to all; whatever the cluster wants crosses at one link."""
        linked = [name for name, repair in repairs.items() if repair.gateway.is_linked]
        chosen = {repair.gateway.in_charge for repair in repairs.values()}
        if not linked or chosen != {min(linked)}:
            return [f"cluster {cluster} has the gateways {chosen}, not the first of {linked}"]
        topics = {t for name in repairs for t in routing_of(self.brokers[name].broker).claimed}
        crossing = [
            (name, link.remote, set(asked))
            for name in repairs
            for link, asked in routing_of(self.brokers[name].broker).asked.items()
            if asked
        ]
        if [(name, asked) for name, _, asked in crossing] not in ([], [(min(linked), topics)]):
            return [f"across the border of {cluster} {crossing} are wanted, not {topics}"]
        return [] if crossing or not topics else [f"nothing crosses the border of {cluster}"]

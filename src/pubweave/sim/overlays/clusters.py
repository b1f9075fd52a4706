"""Clusters of topic-connected brokers around a ring, and what must hold in each at rest.

Everybody's map is true, one gateway is in charge and takes part in all of the cluster's topics, and
nothing crosses its border but over one link.
"""

from __future__ import annotations

from collections.abc import Mapping

from pubweave.core.broker import Broker
from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.model.ids import BrokerId
from pubweave.sim.overlays.topic_connected import repair_of, routing_of

RING = ""
"""The part that a broker of the ring is in; other parts are clusters."""


def part_of(broker: BrokerId) -> str:
    """In which part a broker is; its name says so.

    >>> part_of("c2b17"), part_of("b3")
    ('c2', '')
    """
    return broker.partition("b")[0]


def check_cluster(cluster: str, members: Mapping[BrokerId, Broker]) -> list[str]:
    """What is wrong with a cluster of these brokers."""
    repairs = {name: repair_of(core) for name, core in members.items()}
    problems = []
    for name, repair in repairs.items():
        routing = routing_of(members[name])
        if routing.topics.keys() != routing.claimed.keys():
            # Something of these may still have to cross the border.
            problems.append(f"{name} takes part in topics that nobody claims")
        present = {n for n, r in repair.view.present.items() if not r.is_leaving}
        if present != set(members) or not repair.view.is_connected:
            problems.append(f"{name} is wrong about its cluster {cluster}")
        elif any(repair.map.records[n] != repairs[n].own for n in members):
            problems.append(f"{name} has an old record")
    return problems or _check_border(cluster, members, repairs)


def _check_border(
    cluster: str, members: Mapping[BrokerId, Broker], repairs: Mapping[BrokerId, OverlayRepair]
) -> list[str]:
    """One gateway, known to all; whatever the cluster wants crosses at one link."""
    linked = [name for name, repair in repairs.items() if repair.gateway.is_linked]
    chosen = {repair.gateway.in_charge for repair in repairs.values()}
    if not linked or chosen != {min(linked)}:
        return [f"cluster {cluster} has the gateways {chosen}, not the first of {linked}"]
    topics = {topic for core in members.values() for topic in routing_of(core).claimed}
    crossing = [
        (name, link.remote, set(asked))
        for name, core in members.items()
        for link, asked in routing_of(core).asked.items()
        if asked
    ]
    if [(name, asked) for name, _, asked in crossing] not in ([], [(min(linked), topics)]):
        return [f"across the border of {cluster} {crossing} are wanted, not {topics}"]
    return [] if crossing or not topics else [f"nothing crosses the border of {cluster}"]

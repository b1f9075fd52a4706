"""A rendezvous broker's account of itself: its place on the ring and in the topics' trees."""

from __future__ import annotations

from collections.abc import Iterable

from pubweave.core.routing.rendezvous.control_plane import ControlPlane
from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import RendezvousStatus, TreeStatus

RATE_WINDOW_S = 20.0
"""The time over which publications are counted, if they are kept so long."""


def rendezvous_status(
    plane: ControlPlane,
    versions: Iterable[int],
    routing: RendezvousRouting,
    gateways: Iterable[BrokerId],
    now: float,
) -> RendezvousStatus:
    """The version that counts. O(topics x links + kept)."""
    table = plane.table
    trees = tuple(
        TreeStatus(
            topic=topic,
            above=place.above,
            is_rendezvous=table.is_responsible(place.key),
            is_subscribed=topic in routing.subscribed,
            is_in_tree=bool(place.targets),
            below=tuple(routing.askers(topic)),
            publications_per_s=_rate_of(routing, topic, now),
        )
        for topic, place in sorted(plane.trees.places.items())
    )
    return RendezvousStatus(
        version=plane.version,
        versions=tuple(sorted(versions)),
        own=table.own,
        predecessor=table.predecessor(),
        successors=tuple(table.successors()),
        fingers=tuple(table.fingers()),
        trees=trees,
        gateways=tuple(gateways),
    )


def _rate_of(routing: RendezvousRouting, topic: str, now: float) -> float:
    """Publications per second, by those that are kept."""
    log = routing.logs.get(topic)
    if log is None:
        return 0.0
    return sum(at > now - RATE_WINDOW_S for at, _, _ in log.kept) / RATE_WINDOW_S

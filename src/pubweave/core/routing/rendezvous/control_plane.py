"""One version of a broker's control plane: its place on the ring and in the topics' trees.

DYNATOPS section 5.1.2 keeps two of them side by side while brokers are remapped. They share the
links of the broker and its clients' wishes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pubweave.core.config.rendezvous import RendezvousConfig
from pubweave.core.routing.rendezvous.chord import ChordMaintenance, ChordTable, SendToBroker
from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.core.routing.rendezvous.trees import TopicTrees
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import (
    ChordMessage,
    Occupant,
    RendezvousStatus,
    TreeMessage,
    TreeStatus,
)

RATE_WINDOW_S = 20.0  # Publications are counted over this time, if they are kept so long.


class ControlPlane:
    """``send``, ``is_lost`` and ``linked`` as in `rendezvous/chord`, ``askers`` as in
    `rendezvous/trees`."""

    def __init__(
        self,
        version: int,
        own: Occupant,
        config: RendezvousConfig,
        *,
        send: SendToBroker,
        is_lost: Callable[[BrokerId], bool],
        linked: Callable[[], Iterable[BrokerId]],
        askers: Callable[[str], list[BrokerId]],
    ) -> None:
        self.version = version
        self.is_active = True
        """Whether its ring is there to be kept."""
        self.is_live = True
        """Whether publications travel by its trees."""
        self.table = ChordTable(own, config.successors)
        self.chord = ChordMaintenance(version, self.table, config, send, is_lost, linked)
        self.trees = TopicTrees(version, self.table, config, send, askers)

    @property
    def is_standing(self) -> bool:
        """Whether all whom this broker needs around it have told it where they are."""
        return self.table.needed().keys() <= self.chord.met

    def receive(self, sender: BrokerId, message: ChordMessage | TreeMessage, now: float) -> None:
        if isinstance(message, ChordMessage):
            self.chord.receive(sender, message)
        else:
            self.trees.receive(sender, message, now)

    def lost(self, broker: BrokerId, now: float) -> None:
        self.chord.lost(broker)
        self.trees.lost(broker, now)


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
    kept = log.kept if (log := routing.logs.get(topic)) is not None else ()
    return sum(at > now - RATE_WINDOW_S for at, _, _ in kept) / RATE_WINDOW_S

"""What a crash takes along: deliveries that nobody who lives can make any more.

A broker hands a publication on and forgets it when the next one has acknowledged it. So at every
instant a publication on its way to a client is in the queue of a broker before the crashed one
(to be sent, or sent again), in one behind it, held back by an action, or only in the crashed one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from pubweave.core.broker import Broker
from pubweave.core.tree_routing import TreeRouting
from pubweave.model.ids import BrokerId
from pubweave.model.publications import Publication
from pubweave.sim.nodes import SimBroker
from pubweave.sim.overlay import SimOverlay

Key = tuple[str, int]


class Holdings:
    """Which publications the living brokers have in their queues at one instant."""

    def __init__(self, overlay: SimOverlay, crashed: SimBroker) -> None:
        self._overlay = overlay
        self._crashed = crashed.name
        self._queued: dict[tuple[BrokerId, str], dict[Key, float]] = {}
        """By sender and receiver: publications and their numbers in the session."""
        self._held: dict[tuple[BrokerId, BrokerId], set[Key]] = {}
        """By holder and each other broker of its action: what it holds back."""
        for node in overlay.brokers.values():
            if node is not crashed and node.core is not None:
                self._take_stock(node.name, node.core)

    def _take_stock(self, name: BrokerId, core: Broker) -> None:
        for session in core.sessions:
            queued = self._queued[name, session.remote] = {}
            for number, message in enumerate(session.unacked, session.acked + 1):
                if isinstance(message, Publication):
                    queued[message.key] = number
            _add(queued, (*session.waiting, *session.pending))
        routing = core.routing
        if isinstance(routing, TreeRouting):
            for link, gate in routing.sync.gates.items():
                _add(self._queued[name, link.remote], (*gate.waiting, *gate.pending))
        if core.actions is not None:
            held = {publication.key for publication in core.actions.held()}
            self._held.update({(name, partner): held for partner in core.actions.partners()})

    def is_safe(self, publication: Publication, client: str) -> bool:
        """Whether a living broker on its way to a client still has a publication."""
        key = publication.key
        topology = self._overlay.topology
        homes = [self._overlay.homes[name] for name in (publication.publisher, client)]
        if not topology.brokers.issuperset(homes):  # its publisher's broker has left since
            return any(key in kept for kept in [*self._queued.values(), *self._held.values()])
        way = topology.path(*homes)
        if self._crashed not in way:
            return True
        at = way.index(self._crashed)
        # Whether the action succeeds or not, its holder stays on the way, and sends what it holds
        # to one of the others of the action.
        if any(key in self._held.get(hop, ()) for hop in pairwise(way)):
            return True
        return any(self._is_to_come(key, *hop) for hop in pairwise(way[: at + 1])) or any(
            key in self._queued.get(hop, ())
            for hop in [*pairwise(way[at + 1 :]), (way[-1], client)]
        )

    def _is_to_come(self, key: Key, sender: BrokerId, receiver: BrokerId) -> bool:
        """Whether a sender before the crashed broker has what the receiver has not taken in. The
        crashed one gets again whatever it has not acknowledged."""
        number = self._queued.get((sender, receiver), {}).get(key)
        core = self._overlay.brokers[receiver].core
        if number is None or receiver == self._crashed or core is None:
            return number is not None
        session = core.sessions.links.get(sender)
        return session is None or number > session.received


def _add(queued: dict[Key, float], messages: Iterable[object]) -> None:
    """Messages that were not sent yet: whatever their numbers will be, nobody has them."""
    for message in messages:
        if isinstance(message, Publication):
            queued[message.key] = math.inf

"""What a crash takes along: deliveries that nobody who lives can make any more.

A broker hands a publication on and forgets it when the next one has acknowledged it. So at every
instant a publication on its way to a client is in the queue of its publisher or of a broker before
the crashed one (to be sent, or sent again), in one behind it, held back by an action, or only in
the crashed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

from pubweave.core.broker import Broker
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.model.ids import BrokerId
from pubweave.model.publications import Publication
from pubweave.sim.kernel.faults import FaultRates
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.overlays.base import SimOverlay

Key = tuple[str, int]
Ends = Callable[[Publication, str], Iterable[tuple[BrokerId, BrokerId]]]
"""Where a publication for a client may have come from, and where it may go: pairs of brokers."""


class Holdings:
    """Which publications the living brokers have in their queues at one instant."""

    def __init__(
        self,
        overlay: SimOverlay,
        crashed: SimBroker,
        ends: Ends | None = None,
    ) -> None:
        """``ends``, where clients move; else those are the homes of publisher and client."""
        self._overlay = overlay
        self._ends = ends or (lambda p, c: [(overlay.homes[p.publisher], overlay.homes[c])])
        self._crashed = crashed.name
        self._queued: dict[tuple[BrokerId, str], dict[Key, float]] = {}
        """By sender and receiver: publications and their numbers in the session."""
        self._held: dict[tuple[BrokerId, BrokerId], set[Key]] = {}
        """By holder and each other broker of its action: what it holds back."""
        self._living: list[BrokerId] = []
        for node in overlay.brokers.values():
            if node is not crashed and node.core is not None:
                self._living.append(node.name)
                self._take_stock(node.name, node.core)
        for client in overlay.clients.values():
            self._queued[client.name, client.home.name] = _queued(client.core.session)

    def _take_stock(self, name: BrokerId, core: Broker) -> None:
        for session in core.sessions:
            self._queued[name, session.remote] = _queued(session)
        routing = core.routing
        if isinstance(routing, TreeRouting):
            for link, gate in routing.sync.gates.items():
                _add(self._queued[name, link.remote], (*gate.waiting, *gate.pending))
        actions = core.part(ActionCoordinator)
        if actions is not None:
            held = {publication.key for publication in actions.held()}
            self._held.update({(name, partner): held for partner in actions.partners()})

    def is_safe(self, publication: Publication, client: str) -> bool:
        """Whether the client's broker has a publication in its queue for it, or one on its way
        there still has it, whichever of the possible ways that is. What a broker keeps for a
        client that has yet to come does not count: it gets that behind what still comes to it
        where it is, and drops what is older."""
        home = self._overlay.homes[client]
        if home in self._living and publication.key in self._queued.get((home, client), ()):
            return True
        ends = self._ends(publication, client)
        return all(self._is_safe_between(publication.key, client, homes) for homes in ends)

    def _is_safe_between(self, key: Key, client: str, homes: tuple[BrokerId, BrokerId]) -> bool:
        topology = self._overlay.topology
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
        before = (key[0], *way[: at + 1])
        return any(
            self._is_to_come(key, *hop) and not self._was_at(before[place + 2 : -1], key)
            for place, hop in enumerate(pairwise(before))
        ) or any(
            key in self._queued.get(hop, ())
            for hop in [*pairwise(way[at + 1 :]), (way[-1], client)]
        )

    def _was_at(self, brokers: Iterable[BrokerId], key: Key) -> bool:
        """Whether one of some brokers has passed a publication on: if it comes again, because
        another one crashed on its way there, it is dropped."""
        publisher, sequence = key
        cores = [self._overlay.brokers[name].core for name in brokers]
        return any(core is not None and core.last_sequence(publisher) >= sequence for core in cores)

    def _is_to_come(self, key: Key, sender: str, receiver: BrokerId) -> bool:
        """Whether a sender before the crashed broker has what the receiver has not taken in. The
        crashed one gets again whatever it has not acknowledged; an acknowledgement may be on its
        way still, and then the sender is about to forget what it names."""
        number = self._queued.get((sender, receiver), {}).get(key)
        core = self._overlay.brokers[receiver].core
        if number is None:
            return False
        sessions = None if core is None else core.sessions
        own = {} if sessions is None else sessions.clients if sender == key[0] else sessions.links
        session = own.get(sender)
        if session is None:
            return True
        return number > (session.told if receiver == self._crashed else session.received)


def _queued(session: Session) -> dict[Key, float]:
    """What a side of a session keeps for the other, by its number."""
    queued: dict[Key, float] = {
        message.key: number
        for number, message in enumerate(session.unacked, session.acked + 1)
        if isinstance(message, Publication)
    }
    _add(queued, (*session.waiting, *session.pending))
    return queued


def _add(queued: dict[Key, float], messages: Iterable[object]) -> None:
    """Messages that were not sent yet: whatever their numbers will be, nobody has them."""
    for message in messages:
        if isinstance(message, Publication):
            queued[message.key] = math.inf


def with_disk_faults(rates: FaultRates) -> FaultRates:
    """Brokers with journals crash in every run, and their disks fail."""
    return replace(
        rates,
        broker_crash_per_s=max(rates.broker_crash_per_s, 0.3),
        boundary_crash_per_s=0.5,
        snapshot_crash_per_s=0.2,
        disk_full_per_s=0.1,
        disk_error_per_s=0.15,
        disk_slow_per_s=0.2,
    )


def check_sessions(overlay: SimOverlay) -> list[str]:
    """A broker that comes back knows every client, but for those that it let go before, and has
    gone the same way as before."""
    nodes = [*overlay.brokers.values(), *overlay.gone.values()]
    cores = [core for node in nodes if (core := node.known_core) is not None]
    expired = sum(core.counters.clients_expired for core in cores)
    told = []
    if overlay.sessions_lost > expired:
        told.append(f"{overlay.sessions_lost} sessions of clients were lost, {expired} had expired")
    for node in nodes:
        if node.journal is not None and node.journal.differences:
            count = node.journal.differences
            told.append(f"{node.name}: {count} events had other effects when they were replayed")
    return told


def journal_counts(overlay: SimOverlay) -> dict[str, int]:
    """What the journals of a run went through; nothing without journals."""
    journals = [node.journal for node in overlay.brokers.values() if node.journal is not None]
    if not journals:
        return {}
    names = ("recoveries", "replayed", "snapshots", "snapshots_refused")
    return {
        **{name: sum(getattr(journal, name) for journal in journals) for name in names},
        "torn_tails": sum(journal.disk.torn_tails for journal in journals),
        "torn_snapshots": sum(journal.disk.torn_snapshots for journal in journals),
        "disk_errors": sum(journal.disk.errors for journal in journals),
    }

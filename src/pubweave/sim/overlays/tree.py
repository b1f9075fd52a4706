"""A simulated overlay of `tree` brokers: what their tables promise, and what they should hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice, pairwise

from pubweave.core.broker import Broker
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.migration.source import MigrationSource
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.relations import covers
from pubweave.model.ids import BrokerId, ClientId, publisher_of
from pubweave.model.messages.session import SequencedMessage, Subscribe, Unsubscribe
from pubweave.sim.checkers.routing_tables import check_tables
from pubweave.sim.overlays.base import SimOverlay


class TreeOverlay(SimOverlay):
    """Content routing on a tree, with covering or without."""

    def is_due(
        self, subscription: str, advertisements: list[str], path: tuple[BrokerId, ...]
    ) -> bool:
        """Each broker on the way knows the advertisement and passed on the subscription or one
        that covers it, and whatever is under way, the next one will never lack such a one."""
        home = self._tables(path[0])
        if home is None or subscription not in _routing(home).subscriptions:
            return False
        publishers = {publisher_of(id_) for id_ in advertisements}
        source = self._tables(path[-1])
        if source is None or source.sessions.clients.keys().isdisjoint(publishers):
            return False  # it has forgotten the publisher, or sends it on when it comes back
        if not self._is_known_ahead(path[-1], advertisements):
            return False
        ends = {publisher_of(subscription), *publishers}
        if len(path) == 1 and any(_is_moving(home, client) for client in ends):
            # By then one of them may be elsewhere, where nobody knows the advertisement yet.
            return any(id_ in _routing(home).advertisements for id_ in advertisements)
        wanted = _routing(home).subscriptions[subscription].filter
        carriers = [subscription]
        for near_name, far_name in pairwise(path):
            near, far = self._tables(near_name), self._tables(far_name)
            if near is None or far is None:
                return False
            link, back = near.sessions.links.get(far_name), far.sessions.links.get(near_name)
            table = _routing(near).links.get(link) if link is not None else None
            if link is None or back is None or table is None:
                return False  # an action is about to make or remove this link
            if not any(id_ in table.advertisements for id_ in advertisements):
                return False
            passed_on = [table.suppressed.get(id_, id_) for id_ in carriers if table.has(id_)]
            if not passed_on:
                return False
            lasting = _Lasting(_routing(far), back, passed_on, _to_come(link, back))
            carriers = lasting.own() or (
                [] if self._is_shifting(near, far) else lasting.standing_in(wanted)
            )
            if not carriers:
                return False
        return True

    def _is_known_ahead(self, home: BrokerId, advertisements: list[str]) -> bool:
        """What a client says while it migrates is taken in at its destination: to others it is due
        only if its advertisement is known there and on the way."""
        source = self.brokers[home].core
        migrations = None if source is None else source.part(MigrationCoordinator)
        if migrations is None:
            return True
        part = migrations.parts.by_client.get(publisher_of(advertisements[0]))
        if not isinstance(part, MigrationSource):
            return True
        cores = [self.brokers[broker].core for broker in part.migration.path]
        return all(
            core is not None and any(id_ in _routing(core).advertisements for id_ in advertisements)
            for core in cores
        )

    def _is_shifting(self, *brokers: Broker) -> bool:
        """Whether an action may turn others' subscriptions round at one of some brokers: no
        message of a link says so before it is done."""
        parts = [broker.part(ActionCoordinator) for broker in brokers]
        return any(actions is not None and actions.is_busy for actions in parts)

    def _tables(self, name: BrokerId) -> Broker | None:
        """A broker that is away and will come back with its tables counts with these."""
        return self.brokers[name].core or self.brokers[name].asleep

    def check_tables(self) -> list[str]:
        cores = {name: self.brokers[name].broker for name in self.topology.neighbors}
        return check_tables(self.topology, cores, self.truth())


def _to_come(link: Session, back: Session) -> list[SequencedMessage]:
    """What a link's near end has queued and its far end, ``back``, has not taken in yet."""
    is_same = link.own_epoch == back.remote_epoch and link.remote_epoch == back.own_epoch
    taken_in = back.received - link.acked if is_same else 0
    return list(chain(islice(link.unacked, taken_in, None), link.waiting, link.pending))


@dataclass(frozen=True)
class _Lasting:
    """The subscriptions at a link's ``far`` end that carry what is wanted, at any moment while
    ``to_come`` is taken in there."""

    far: TreeRouting
    back: Session
    passed_on: list[str]
    to_come: list[SequencedMessage]

    def own(self) -> list[str]:
        """Those that were passed on, and stay."""
        withdrawn = {message.id for message in self.to_come if isinstance(message, Unsubscribe)}
        there = self.far.subscriptions
        return [id_ for id_ in self.passed_on if id_ in there and id_ not in withdrawn]

    def standing_in(self, wanted: Filter) -> list[str]:
        """Others that cover what is wanted; none if there would be a gap.

        One may be withdrawn and passed on again: when the advertisement that called for it went
        before another came, there is a gap; when one that covers it came and went, there is none.
        Those of a client that migrates over the link stand in for no others: they may turn round
        before these have come, and no message of this link says so. Nor do stale ones: they go."""
        _, there = self.far.from_hop(self.back)
        moving = self.far.links[self.back].migrating if self.back in self.far.links else ()
        carriers = [
            id_
            for id_, filter_ in there.items()
            if covers(filter_, wanted)
            and publisher_of(id_) not in moving
            and not self.far.stale.has_subscription(self.back, id_)
        ]
        carrying = set(carriers)
        for message in _changes(self.to_come):
            if not carrying:
                return []
            if isinstance(message, Unsubscribe):
                carrying.discard(message.id)
            elif covers(message.filter, wanted):
                carrying.add(message.id)
            else:
                carrying.discard(message.id)
        return carriers if carrying else []


def _changes(messages: Iterable[SequencedMessage]) -> Iterable[Subscribe | Unsubscribe]:
    return (message for message in messages if isinstance(message, Subscribe | Unsubscribe))


def _is_moving(broker: Broker, client: ClientId) -> bool:
    migrations = broker.part(MigrationCoordinator)
    return migrations is not None and migrations.is_under_way(client)


def _routing(broker: Broker) -> TreeRouting:
    assert isinstance(broker.routing, TreeRouting)
    return broker.routing

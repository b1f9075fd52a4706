"""What the migration of a client does to the routing tables of one broker on its path.

Publications of the client come from the destination's side afterwards, and what is for it goes
there. Off the path nothing changes: seen from there, the client is behind the same link. The
paper's operations (POP/GRAPE 3.3): (1) the last hop of its advertisements is changed, (2)
subscriptions that no advertisement calls for any more are withdrawn, (3) those that are called for
now are passed on. For a subscriber the same is done to the last hop of its subscriptions.

*Before* is the session on the side of the source (at the source the client's own), *after* that on
the side of the destination.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pubweave.core.routing.tree.link_table import TopicBuckets
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.relations import covers, intersects
from pubweave.model.ids import AdvertisementId, ClientId, SubscriptionId, publisher_of
from pubweave.model.messages.migration import Migration, MigrationEntries
from pubweave.model.messages.session import Advertise, Subscribe, Unsubscribe

PART_ENTRIES = 64
"""How many entries one message carries: frames and windows are bounded."""


@dataclass
class ClientEntries:
    """What a client advertised and subscribed to."""

    advertisements: dict[AdvertisementId, Filter] = field(default_factory=dict)
    subscriptions: dict[SubscriptionId, Filter] = field(default_factory=dict)

    @classmethod
    def known(cls, routing: TreeRouting, client: ClientId) -> ClientEntries:
        """Those that a broker knows of, whatever side they come from. O(tables)."""
        return cls(
            {i: e.filter for i, e in routing.advertisements.items() if publisher_of(i) == client},
            {i: e.filter for i, e in routing.subscriptions.items() if publisher_of(i) == client},
        )

    def add(self, part: MigrationEntries) -> None:
        self.advertisements.update(part.advertisements)
        self.subscriptions.update(part.subscriptions)

    def messages(self) -> Iterator[Advertise | Subscribe]:
        """As the client itself would tell them."""
        for id_, filter_ in self.advertisements.items():
            yield Advertise(id_, filter_)
        for id_, filter_ in self.subscriptions.items():
            yield Subscribe(id_, filter_)

    def parts(self, migration: Migration) -> Iterator[MigrationEntries]:
        """As messages of bounded size."""
        for chunk in _chunks(self.advertisements):
            yield MigrationEntries(migration, chunk, ())
        for chunk in _chunks(self.subscriptions):
            yield MigrationEntries(migration, (), chunk)


def _chunks(entries: Mapping[str, Filter]) -> Iterator[tuple[tuple[str, Filter], ...]]:
    items = list(entries.items())
    for start in range(0, len(items), PART_ENTRIES):
        yield tuple(items[start : start + PART_ENTRIES])


def move_advertisements(
    routing: TreeRouting, advertisements: Mapping[AdvertisementId, Filter], after: Session
) -> None:
    """All that the client published has passed: from here on it comes from the other side.

    O(subscriptions about the topics of its advertisements)."""
    for id_, filter_ in advertisements.items():
        known = routing.advertisements.get(id_)
        before = known.hop if known is not None else after
        if before is not after:
            routing.change_hop(id_, before, after)
            if after.is_client:
                routing.own.add(after, id_, filter_)
        # Operation 3 goes before 2: nothing may be amiss in between.
        routing.receive(after, Advertise(id_, filter_))
        if before is not after:
            routing.own.remove(before, id_)
            table = routing.links.get(before)
            if table is not None:
                table.unadvertised(id_)


def move_subscriptions(
    routing: TreeRouting,
    known: Iterable[SubscriptionId],
    wanted: Mapping[SubscriptionId, Filter],
    after: Session,
) -> list[SubscriptionId]:
    """From here on what is for the client goes to the other side. ``wanted`` are those of its
    subscriptions that the next broker there passed on to here. Of the others that are ``known``
    here, those are withdrawn that are not called for, or that one that was passed on covers. The
    rest is returned: an advertisement that calls for it is on its way to the destination. What
    matches it has to wait until it is passed on from there.

    O(the client's subscriptions x (links + advertisements about the same topic))."""
    link_after = routing.links.get(after)
    if link_after is not None:
        link_after.moved_to_far_end({*known, *wanted})
    for id_, filter_ in wanted.items():
        entry = routing.subscriptions.get(id_)
        if entry is None:
            routing.enter(after, id_, filter_)
        elif entry.hop is not after:
            _change_hop(routing, id_, after)
    open_ = [
        id_
        for id_ in known
        if id_ not in wanted
        and id_ in routing.subscriptions
        and routing.subscriptions[id_].hop is not after
    ]
    missing = _missing(routing, open_, after)
    for id_ in open_:
        entry = routing.subscriptions[id_]
        if id_ in missing:
            _change_hop(routing, id_, after)
        else:
            routing.receive(entry.hop, Unsubscribe(id_))
    return missing


def _change_hop(routing: TreeRouting, id_: SubscriptionId, after: Session) -> None:
    entry = routing.subscriptions[id_]
    routing.change_hop(id_, entry.hop, after)
    table = routing.links.get(entry.hop)
    if table is not None:
        table.subscribed(id_, entry.filter)


def _missing(
    routing: TreeRouting, ids: Sequence[SubscriptionId], after: Session
) -> list[SubscriptionId]:
    """Those of some subscriptions that are called for here, and that nothing covers that was
    passed on from the other side."""
    if not ids:
        return []
    offered, passed_on = TopicBuckets(), TopicBuckets()
    for id_, entry in routing.advertisements.items():
        if entry.hop is not after:
            offered.add(id_, entry.filter)
    for id_, filter_ in routing.from_hop(after)[1].items() if routing.covering else ():
        passed_on.add(id_, filter_)
    filters = {id_: routing.subscriptions[id_].filter for id_ in ids}
    return [
        id_
        for id_, own in filters.items()
        if any(intersects(offer, own) for _, offer in offered.related(own))
        and not any(covers(wide, own) for _, wide in passed_on.related(own))
    ]

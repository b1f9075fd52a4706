"""What a shift(i, j, k) does to routing tables: preparing at j, handing over to k, switching.

i is the mover, j its old peer, k its new one; I, J, K are the parts of the tree behind them. When
the links (i, j) and (j, k) are quiet, each end holds exactly what the other was told, and the
switch has to leave it that way on (i, k) and (j, k):

- at i, what came from j comes from k, and what j was told k was told;
- at j, what came from i comes from k; k was told what it was told before, without I's entries,
  and with those of J that I's advertisements call for (they now lie behind k);
- at k, I's entries come from i instead of j; i was told what j had told it; j was told what it
  was told by k, and what it was told by i.

Nothing here is sent over the affected links: changes since the hold, and whatever turns out not
to be needed any more, are told by the ordinary pass that ends a hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pubweave.core.routing.tree.link_table import LinkTable
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import ActionId, AdvertisementId, SubscriptionId
from pubweave.model.messages.session import ShiftTables, SyncStage

PART_ENTRIES = 32
PART_IDS = 256
PART_CHARACTERS = 100_000
"""About how much one message of a hand-over may say: frames and windows are bounded."""


@dataclass
class HandOver:
    """What j gives to k.

    ``from_mover``: subscriptions that i told j. ``from_old_peer``: those of J that k lacks.
    ``known_to_mover``: subscriptions that j told i. ``advertised_by_mover``: as it says."""

    from_mover: dict[SubscriptionId, Filter] = field(default_factory=dict)
    from_old_peer: dict[SubscriptionId, Filter] = field(default_factory=dict)
    known_to_mover: dict[SubscriptionId, Filter] = field(default_factory=dict)
    advertised_by_mover: dict[AdvertisementId, None] = field(default_factory=dict)

    def add(self, part: ShiftTables) -> None:
        self.from_mover.update(part.from_mover)
        self.from_old_peer.update(part.from_old_peer)
        self.known_to_mover.update(part.known_to_mover)
        self.advertised_by_mover.update(dict.fromkeys(part.advertised_by_mover))

    def parts(self, action_id: ActionId) -> Iterator[ShiftTables]:
        """As messages of bounded size, the last one marked."""
        for chunk in _chunks(self.from_mover):
            yield ShiftTables(action_id, chunk, (), (), (), False)
        for chunk in _chunks(self.from_old_peer):
            yield ShiftTables(action_id, (), chunk, (), (), False)
        for chunk in _chunks(self.known_to_mover):
            yield ShiftTables(action_id, (), (), chunk, (), False)
        ids = list(self.advertised_by_mover)
        for start in range(0, len(ids), PART_IDS):
            yield ShiftTables(action_id, (), (), (), tuple(ids[start : start + PART_IDS]), False)
        yield ShiftTables(action_id, (), (), (), (), True)


def _chunks(entries: dict[str, Filter]) -> Iterator[tuple[tuple[str, Filter], ...]]:
    chunk: list[tuple[str, Filter]] = []
    characters = 0
    for id_, filter_ in entries.items():
        said = len(id_) + sum(len(p.attribute) + len(str(p.value)) + 8 for p in filter_.predicates)
        if chunk and (len(chunk) == PART_ENTRIES or characters + said > PART_CHARACTERS):
            yield tuple(chunk)
            chunk, characters = [], 0
        chunk.append((id_, filter_))
        characters += said
    if chunk:
        yield tuple(chunk)


def prepare_old_peer(
    routing: TreeRouting, mover: Session, new_peer: Session
) -> tuple[HandOver, LinkTable]:
    """At j, when it has both markers and before anything is held: what k needs, and the table
    of the link to k as it will be."""
    advertised, from_mover = routing.from_hop(mover)
    prepared = LinkTable(new_peer, routing.send, covering=routing.covering)
    prepared.inherit(routing.links[new_peer], without=from_mover)
    for id_, filter_ in [*routing.from_hop(new_peer)[0].items(), *advertised.items()]:
        prepared.advertisements.add(id_, filter_)
    from_old_peer = {
        id_: entry.filter
        for id_, entry in routing.subscriptions.items()
        if entry.hop is not mover
        and entry.hop is not new_peer
        and not prepared.has(id_)
        and prepared.is_needed(entry.filter)
        and prepared.admit_silently(id_, entry.filter)
    }
    known_to_mover = dict(routing.links[mover].forwarded.items())
    return HandOver(from_mover, from_old_peer, known_to_mover, dict.fromkeys(advertised)), prepared


def switch_mover(routing: TreeRouting, old_peer: Session, new_peer: Session) -> None:
    """At i: the link to k takes the place of the link to j, table and all."""
    _move_entries(routing, old_peer, new_peer)
    table = routing.links[old_peer]
    is_awaited = routing.sync.take_over(old_peer, new_peer)
    routing.drop_link(old_peer)
    table.link = new_peer
    routing.put_link(new_peer, table)
    _ask_if(is_awaited, table)


def switch_old_peer(
    routing: TreeRouting, mover: Session, new_peer: Session, prepared: LinkTable, *, began: bool
) -> None:
    """At j: what was behind i is behind k. ``began``: k forgot everything meanwhile."""
    before = routing.links[new_peer]
    moved_advertisements, moved_subscriptions = routing.from_hop(mover)
    _move_entries(routing, mover, new_peer)
    is_awaited = routing.sync.take_over(mover, new_peer)
    routing.drop_link(mover)
    routing.links[new_peer] = prepared
    prepared.owed_stages, prepared.withdrawn = before.owed_stages, before.withdrawn
    _ask_if(is_awaited, prepared)
    _set_advertisements(prepared, routing.from_hop(new_peer)[0])
    if began:
        prepared.clear_forwarded()
        prepared.announced = {}
        # What k knew of I is as forgotten as the rest of it until k tells it again.
        routing.stale.add(new_peer, moved_advertisements, moved_subscriptions)
        return
    told = before.announced or {}
    prepared.announced = {id_: f for id_, f in told.items() if id_ not in moved_advertisements}


def told_to_mover(
    routing: TreeRouting, old_peer: Session, given: HandOver
) -> dict[AdvertisementId, Filter]:
    """At k, when it has the hand-over and all is quiet: the advertisements that i was told by j,
    which k will have told it."""
    behind, _ = routing.from_hop(old_peer)
    told = routing.links[old_peer].announced or {}
    return {
        id_: filter_
        for id_, filter_ in [*told.items(), *behind.items()]
        if id_ not in given.advertised_by_mover
    }


def switch_new_peer(
    routing: TreeRouting,
    mover: Session,
    old_peer: Session,
    given: HandOver,
    told: dict[AdvertisementId, Filter],
    *,
    began: bool,
) -> None:
    """At k: I's entries come from i now, and i is a neighbor. ``told``: by `told_to_mover`.
    ``began``: j forgot everything meanwhile, so that k holds nothing it was told any more."""
    table = LinkTable(mover, routing.send, covering=routing.covering)
    table.announced = told
    for id_, filter_ in given.known_to_mover.items():
        table.forwarded.add(id_, filter_)
    _ask_if(routing.sync.take_over(old_peer, mover), table)
    routing.sync.note_news(old_peer)
    routing.put_link(mover, table)
    pivot = routing.links[old_peer]
    behind, _ = routing.from_hop(old_peer)
    moved = {id_: f for id_, f in behind.items() if id_ in given.advertised_by_mover}
    for id_ in moved:
        routing.change_hop(id_, old_peer, mover)
    for id_, filter_ in given.from_mover.items():
        if id_ in routing.subscriptions:
            routing.change_hop(id_, old_peer, mover)
        else:
            routing.enter(mover, id_, filter_)
    if not began:
        for id_, filter_ in given.from_old_peer.items():
            if id_ not in routing.subscriptions:
                routing.enter(old_peer, id_, filter_)
        pivot.announced = (pivot.announced or {}) | moved
        for id_, filter_ in given.from_mover.items():
            if not pivot.has(id_):
                pivot.forwarded.add(id_, filter_)
    _set_advertisements(table, routing.from_hop(mover)[0])
    _set_advertisements(pivot, routing.from_hop(old_peer)[0])


def _ask_if(is_awaited: bool, table: LinkTable) -> None:
    """Ask the far end of a link as soon as the link is released."""
    if is_awaited:
        table.owed_stages[SyncStage.ADVERTISEMENTS] = 1


def _move_entries(routing: TreeRouting, old: Session, new: Session) -> None:
    for entries in routing.from_hop(old):
        for id_ in entries:
            routing.change_hop(id_, old, new)


def _set_advertisements(table: LinkTable, entries: dict[AdvertisementId, Filter]) -> None:
    for id_ in list(table.advertisements):
        table.advertisements.remove(id_)
    for id_, filter_ in entries.items():
        table.advertisements.add(id_, filter_)

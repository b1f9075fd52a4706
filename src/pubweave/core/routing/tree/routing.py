"""Content routing on a tree: advertisements flood, subscriptions meet them, publications return.

An advertisement goes to every broker. A subscription follows the reverse path of each
advertisement it intersects. A publication follows the reverse path of each subscription it
matches. Every table entry remembers its last hop, the session it came from; on a tree that is
all a broker needs to know of where things are.

Invariant when nothing is under way: on each link, exactly the subscriptions needed there are
passed on (or covered by passed-on ones), and the neighbor holds exactly the passed-on ones.

An action can hold links (`hold`): publications for them go to a stand-in, and no table messages
are sent over them. `let_go`, `catch_up`, then the held publications, then `tidy` bring a link up to
date: additions are sent before, withdrawals after the publications that may depend on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pubweave.core.matching.index import MatchIndex
from pubweave.core.metering.counters import TableSizes
from pubweave.core.routing.strategy import RoutingStrategy, Send, check_name, check_owner
from pubweave.core.routing.tree.confirmation import SubscriptionConfirmation
from pubweave.core.routing.tree.link_sync import LinkSync
from pubweave.core.routing.tree.link_table import Entry, LinkTable, TopicBuckets
from pubweave.core.routing.tree.own_advertisements import AnsweredAdvertisements
from pubweave.core.routing.tree.stale_entries import StaleEntries
from pubweave.core.routing.tree.withdrawals import Withdrawals
from pubweave.core.session.session import Session
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.relations import covers
from pubweave.model.ids import AdvertisementId, ClientId, SubscriptionId, publisher_of
from pubweave.model.messages.session import (
    Advertise,
    SequencedMessage,
    Subscribe,
    Synced,
    SyncStage,
    TableMessage,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.publications import Publication


class TreeRouting(RoutingStrategy):
    """The `tree` strategy. See `strategy.RoutingStrategy` for the contract of each method."""

    protocol = "tree"
    confirms = True
    keeps_early = True

    def __init__(self, send: Send, *, covering: bool = False) -> None:
        super().__init__(send)
        self.send = send
        self.covering = covering
        self.links: dict[Session, LinkTable] = {}
        self.advertisements: dict[AdvertisementId, Entry] = {}
        self.subscriptions: dict[SubscriptionId, Entry] = {}
        self._wanted = TopicBuckets()
        self._by_hop: dict[Session, dict[SubscriptionId, None]] = {}
        self._publishers: dict[ClientId, int] = {}
        self.stale = StaleEntries()
        self._link_index: MatchIndex[Session] = MatchIndex()
        self._client_index: MatchIndex[Session] = MatchIndex()
        self.sync = LinkSync(self._ask, self._answer, self._send)
        self.confirmation = SubscriptionConfirmation(self.links, self._has, self._send)
        self._answered = AnsweredAdvertisements()
        self._withdrawals = Withdrawals()
        self._stand_in: Session | None = None
        self._holds = 0

    # --- links and clients -----------------------------------------------------------------

    def link_added(self, link: Session) -> None:
        self.links[link] = LinkTable(link, self._send, covering=self.covering)
        self.sync.added(link)
        self.confirmation.link_began(link)

    def link_removed(self, link: Session) -> None:
        table = self.links[link]
        self._withdraw(link, list(table.advertisements))
        self.drop_link(link)

    def link_began(self, link: Session, under_way: Sequence[SequencedMessage] = ()) -> None:
        table = self.links[link]
        self.stale.add(link, table.advertisements, self._by_hop.get(link, ()))
        table.clear_forwarded()
        self.sync.began(link)
        self.confirmation.link_began(link)
        again, withdrawn = self._withdrawals.sort_out(
            [*under_way, *self.sync.clear_gate(link)], self.advertisements
        )
        if table.announced is not None:
            lost = {i: f for i, f in table.announced.items() if i not in self.advertisements}
            table.withdrawn |= lost | withdrawn
            table.announced = {}
            table.owed_stages = Counter({SyncStage.ADVERTISEMENTS: 1})
            return
        for id_, entry in self.advertisements.items():
            if entry.hop is not link:
                self._send(link, Advertise(id_, entry.filter))
        for id_, filter_ in withdrawn.items():
            self._send(link, Advertise(id_, filter_))
        self._ask(link)
        self.confirmation.tell_complete()
        self.sync.put_at_gate(link, again)

    def has_stale(self, link: Session) -> bool:
        return self.stale.any_of(link) or link in self.sync.gates

    def _ask(self, link: Session) -> None:
        """All advertisements are sent: the far end is to answer."""
        if self.links[link].is_held:
            self.links[link].owed_stages[SyncStage.ADVERTISEMENTS] = 1  # the last one asks for all
        else:
            self.sync.was_asked(link)
            self._send(link, Synced(SyncStage.ADVERTISEMENTS))

    def _answer(self, link: Session, stage: SyncStage) -> None:
        """All subscriptions that match a neighbor's advertisements are queued, or a part of them;
        those that match a client's have arrived, or are awaited no longer."""
        if link.is_client:
            self._answer_client(link, stage)
        elif self.links[link].is_held:
            self.links[link].owed_stages[stage] += 1
        else:
            self._send(link, Synced(stage))

    def _answer_client(self, client: Session, stage: SyncStage) -> None:
        if stage is SyncStage.PART:
            self._answered.give_up(client)
        elif self.sync.is_waiting(client):
            return  # for what it advertised later
        else:
            self._answered.answered(client)
        self.gate.open(client)

    def forget_stale(self, link: Session) -> bool:
        """The grace period of a restarted neighbor is over: remove what it has not sent again."""
        self._forget_stale(link)
        return self.sync.is_waiting(link)

    def _forget_stale(self, link: Session) -> None:
        self.sync.stop_waiting(link)
        if link in self.sync.gates or link in self.sync.partial:
            # It has not answered completely: it awaits others, and what it has not sent may be
            # theirs. Its answer begins a new grace period.
            return
        advertisements, subscriptions = self.stale.pop(link)
        for subscription in subscriptions:
            self._unsubscribe(link, subscription)
        for advertisement in advertisements:
            self._unadvertise(link, advertisement)

    def client_greeted(self, client: Session, *, is_returning: bool) -> None:
        self.gate.greeted(client, is_returning=is_returning)

    def client_left(self, client: Session) -> None:
        self.gate.discard(client)
        self._answered.give_up(client)
        self.sync.forget_client(client)
        self.confirmation.forget_hop(client)
        self._withdraw(client, self.own.discard(client))

    def client_entries(self) -> Iterator[tuple[Session, Advertise | Subscribe]]:
        for id_, entry in self.subscriptions.items():
            if entry.hop.is_client:
                yield entry.hop, Subscribe(id_, entry.filter)
        for id_, entry in self.advertisements.items():
            if entry.hop.is_client:
                yield entry.hop, Advertise(id_, entry.filter)

    def _withdraw(self, hop: Session, advertisements: list[AdvertisementId]) -> None:
        for subscription in list(self._by_hop.get(hop, {})):
            self._unsubscribe(hop, subscription)
        for advertisement in advertisements:
            self._unadvertise(hop, advertisement)

    # --- table messages --------------------------------------------------------------------

    def receive(self, hop: Session, message: TableMessage | Synced) -> None:
        match message:
            case Subscribe(id_, filter_):
                self._subscribe(hop, id_, filter_)
            case Unsubscribe(id_) if self._may_cover_more(hop, id_):
                self.stale.add(hop, subscriptions=(id_,))
            case Unsubscribe(id_):
                self._unsubscribe(hop, id_)
            case Advertise(id_, filter_):
                self._advertise(hop, id_, filter_)
            case Unadvertise(id_):
                self._unadvertise(hop, id_)
            case Synced(SyncStage.ADVERTISEMENTS) if hop in self.links:
                self.sync.asked_by(hop, [link for link in self.links if link is not hop])
            case Synced(SyncStage.SUBSCRIPTIONS) if hop in self.links:
                self.sync.answered_by(hop)
            case Synced(SyncStage.PART) if hop in self.links:
                self.sync.answered_in_part_by(hop)
            case Synced(SyncStage.COMPLETE) if hop in self.links:
                self.confirmation.completed_by(hop)
            case Synced():
                pass

    def _subscribe(self, hop: Session, id_: SubscriptionId, filter_: Filter) -> None:
        known = self.subscriptions.get(id_)
        if known is not None:
            if known.hop is hop and known.filter == filter_:
                self.stale.discard(hop, id_)
                self._confirm(hop, id_, filter_)
                return
            check_owner(hop, known.hop, id_)
            self._unsubscribe(known.hop, id_)
        check_name(hop, id_)
        self._wanted.add(id_, filter_)
        self._enter(hop, id_, filter_)
        for link, table in self.links.items():
            if link is not hop:
                table.subscribed(id_, filter_)
        self._confirm(hop, id_, filter_)

    def _confirm(self, hop: Session, id_: SubscriptionId, filter_: Filter) -> None:
        if hop.is_client:
            self.confirmation.subscribed(hop, id_, filter_)

    def _has(self, hop: Session, id_: SubscriptionId, filter_: Filter) -> bool:
        """Whether a subscription, or one that covers it, came from a session."""
        known = self.subscriptions.get(id_)
        if known is not None and known.hop is hop:
            return known.filter == filter_
        return self.covering and any(
            self.subscriptions[other].hop is hop and covers(wide, filter_)
            for other, wide in self._wanted.related(filter_)
        )

    def _may_cover_more(self, hop: Session, id_: SubscriptionId) -> bool:
        """Whether a subscription may cover others that a neighbor does not know yet, and so could
        not forward before it withdrew this one."""
        known = self.subscriptions.get(id_)
        is_from_hop = known is not None and known.hop is hop and hop in self.links
        return self.covering and is_from_hop and self.sync.is_unanswered(hop)

    def _unsubscribe(self, hop: Session, id_: SubscriptionId) -> None:
        known = self.subscriptions.get(id_)
        if known is None or known.hop is not hop:
            return
        self.stale.discard(hop, id_)
        self._wanted.remove(id_)
        self._remove(hop, id_)
        if hop.is_client or not self._has(hop, id_, known.filter):
            self.confirmation.forget(hop, id_)
        for table in self.links.values():
            table.unsubscribed(id_)

    def _enter(self, hop: Session, id_: SubscriptionId, filter_: Filter) -> None:
        self.subscriptions[id_] = Entry(filter_, hop)
        self._by_hop.setdefault(hop, {})[id_] = None
        self._index(hop).add(id_, filter_, hop)

    def _remove(self, hop: Session, id_: SubscriptionId) -> None:
        del self.subscriptions[id_]
        del self._by_hop[hop][id_]
        if not self._by_hop[hop]:
            del self._by_hop[hop]
        self._index(hop).remove(id_)

    def _advertise(self, hop: Session, id_: AdvertisementId, filter_: Filter) -> None:
        known = self.advertisements.get(id_)
        if known is not None:
            if known.hop is hop and known.filter == filter_:
                self.stale.discard(hop, id_)
                self._pass_on_wanted(hop, id_, filter_)
                return
            check_owner(hop, known.hop, id_)
            self._unadvertise(known.hop, id_)
        if not hop.is_client:
            self.sync.note_news(hop)
        check_name(hop, id_)
        self.advertisements[id_] = Entry(filter_, hop)
        publisher = publisher_of(id_)
        self._publishers[publisher] = self._publishers.get(publisher, 0) + 1
        if hop.is_client:
            self.own.add(hop, id_, filter_)
        for link, table in self.links.items():
            if link is not hop and not table.is_held:
                self._send_advertisement(link, id_, filter_)
        self._pass_on_wanted(hop, id_, filter_)
        if hop.is_client:
            self._draw(hop, id_, filter_)

    def _draw(self, client: Session, id_: AdvertisementId, filter_: Filter) -> None:
        """Let a client wait with its publications until all who want them are known here."""
        if self._answered.has_drawn(filter_):
            self._answered.add(id_, filter_)
            return
        self._answered.asked(client, id_, filter_)
        self.sync.asked_for(client, self.links)
        if self.sync.is_waiting(client):
            self.gate.shut(client)

    def _send_advertisement(self, link: Session, id_: AdvertisementId, filter_: Filter) -> None:
        self.sync.forget_withdrawal(link, id_)
        self._send(link, Advertise(id_, filter_))

    def _pass_on_wanted(self, hop: Session, id_: AdvertisementId, filter_: Filter) -> None:
        table = self.links.get(hop)
        if table is None:
            return
        if id_ in table.advertisements:
            table.advertisements.remove(id_)
        candidates = [
            (subscription, wanted)
            for subscription, wanted in self._wanted.related(filter_)
            if self.subscriptions[subscription].hop is not hop
        ]
        table.advertised(id_, filter_, candidates)

    def _unadvertise(self, hop: Session, id_: AdvertisementId) -> None:
        known = self.advertisements.get(id_)
        if (
            known is not None
            and known.hop is not hop
            and hop in self.links
            and not self.is_held(hop)
        ):
            # The advertisement arrived by another route, and the neighbor no longer has it from
            # here: it was restarted while its publisher was moved.
            self._send_advertisement(hop, id_, known.filter)
        if known is None or known.hop is not hop:
            return
        self.stale.discard(hop, id_)
        del self.advertisements[id_]
        publisher = publisher_of(id_)
        self._publishers[publisher] -= 1
        if not self._publishers[publisher]:
            del self._publishers[publisher]
        self.own.remove(hop, id_)
        self._answered.remove(hop, id_)
        self._note_withdrawal(id_, known.filter)
        for link, table in self.links.items():
            if link is not hop and not table.is_held:
                self.sync.withdraw(link, id_)
        own = self.links.get(hop)
        if own is not None:
            own.unadvertised(id_)
            self.confirmation.advertised_less(hop)

    def is_held(self, link: Session) -> bool:
        table = self.links.get(link)
        return table is not None and table.is_held

    def _note_withdrawal(self, id_: AdvertisementId, filter_: Filter) -> None:
        # Withdrawals for held links are queued only when these are released.
        if self._withdrawals.are_many and not any(t.is_held for t in self.links.values()):
            self._withdrawals.forget_settled([*self.links, *self.sync.gates.values()])
        self._withdrawals.note(id_, filter_)

    def _index(self, hop: Session) -> MatchIndex[Session]:
        return self._client_index if hop.is_client else self._link_index

    # --- links that an action holds --------------------------------------------------------

    def hold(self, links: Sequence[Session], stand_in: Session) -> None:
        """From now on nothing is sent to ``links``; publications for them go to ``stand_in``."""
        self._stand_in = stand_in
        self._holds += 1
        for link in links:
            self.links[link].announced = {
                id_: entry.filter
                for id_, entry in self.advertisements.items()
                if entry.hop is not link
            }

    def let_go(self) -> None:
        """Publications are routed to the held links again; each needs `catch_up` at once."""
        self._stand_in = None
        self._holds += 1

    def catch_up(self, link: Session) -> list[AdvertisementId]:
        """Send a link what is new since it was held; returns the advertisements to withdraw."""
        table = self.links[link]
        announced, table.announced = table.announced or {}, None
        for id_, filter_ in table.withdrawn.items():
            if id_ not in self.advertisements:
                announced[id_] = filter_
                self._send(link, Advertise(id_, filter_))
        table.withdrawn = {}
        for id_, entry in self.advertisements.items():
            if entry.hop is not link and announced.get(id_) != entry.filter:
                self._send_advertisement(link, id_, entry.filter)
        if SyncStage.ADVERTISEMENTS in table.owed_stages:
            self._ask(link)
        for id_, entry in self.subscriptions.items():
            if entry.hop is not link:
                table.reconsider(id_, entry.filter)
        for stage in (SyncStage.PART, SyncStage.SUBSCRIPTIONS):
            for _ in range(table.owed_stages[stage]):
                self._answer(link, stage)
        table.owed_stages = Counter()
        return [
            id_
            for id_ in announced
            if id_ not in self.advertisements or self.advertisements[id_].hop is link
        ]

    def tidy(self, link: Session, withdrawn: Sequence[AdvertisementId]) -> None:
        """Withdraw from a link what was withdrawn or is no longer needed since it was held."""
        table = self.links[link]
        for id_, filter_ in table.passed_on():
            entry = self.subscriptions.get(id_)
            if entry is None or entry.hop is link or not table.is_needed(filter_):
                table.unsubscribed(id_)
        for id_ in withdrawn:
            self.sync.withdraw(link, id_)

    def route_among(
        self, publication: Publication, origin: Session | None, links: Sequence[Session]
    ) -> list[Session]:
        """Those of ``links`` that a held publication is routed to."""
        wanting = {*self._link_index.match(publication), *self.sync.unheard}
        if origin is not None:
            wanting.update(self.sync.awaited_by(origin))
        return [link for link in links if link in wanting and link is not origin]

    def change_hop(self, id_: str, old: Session, new: Session) -> None:
        """The last hop of an entry changes from one link to another."""
        known = self.advertisements.get(id_)
        if known is not None and known.hop is old:
            self.stale.discard(old, id_)
            self.advertisements[id_] = Entry(known.filter, new)
            self._answered.remove(old, id_)
        known = self.subscriptions.get(id_)
        if known is not None and known.hop is old:
            self.stale.discard(old, id_)
            self._remove(old, id_)
            self.confirmation.forget(old, id_)
            self._enter(new, id_, known.filter)
            self._confirm(new, id_, known.filter)

    def enter(self, hop: Session, id_: SubscriptionId, filter_: Filter) -> None:
        """Enter a subscription that arrived without its own message; it is forwarded as usual."""
        self._subscribe(hop, id_, filter_)

    def put_link(self, link: Session, table: LinkTable) -> None:
        """Add a link made by an action; it is held until the action releases it."""
        self.links[link] = table
        self.confirmation.link_began(link)

    def drop_link(self, link: Session) -> None:
        """Remove a link by an action, after its entries moved elsewhere."""
        self.sync.removed(link)
        self.confirmation.link_removed(link)
        self.stale.pop(link)
        del self.links[link]

    def from_hop(self, hop: Session) -> tuple[dict[str, Filter], dict[str, Filter]]:
        """Advertisements and subscriptions with this last hop."""
        return (
            {i: entry.filter for i, entry in self.advertisements.items() if entry.hop is hop},
            {i: self.subscriptions[i].filter for i in self._by_hop.get(hop, {})},
        )

    # --- publications ----------------------------------------------------------------------

    def route(self, publication: Publication, origin: Session) -> tuple[Session, ...]:
        links = self._link_index.match(publication)
        awaited = self.sync.awaited_by(origin)
        if self.sync.unheard or awaited:
            links = tuple(dict.fromkeys([*links, *self.sync.unheard, *awaited]))
        if origin in links:
            links = tuple([link for link in links if link is not origin])
        if self._stand_in is not None or self.sync.gates:
            links = tuple(dict.fromkeys([self.stand_in_for(link) for link in links]))
        return links + self._client_index.match(publication)

    def is_wanted_by(self, client: Session, publication: Publication) -> bool:
        return client in self._client_index.match(publication)

    def open_full_gates(self) -> int:
        return self.sync.open_full_gates()

    def give_up(self, link: Session, now: float) -> bool:
        return self.sync.give_up(link, now)

    def set_gate(self, link: Session, is_shut: bool) -> None:
        """Let publications for a link wait until its far end knows who wants them."""
        if is_shut:
            self.sync.shut_gate(link)
        else:
            self.sync.open_gate(link)

    def stand_in_for(self, link: Session) -> Session:
        """The session that publications for a link go to: the link, or its stand-in."""
        if self._stand_in is not None and self.links[link].is_held:
            return self._stand_in
        return self.sync.gates.get(link, link)

    def is_topic_only(self, topic: str) -> bool:
        return self._link_index.is_topic_only(topic) and self._client_index.is_topic_only(topic)

    @property
    def version(self) -> int:
        indexes = self._link_index.version + self._client_index.version
        return indexes + self.sync.version + self._holds

    def knows_publisher(self, publisher: ClientId) -> bool:
        return publisher in self._publishers

    def sizes(self) -> TableSizes:
        return TableSizes(
            subscriptions=len(self.subscriptions),
            advertisements=len(self.advertisements),
            forwarded=sum(len(table.forwarded) for table in self.links.values()),
        )

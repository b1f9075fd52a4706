"""Content routing on a tree: advertisements flood, subscriptions meet them, publications return.

An advertisement goes to every broker. A subscription follows the reverse path of each
advertisement it intersects. A publication follows the reverse path of each subscription it
matches. Every table entry remembers its last hop, the session it came from; on a tree that is
all a broker needs to know of where things are.

Invariant when nothing is under way: on each link, exactly the subscriptions needed there are
passed on (or covered by passed-on ones), and the neighbor holds exactly the passed-on ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from pubweave.core.client_tables import ClientAdvertisements, check_name
from pubweave.core.link_table import LinkTable, TopicBuckets
from pubweave.core.matching import MatchIndex
from pubweave.core.routing import RefusedError, Send, TableSizes
from pubweave.core.session import Session
from pubweave.model.filters import Filter
from pubweave.model.ids import AdvertisementId, ClientId, SubscriptionId, publisher_of
from pubweave.model.messages import (
    Advertise,
    Subscribe,
    Synced,
    SyncStage,
    TableMessage,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.publications import Publication


@dataclass(frozen=True)
class Entry:
    """A filter and the session it came from."""

    filter: Filter
    hop: Session


class TreeRouting:
    """The `tree` strategy. See `routing.RoutingStrategy` for the contract of each method."""

    protocol = "tree"

    def __init__(self, send: Send, *, covering: bool = False) -> None:
        self._send = send
        self.covering = covering
        self.links: dict[Session, LinkTable] = {}
        self.advertisements: dict[AdvertisementId, Entry] = {}
        self.subscriptions: dict[SubscriptionId, Entry] = {}
        self._wanted = TopicBuckets()
        self._by_hop: dict[Session, dict[SubscriptionId, None]] = {}
        self._own = ClientAdvertisements()
        self._publishers: dict[ClientId, int] = {}
        self._stale: dict[Session, tuple[set[AdvertisementId], set[SubscriptionId]]] = {}
        self._link_index: MatchIndex[Session] = MatchIndex()
        self._client_index: MatchIndex[Session] = MatchIndex()

    # --- links and clients -----------------------------------------------------------------

    def link_added(self, link: Session) -> None:
        self.links[link] = LinkTable(link, self._send, covering=self.covering)
        self._stale[link] = (set(), set())

    def link_removed(self, link: Session) -> None:
        table = self.links[link]
        self._withdraw(link, list(table.advertisements))
        del self.links[link], self._stale[link]

    def link_began(self, link: Session) -> None:
        table = self.links[link]
        self._stale[link] = (set(table.advertisements), set(self._by_hop.get(link, {})))
        table.clear_forwarded()
        for id_, entry in self.advertisements.items():
            if entry.hop is not link:
                self._send(link, Advertise(id_, entry.filter))
        self._send(link, Synced(SyncStage.ADVERTISEMENTS))

    def has_stale(self, link: Session) -> bool:
        return any(self._stale.get(link, ()))

    def forget_stale(self, link: Session) -> None:
        advertisements, subscriptions = self._stale[link]
        for subscription in sorted(subscriptions):
            self._unsubscribe(link, subscription)
        for advertisement in sorted(advertisements):
            self._unadvertise(link, advertisement)
        self._stale[link] = (set(), set())

    def client_left(self, client: Session) -> None:
        self._withdraw(client, self._own.forget(client))

    def _withdraw(self, hop: Session, advertisements: list[AdvertisementId]) -> None:
        for subscription in list(self._by_hop.get(hop, {})):
            self._unsubscribe(hop, subscription)
        for advertisement in advertisements:
            self._unadvertise(hop, advertisement)

    # --- table messages --------------------------------------------------------------------

    def take(self, hop: Session, message: TableMessage | Synced) -> None:
        match message:
            case Subscribe(id_, filter_):
                self._subscribe(hop, id_, filter_)
            case Unsubscribe(id_):
                self._unsubscribe(hop, id_)
            case Advertise(id_, filter_):
                self._advertise(hop, id_, filter_)
            case Unadvertise(id_):
                self._unadvertise(hop, id_)
            case Synced(SyncStage.ADVERTISEMENTS) if not hop.is_client:
                # All subscriptions that the neighbor's advertisements call for are queued.
                self._send(hop, Synced(SyncStage.SUBSCRIPTIONS))
            case Synced():
                pass

    def _subscribe(self, hop: Session, id_: SubscriptionId, filter_: Filter) -> None:
        known = self.subscriptions.get(id_)
        if known is not None:
            if known.hop is hop and known.filter == filter_:
                self._fresh(hop, id_)
                return
            self._check_owner(hop, known, id_)
            self._unsubscribe(known.hop, id_)
        check_name(hop, id_)
        self.subscriptions[id_] = Entry(filter_, hop)
        self._wanted.add(id_, filter_)
        self._by_hop.setdefault(hop, {})[id_] = None
        self._index(hop).add(id_, filter_, hop)
        for link, table in self.links.items():
            if link is not hop:
                table.subscribed(id_, filter_)

    def _unsubscribe(self, hop: Session, id_: SubscriptionId) -> None:
        known = self.subscriptions.get(id_)
        if known is None or known.hop is not hop:
            return
        self._fresh(hop, id_)
        del self.subscriptions[id_]
        self._wanted.remove(id_)
        del self._by_hop[hop][id_]
        if not self._by_hop[hop]:
            del self._by_hop[hop]
        self._index(hop).remove(id_)
        for table in self.links.values():
            table.unsubscribed(id_)

    def _advertise(self, hop: Session, id_: AdvertisementId, filter_: Filter) -> None:
        known = self.advertisements.get(id_)
        if known is not None:
            if known.hop is hop and known.filter == filter_:
                self._fresh(hop, id_)
                self._pass_on_wanted(hop, id_, filter_)
                return
            self._check_owner(hop, known, id_)
            self._unadvertise(known.hop, id_)
        check_name(hop, id_)
        self.advertisements[id_] = Entry(filter_, hop)
        publisher = publisher_of(id_)
        self._publishers[publisher] = self._publishers.get(publisher, 0) + 1
        if hop.is_client:
            self._own.add(hop, id_, filter_)
        for link in self.links:
            if link is not hop:
                self._send(link, Advertise(id_, filter_))
        self._pass_on_wanted(hop, id_, filter_)

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
        if known is None or known.hop is not hop:
            return
        self._fresh(hop, id_)
        del self.advertisements[id_]
        publisher = publisher_of(id_)
        self._publishers[publisher] -= 1
        if not self._publishers[publisher]:
            del self._publishers[publisher]
        self._own.remove(hop, id_)
        for link in self.links:
            if link is not hop:
                self._send(link, Unadvertise(id_))
        table = self.links.get(hop)
        if table is not None:
            table.unadvertised(id_)

    def _fresh(self, hop: Session, id_: str) -> None:
        """An entry was told again, or is gone for good: it is not stale."""
        for ids in self._stale.get(hop, ()):
            ids.discard(id_)

    def _check_owner(self, hop: Session, known: Entry, id_: str) -> None:
        if hop.is_client and known.hop is not hop:
            raise RefusedError(f"{id_!r} belongs to another client")

    def _index(self, hop: Session) -> MatchIndex[Session]:
        return self._client_index if hop.is_client else self._link_index

    # --- publications ----------------------------------------------------------------------

    def route(self, publication: Publication, origin: Session) -> tuple[Session, ...]:
        links = self._link_index.match(publication)
        if origin in links:
            links = tuple([link for link in links if link is not origin])
        return links + self._client_index.match(publication)

    def is_topic_only(self, topic: str) -> bool:
        return self._link_index.is_topic_only(topic) and self._client_index.is_topic_only(topic)

    @property
    def version(self) -> int:
        return self._link_index.version + self._client_index.version

    def may_publish(self, publication: Publication, client: Session) -> bool:
        return self._own.may_publish(publication, client)

    def may_publish_topic(self, topic: str, client: Session) -> bool:
        return self._own.may_publish_topic(topic, client)

    def knows_publisher(self, publisher: ClientId) -> bool:
        return publisher in self._publishers

    def sizes(self) -> TableSizes:
        return TableSizes(
            subscriptions=len(self.subscriptions),
            advertisements=len(self.advertisements),
            forwarded=sum(len(table.forwarded) for table in self.links.values()),
        )

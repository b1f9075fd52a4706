"""The strategy `flooding`: every publication goes to every broker of a tree.

Brokers tell each other nothing of what their clients want: a broker passes a publication on to all
neighbors but the one it came from, and hands it to those of its clients that it matches. So a
subscription holds at once, wherever it is made, and every broker carries all traffic. It is the
yardstick for the strategies that filter on the way, and the smallest example of a strategy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pubweave.core.matching.index import MatchIndex
from pubweave.core.metering.counters import TableSizes
from pubweave.core.routing.strategy import RoutingStrategy, Send, check_name, check_owner
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import AdvertisementId, ClientId, SubscriptionId
from pubweave.model.messages.session import (
    Advertise,
    SequencedMessage,
    Subscribe,
    Synced,
    TableMessage,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.publications import Publication

Entries = dict[str, tuple[Session, Filter]]


class FloodingRouting(RoutingStrategy):
    """See `strategy.RoutingStrategy` for the contract of each method."""

    protocol = "flooding"
    keeps_early = True

    def __init__(self, send: Send) -> None:
        super().__init__(send)
        self._links: dict[Session, None] = {}
        self._subscriptions: Entries = {}
        self._advertisements: Entries = {}
        self._index: MatchIndex[Session] = MatchIndex()
        self._link_changes = 0

    # --- links -----------------------------------------------------------------------------

    def link_added(self, link: Session) -> None:
        self._links[link] = None
        self._link_changes += 1

    def link_removed(self, link: Session) -> None:
        del self._links[link]
        self._link_changes += 1

    def link_began(self, link: Session, under_way: Sequence[SequencedMessage] = ()) -> None:
        """The neighbor needs no tables, only the publications that it may not have got."""
        for message in under_way:
            if isinstance(message, Publication):
                self._send(link, message)

    # --- clients ---------------------------------------------------------------------------

    def receive(self, hop: Session, message: TableMessage | Synced) -> None:
        if not hop.is_client:
            raise RemoteProtocolError(f"{type(message).__name__} is not for flooding brokers")
        match message:
            case Subscribe(id_, filter_):
                self._check(hop, id_, self._subscriptions)
                self._unsubscribe(hop, id_)
                self._subscriptions[id_] = hop, filter_
                self._index.add(id_, filter_, hop)
            case Unsubscribe(id_):
                self._unsubscribe(hop, id_)
            case Advertise(id_, filter_):
                self._check(hop, id_, self._advertisements)
                self._unadvertise(hop, id_)
                self._advertisements[id_] = hop, filter_
                self.own.add(hop, id_, filter_)
            case Unadvertise(id_):
                self._unadvertise(hop, id_)
            case Synced():
                pass

    def _check(self, hop: Session, id_: str, entries: Entries) -> None:
        check_name(hop, id_)
        if id_ in entries:
            check_owner(hop, entries[id_][0], id_)

    def _unsubscribe(self, hop: Session, id_: SubscriptionId) -> None:
        if id_ in self._subscriptions and self._subscriptions[id_][0] is hop:
            del self._subscriptions[id_]
            self._index.remove(id_)

    def _unadvertise(self, hop: Session, id_: AdvertisementId) -> None:
        if id_ in self._advertisements and self._advertisements[id_][0] is hop:
            del self._advertisements[id_]
            self.own.remove(hop, id_)

    def client_left(self, client: Session) -> None:
        for id_ in [id_ for id_, (hop, _) in self._subscriptions.items() if hop is client]:
            self._unsubscribe(client, id_)
        for id_ in self.own.discard(client):
            del self._advertisements[id_]

    def client_entries(self) -> Iterator[tuple[Session, Advertise | Subscribe]]:
        for id_, (client, filter_) in self._subscriptions.items():
            yield client, Subscribe(id_, filter_)
        for id_, (client, filter_) in self._advertisements.items():
            yield client, Advertise(id_, filter_)

    # --- publications ----------------------------------------------------------------------

    def route(self, publication: Publication, origin: Session) -> tuple[Session, ...]:
        links = [link for link in self._links if link is not origin]
        return (*links, *self._index.match(publication))

    def is_topic_only(self, topic: str) -> bool:
        return self._index.is_topic_only(topic)

    @property
    def version(self) -> int:
        return self._index.version + self._link_changes

    def is_wanted_by(self, client: Session, publication: Publication) -> bool:
        return client in self._index.match(publication)

    def knows_publisher(self, publisher: ClientId) -> bool:
        """Nobody says which publishers there are: none is ever forgotten. O(publishers) memory."""
        return True

    def sizes(self) -> TableSizes:
        return TableSizes(len(self._subscriptions), len(self._advertisements), 0)

"""The strategy `topic_connected`: a publication floods the brokers that take part in its topic.

A broker takes part in the topics that its clients subscribe to or advertise: as in Shadows,
publishers are subscribers. It tells its neighbors which these are and how much of each it has
got (`TopicWanted`); from then on they pass on to it what they take in of these topics, after what
they have kept and it lacks. So no broker ever gets what it does not want (no relays), a link that
is new brings both ends to the same state, and a break costs time, not publications.

The overlay is a general graph. Copies meet and are dropped by publisher, topic and sequence
(`topic_log`). A link is a queue, and a neighbor that wants a topic has got, before a publication,
all that precede it here; so by induction every broker takes each publisher's publications on a
topic in in their order. Which links there are is decided in `topic_connected/repair`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.matching.index import MatchIndex
from pubweave.core.metering.counters import TableSizes
from pubweave.core.routing.strategy import RoutingStrategy, Send, check_name
from pubweave.core.routing.topic_connected.dropped_ranges import DroppedRange
from pubweave.core.routing.topic_connected.replay import ReplayLimits, for_client, in_place
from pubweave.core.routing.topic_connected.topic_log import TopicLogs
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.vocabulary.errors import RefusedError
from pubweave.model.filters.filter import Filter, topic_of
from pubweave.model.ids import AdvertisementId, BrokerId, ClientId, SubscriptionId
from pubweave.model.messages.session import (
    Advertise,
    SequencedMessage,
    Subscribe,
    Synced,
    TableMessage,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.messages.topic_connected import (
    TOPIC_PROTOCOL,
    TopicMessage,
    TopicMissed,
    TopicOpened,
    TopicUnwanted,
    TopicWanted,
)
from pubweave.model.publications import TOPIC_ATTRIBUTE, Publication


@dataclass(frozen=True)
class TopicEntry:
    """What a client's subscription or advertisement is about."""

    client: Session
    topic: str
    filter: Filter
    since: float = field(default=0.0, compare=False)
    has_moved: bool = field(default=False, compare=False)
    """The client was at another broker before, and has got some of it there."""


class TopicRouting(RoutingStrategy):
    """See `strategy.RoutingStrategy` for the contract of each method."""

    protocol = TOPIC_PROTOCOL
    confirms = True
    replays = True
    routes_whole_topics = True

    def __init__(self, send: Send) -> None:
        super().__init__(send)
        self.now = 0.0
        """The time of what is being handled: when topics and claims begin, how old spans are."""
        self.logs = TopicLogs()
        self.topics: dict[str, None] = {}
        """Those that this broker takes part in."""
        self.wanted: dict[Session, dict[str, dict[ClientId, int]]] = {}
        """By link: the topics that the neighbor takes part in, and its marks when it said so."""
        self.opened: dict[Session, dict[str, int]] = {}
        """By link: the topics of which the neighbor sends us all, and for which part in them."""
        self.asked: dict[Session, dict[str, None]] = {}
        """By link: the topics that we have said we want of just this neighbor."""
        self.outside: frozenset[BrokerId] = frozenset()
        """Neighbors of another overlay: they hear nothing but what is asked of them."""
        self.held: dict[str, int] = {}
        """Topics in which this broker takes part for others (`hold`)."""
        self.subscriptions: dict[SubscriptionId, TopicEntry] = {}
        self.advertisements: dict[AdvertisementId, TopicEntry] = {}
        self.claimed: dict[str, int] = {}
        """How many subscriptions and advertisements of clients name each topic."""
        self.subscribed: dict[str, int] = {}
        self.advertised: dict[str, int] = {}
        """The same for each kind."""
        self._index: MatchIndex[Session] = MatchIndex()
        self._changes = 0
        self.on_change: Callable[[], None] = lambda: None
        """Hears of every topic that begins to be claimed, or ends."""
        self.on_subscribed: Callable[[Session, str, SubscriptionId], None] = (
            lambda client, topic, id_: None
        )
        """Hears of every subscription of a client."""
        self.on_wishes: Callable[[Session], None] = lambda client: None
        """Hears of every client that wants something else than before."""
        self.returning: dict[ClientId, float] = {}
        """Clients that came from another broker, which may be gone, and when."""
        self.config = BrokerConfig("")
        """Says how much they get. Whoever keeps the overlay together knows it."""

    # --- links -----------------------------------------------------------------------------

    def link_added(self, link: Session) -> None:
        self.wanted[link] = {}

    def link_removed(self, link: Session) -> None:
        self.wanted.pop(link, None)
        self.opened.pop(link, None)
        self.asked.pop(link, None)
        self._changes += 1

    def link_began(self, link: Session, under_way: Sequence[SequencedMessage] = ()) -> None:
        """What was under way needs no care: the far end says what it has got, and gets the rest
        of what is kept."""
        self.wanted[link] = {}
        self.opened[link] = {}
        self._changes += 1
        for topic in self.topics:
            if self.wants_of(link, topic):
                self._send(link, self.logs.wanted(topic))

    def receive_wanted(
        self, link: Session, message: TopicWanted | TopicOpened | TopicUnwanted
    ) -> None:
        """A neighbor takes part in a topic, or no longer. O(kept of the topic)."""
        wanted = self.wanted.get(link)
        if wanted is None:
            return
        if isinstance(message, TopicOpened):
            self.opened[link][message.topic] = message.number
            return
        self._changes += 1
        if isinstance(message, TopicUnwanted):
            wanted.pop(message.topic, None)
            return
        marks = wanted[message.topic] = dict(message.marks)
        self._send(link, TopicOpened(message.topic, message.number))
        if message.topic in self.topics:
            self._send_outside(link, message.topic, marks, message.takes_gaps)

    def _send_outside(
        self, link: Session, topic: str, marks: dict[ClientId, int], is_agreed: bool
    ) -> None:
        """What a neighbor lacks; of what is not kept any more it hears in its place."""
        log = self.logs[topic]
        missed = {
            publisher: found
            for publisher in log.dropped.spans
            if (found := log.dropped.beyond(publisher, marks.get(publisher, 0), self.now))
        }
        for each in in_place(log.beyond(marks), missed):
            if isinstance(each, tuple):
                publisher, spans = each
                self._send(link, self._missed(topic, publisher, spans, is_agreed))
            else:
                self._send(link, each)

    def _missed(
        self, topic: str, publisher: ClientId, spans: Sequence[DroppedRange], is_agreed: bool
    ) -> TopicMissed:
        now = self.now
        reported = [
            (s.first, s.last, s.count, now - s.began_at, now - s.ended_at, s.is_at_most)
            for s in spans
        ]
        return TopicMissed(topic, publisher, tuple(reported), is_agreed)

    def send_missed(
        self, topic: str, publisher: ClientId, spans: Sequence[DroppedRange], but: Session
    ) -> None:
        """Those who get a topic from us hear of a gap before what comes after it."""
        message = self._missed(topic, publisher, spans, is_agreed=False)
        for link, wanted in self.wanted.items():
            if topic in wanted and link is not but:
                self._send(link, message)

    def wants_of(self, link: Session, topic: str) -> bool:
        """Whether a neighbor is to send us a topic: all are, but for those beyond a border."""
        if link not in self.wanted:
            return False
        return topic in (self.asked.get(link, ()) if link.remote in self.outside else self.topics)

    def ask_again(self, link: Session, topic: str) -> None:
        """Want a topic of a neighbor once more, also behind a gap."""
        if link.remote_epoch:
            self._send(link, self.logs.wanted(topic, takes_gaps=True))

    def is_opened(self, link: Session, topic: str) -> bool:
        """Whether a neighbor knows that we take part in a topic, and since when."""
        log = self.logs.get(topic)
        return log is not None and self.opened.get(link, {}).get(topic) == log.number

    def send_all(self, message: TopicMessage, but: Session | None = None) -> None:
        """Send to every neighbor; one whose session has yet to begin hears everything then."""
        for link in self.wanted:
            if link is not but and link.remote_epoch and link.remote not in self.outside:
                self._send(link, message)

    def excuse(self, seconds: float) -> None:
        """The broker was away: what is kept is kept for as long as if it had not been."""
        self.logs.excuse(seconds)
        self.returning = {client: at + seconds for client, at in self.returning.items()}

    # --- topics ----------------------------------------------------------------------------

    def begin(self, topic: str) -> None:
        """Take part in a topic from now on."""
        if topic in self.topics:
            return
        self.topics[topic] = None
        self.logs.begin(topic, self.now)
        self._changes += 1
        self.send_all(self.logs.wanted(topic))

    def end(self, topic: str) -> None:
        """Take part in a topic no longer; what is kept of it is gone."""
        self._forget(topic)
        self.send_all(TopicUnwanted(topic))

    def _forget(self, topic: str) -> None:
        for link in list(self.asked):
            self.ask(link, topic, wants=False)
        del self.topics[topic]
        self.logs.end(topic)
        self._changes += 1

    def hold(self, topic: str) -> None:
        """Take part in a topic for others than clients, until `release`."""
        self._claim(topic, self.held)

    def release(self, topic: str) -> None:
        self._release(topic, self.held)

    def ask(self, link: Session, topic: str, *, wants: bool) -> None:
        """Want a topic of a neighbor from now on, or no longer."""
        asked = self.asked.setdefault(link, {})
        if wants == (topic in asked):
            return
        if wants:
            asked[topic] = None
            message: SequencedMessage = self.logs.wanted(topic)
        else:
            del asked[topic]
            self.opened.get(link, {}).pop(topic, None)
            message = TopicUnwanted(topic)
        if link.remote_epoch:
            self._send(link, message)

    def _claim(self, topic: str, among: dict[str, int]) -> None:
        among[topic] = among.get(topic, 0) + 1
        self.claimed[topic] = self.claimed.get(topic, 0) + 1
        if self.claimed[topic] == 1:
            self.begin(topic)
            self.on_change()

    def _release(self, topic: str, among: dict[str, int]) -> None:
        among[topic] -= 1
        if not among[topic]:
            del among[topic]
        self.claimed[topic] -= 1
        if not self.claimed[topic]:
            del self.claimed[topic]
            self.on_change()

    # --- clients ---------------------------------------------------------------------------

    def client_left(self, client: Session) -> None:
        for id_ in [i for i, claim in self.subscriptions.items() if claim.client is client]:
            self._unsubscribe(client, id_)
        for id_ in [i for i, claim in self.advertisements.items() if claim.client is client]:
            self._unadvertise(client, id_)
        self.own.discard(client)

    def client_entries(self) -> Iterator[tuple[Session, Advertise | Subscribe]]:
        for id_, claim in self.subscriptions.items():
            yield claim.client, Subscribe(id_, claim.filter)
        for id_, claim in self.advertisements.items():
            yield claim.client, Advertise(id_, claim.filter)

    def receive(self, hop: Session, message: TableMessage | Synced) -> None:
        if not hop.is_client:
            raise RemoteProtocolError(f"{type(message).__name__} is not for topic brokers")
        match message:
            case Subscribe(id_, filter_):
                self._subscribe(hop, id_, filter_)
            case Unsubscribe(id_):
                self._unsubscribe(hop, id_)
            case Advertise(id_, filter_):
                self._advertise(hop, id_, filter_)
            case Unadvertise(id_):
                self._unadvertise(hop, id_)
            case Synced():
                pass

    def _subscribe(self, client: Session, id_: SubscriptionId, filter_: Filter) -> None:
        has_moved = client.remote in self.returning
        claim = _checked(client, id_, filter_, self.subscriptions)
        claim = replace(claim, since=self.now, has_moved=has_moved)
        if self.subscriptions.get(id_) == claim:
            return
        self._unsubscribe(client, id_)
        self.subscriptions[id_] = claim
        self._index.add(id_, filter_, client)
        self._claim(claim.topic, self.subscribed)
        if client.remote in self.returning:
            self._send_kept(client, claim)
        self.on_subscribed(client, claim.topic, id_)
        self.on_wishes(client)

    def _send_kept(self, client: Session, claim: TopicEntry) -> None:
        """What came while a client had no broker; it drops what it has got before. O(kept)."""
        logs, limits = self.logs, ReplayLimits.of(self.config)
        now = self.now - logs.away_s
        for message in for_client(logs[claim.topic], claim.topic, claim.filter, limits, now):
            self._send(client, message)

    def _unsubscribe(self, client: Session, id_: SubscriptionId) -> None:
        claim = self.subscriptions.get(id_)
        if claim is not None and claim.client is client:
            del self.subscriptions[id_]
            self._index.remove(id_)
            self._release(claim.topic, self.subscribed)
            self.on_wishes(client)

    def _advertise(self, client: Session, id_: AdvertisementId, filter_: Filter) -> None:
        claim = _checked(client, id_, filter_, self.advertisements)
        if self.advertisements.get(id_) == claim:
            return
        self._unadvertise(client, id_)
        self.advertisements[id_] = claim
        self.own.add(client, id_, filter_)
        self._claim(claim.topic, self.advertised)

    def _unadvertise(self, client: Session, id_: AdvertisementId) -> None:
        claim = self.advertisements.get(id_)
        if claim is not None and claim.client is client:
            del self.advertisements[id_]
            self.own.remove(client, id_)
            self._release(claim.topic, self.advertised)

    # --- publications ----------------------------------------------------------------------

    def route(self, publication: Publication, origin: Session) -> tuple[Session, ...]:
        topic = publication.topic
        if topic not in self.topics:
            return ()
        links = [link for link, wanted in self.wanted.items() if topic in wanted]
        if origin in links:
            links.remove(origin)
        return (*links, *self._index.match(publication))

    def is_topic_only(self, topic: str) -> bool:
        return self._index.is_topic_only(topic)

    @property
    def version(self) -> int:
        return self._index.version + self._changes

    def knows_publisher(self, publisher: ClientId) -> bool:
        """Of local clients only: the marks of all others are forgotten by `topic_log`."""
        return any(claim.client.remote == publisher for claim in self.advertisements.values())

    def sizes(self) -> TableSizes:
        return TableSizes(
            subscriptions=len(self.subscriptions),
            advertisements=len(self.advertisements),
            forwarded=len(self.topics) * len(self.wanted),
        )


def _checked(
    client: Session, id_: str, filter_: Filter, known: dict[str, TopicEntry]
) -> TopicEntry:
    """A client's claim; raises `RefusedError` if it cannot be."""
    check_name(client, id_)
    topic = topic_of(filter_)
    if not topic:
        raise RefusedError(
            f"this overlay routes by topic: a filter must name one as {TOPIC_ATTRIBUTE} = '...'"
        )
    if id_ in known and known[id_].client is not client:
        raise RefusedError(f"{id_!r} belongs to another client")
    return TopicEntry(client, topic, filter_)

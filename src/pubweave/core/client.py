"""A client without I/O: the far end of a client session, for the library and the simulator.

Calls such as `publish` only queue; `flush` turns what is queued into effects, so that a driver
can gather many calls into one write. After a broker has lost the session, the client repeats its
advertisements and subscriptions and resends what was not acknowledged; duplicate notifications are
dropped here (deduplication by publisher and sequence).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from pubweave.core.config.session import SessionLimits
from pubweave.core.session.continuity import GapDetector, PublishedBefore
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.vocabulary.effects import (
    CloseConnection,
    Effect,
    FollowRedirect,
    Notify,
    ProbeBrokers,
    ReportConfirmed,
    ReportGap,
    ReportMissed,
    ReportMove,
    ReportRefusal,
    ReportSession,
    Transmit,
    TryBroker,
)
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    Event,
    LocalPauseEnded,
    MessagesReceived,
)
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import AdvertisementId, BrokerId, ClientId, SubscriptionId
from pubweave.model.messages.migration import Redirect, RedirectReply
from pubweave.model.messages.relocation import ProbeReply, ProbeRequest
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.model.messages.session import (
    Ack,
    Advertise,
    Answer,
    Confirmed,
    Disconnect,
    Goodbye,
    Hello,
    Message,
    Missed,
    Ping,
    Pong,
    Refused,
    Role,
    SequencedMessage,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.messages.topic_connected import TOPIC_PROTOCOL
from pubweave.model.publications import (
    Publication,
    Value,
    make_publication,
    validate_publication_content,
)

MAX_PUBLISHERS_REMEMBERED = 100_000


class NotAdvertisedError(ValueError):
    """A publication that matches no advertisement of its client."""


class ClientCore:
    """One client. ``epoch`` must differ from every earlier incarnation of the same client."""

    def __init__(
        self,
        id_: ClientId,
        *,
        epoch: int,
        now: float,
        first_sequence: int = 0,
        limits: SessionLimits | None = None,
        ack_delay_s: float = 0.02,
        ping_every_s: float = 5.0,
        silence_limit_s: float = 15.0,
        can_move: bool = True,
    ) -> None:
        """``can_move``: the driver carries out redirections to other brokers."""
        self.id = id_
        self.session = Session(
            "", own_epoch=epoch, is_client=False, limits=limits or SessionLimits()
        )
        self.advertisements: dict[AdvertisementId, Filter] = {}
        self.subscriptions: dict[SubscriptionId, Filter] = {}
        self.confirmed: set[SubscriptionId] = set()
        """Subscriptions of which the overlay has said that from now on everything reaches us."""
        self.duplicates_dropped = 0
        self.answers: dict[int, bytes] = {}
        self._redirection = Redirection() if can_move else None
        self._epoch = epoch
        self._numbers = 0
        # Must exceed what an earlier incarnation used: brokers drop lower ones as duplicates.
        self._sequence = first_sequence
        self._open_topics: set[str] = set()
        self._withdrawn: dict[str, Filter] = {}
        """Withdrawn advertisements, until the broker has acknowledged that."""
        self._published = PublishedBefore()
        self._gaps = GapDetector()
        self._last_seen: dict[tuple[ClientId, str], int] = {}
        self._acknowledged: ResendBuffer | None = None
        """Recent acknowledged publications, where the broker routes by topic."""
        self._ack_delay_s = ack_delay_s
        self._ping_every_s = ping_every_s
        self._silence_limit_s = silence_limit_s
        self._ack_at: float | None = None
        self._is_holding = False
        self._ping_at = now + ping_every_s
        self._effects: list[Effect] = []

    # --- calls of the application ----------------------------------------------------------

    def advertise(self, filter_: Filter) -> AdvertisementId:
        id_ = self._next_id()
        self.advertisements[id_] = filter_
        self.session.pending.append(Advertise(id_, filter_))
        return id_

    def unadvertise(self, id_: AdvertisementId) -> None:
        self._withdrawn[id_] = self.advertisements.pop(id_)
        self._open_topics.clear()
        self.session.pending.append(Unadvertise(id_))

    def subscribe(self, filter_: Filter) -> SubscriptionId:
        id_ = self._next_id()
        self.subscriptions[id_] = filter_
        self.session.pending.append(Subscribe(id_, filter_))
        return id_

    def unsubscribe(self, id_: SubscriptionId) -> None:
        filter_ = self.subscriptions.pop(id_)
        self.confirmed.discard(id_)
        self._gaps.unsubscribed(id_, filter_)
        self.session.pending.append(Unsubscribe(id_))

    def discard(self, id_: str) -> None:
        """The broker refused this advertisement or subscription: do not repeat it."""
        self.advertisements.pop(id_, None)
        self.subscriptions.pop(id_, None)
        self.confirmed.discard(id_)

    def publish(
        self, topic: str, attributes: dict[str, Value], payload: bytes, now: float
    ) -> Publication:
        """Queue a publication; ValueError if no filter could address it or it is unadvertised."""
        validate_publication_content(topic, attributes)
        if topic not in self._open_topics:
            self._check_advertised(make_publication(self.id, 0, topic, attributes, payload, now))
        self._sequence = sequence = self._sequence + 1
        previous = self._published.turn(topic, sequence)
        publication = make_publication(self.id, sequence, topic, attributes, payload, now, previous)
        self.session.pending.append(publication)
        return publication

    def take_back(self, publication: Publication) -> None:
        """The publication that was queued last is not to be sent after all."""
        assert self.session.pending.pop() is publication, "something was queued after it"
        self._published.take_back(publication)

    def _check_advertised(self, publication: Publication) -> None:
        bare = make_publication(self.id, 0, publication.topic, {}, b"", 0.0)
        for own in self.advertisements.values():
            if own.matches(bare):
                self._open_topics.add(publication.topic)
                return
            if own.matches(publication):
                return
        raise NotAdvertisedError(
            f"no advertisement of this client matches the publication on "
            f"{publication.topic!r}: call advertise() first"
        )

    def _next_id(self) -> str:
        self._numbers += 1
        # The epoch keeps ids of two incarnations apart while the old one's are withdrawn.
        return f"{self.id}:{self._epoch:x}.{self._numbers}"

    def flush(self) -> list[Effect]:
        """Effects of everything queued since the last flush."""
        effects: list[Effect] = []
        self.session.flush(effects)
        return effects

    def hold(self) -> None:
        """Back-pressure: withhold acknowledgements until `release`."""
        self._is_holding = True

    def release(self) -> list[Effect]:
        self._is_holding = False
        effects: list[Effect] = []
        self.session.ack(effects)
        return effects

    def _ack(self, effects: list[Effect]) -> None:
        if not self._is_holding:
            self.session.ack(effects)

    def goodbye(self, reason: str) -> list[Effect]:
        """End the session on purpose: the broker discards it at once, and counts what this client
        has not acknowledged."""
        connection = self.session.connection
        if connection is None:
            return []
        effects = self.flush()
        self._ack(effects)
        effects.append(Transmit(connection, (Goodbye(reason),)))
        effects.append(CloseConnection(connection, reason))
        return effects

    def tried(self, token: str, problem: str) -> list[Effect]:
        """The result of `TryBroker`; an empty problem if the broker was reached."""
        connection = self.session.connection
        if connection is None:
            return []
        return [Transmit(connection, (RedirectReply(token, problem),))]

    def probed(self, number: int, rtt_ms: Mapping[BrokerId, float]) -> list[Effect]:
        """The round-trip times to the brokers that were reached (`ProbeBrokers`)."""
        connection = self.session.connection
        if connection is None:
            return []
        return [Transmit(connection, (ProbeReply(number, tuple(sorted(rtt_ms.items()))),))]

    # --- events ----------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle an event; return its effects, in order."""
        self._effects = effects = list[Effect]()
        match event:
            case MessagesReceived(connection, messages, _):
                if connection == self.session.connection:
                    self._on_messages_or_close(messages, now)
            case ConnectionOpened(connection):
                self.session.opened(connection)
                self.session.attempts += 1
                self.session.heard_at = now
                hello = self.session.hello(
                    Role.CLIENT,
                    self.id,
                    can_move=self._redirection is not None,
                    token=self._redirection.token if self._redirection is not None else "",
                )
                effects.append(Transmit(connection, (hello,)))
            case ConnectionClosed(connection):
                if connection == self.session.connection:
                    self.session.closed(now)
            case DeadlineReached():
                self._on_deadline(now)
            case LocalPauseEnded(seconds):
                self.session.excuse(seconds)
            case _:
                raise TypeError(f"{type(event).__name__} is not for clients")
        return effects

    def next_deadline(self) -> float:
        return self._ping_at if self._ack_at is None else min(self._ack_at, self._ping_at)

    def _on_messages_or_close(self, messages: Sequence[Message], now: float) -> None:
        try:
            self._on_messages(messages, now)
        except RemoteProtocolError as error:
            connection = self.session.connection
            self.session.closed(now)
            self._effects.append(ReportRefusal("session", f"the broker {error}"))
            if connection is not None:
                self._effects.append(CloseConnection(connection, str(error)))

    def _on_messages(self, messages: Sequence[Message], now: float) -> None:
        session = self.session
        session.heard_at = now
        notifications: list[Publication] = []
        sequenced = size_bytes = 0
        for message in messages:
            if type(message) is Publication:
                sequenced += 1
                size_bytes += message.size_bytes
                if self._is_new(message):
                    if after := self._gaps.check(message):
                        notifications = self._report_gap(message, after, notifications)
                    notifications.append(message)
            elif isinstance(message, Refused | Missed | Confirmed):
                sequenced += 1
                size_bytes += message.size_bytes
                if notifications:  # keep the order
                    self._effects.append(Notify(notifications))
                    notifications = []
                self._on_notice(message)
            else:
                self._on_session_message(message, now)
        session.took_in(sequenced, size_bytes)
        if notifications:
            self._effects.append(Notify(notifications))
        if session.received_bytes_unacked >= session.ack_every_bytes:
            self._ack(self._effects)
        elif session.owes_ack and self._ack_at is None:
            self._ack_at = now + self._ack_delay_s

    def _report_gap(
        self, publication: Publication, after: int, before: list[Publication]
    ) -> list[Publication]:
        """Something is missing in front of a publication: report that behind what came before."""
        if before:
            self._effects.append(Notify(before))
        gap = publication.topic, publication.publisher, after, publication.sequence
        self._effects.append(ReportGap(*gap))
        return []

    def _on_notice(self, message: Refused | Missed | Confirmed) -> None:
        if isinstance(message, Refused):
            self._published.refused(message.subject)
            self._effects.append(ReportRefusal(message.subject, message.reason))
            return
        if isinstance(message, Missed):
            missed = message.beyond(self._last_seen.get(self._order(message), 0))
            if missed is not None:
                self._gaps.missed(missed.topic, missed.publisher)
                told = missed.topic, missed.publisher, missed.count, missed.at_most
                self._effects.append(ReportMissed(*told))
            return
        news = tuple(i for i in message.ids if i in self.subscriptions and i not in self.confirmed)
        if news:
            self.confirmed.update(news)
            for id_ in news:
                self._gaps.confirmed(id_, self.subscriptions[id_])
            self._effects.append(ReportConfirmed(news))

    def _is_new(self, publication: Publication) -> bool:
        last_seen, key = self._last_seen, self._order(publication)
        if publication.sequence <= last_seen.get(key, 0):
            self.duplicates_dropped += 1
            sometimes(Branch.CLIENT_DUPLICATE)
            return False
        if len(last_seen) >= MAX_PUBLISHERS_REMEMBERED:
            del last_seen[next(iter(last_seen))]
        last_seen[key] = publication.sequence
        return True

    def _order(self, about: Publication | Missed) -> tuple[ClientId, str]:
        """Routed by topic, two topics may take different routes: order holds within one only."""
        return about.publisher, "" if self._acknowledged is None else about.topic

    def _on_session_message(self, message: Message, now: float) -> None:
        session = self.session
        match message:
            case Ack(received):
                if self._acknowledged is not None:
                    self._acknowledged.acknowledging(session, received, now)
                session.take_ack(received)
                session.pump(self._effects)
                if not session.queue_messages:
                    self._withdrawn.clear()
            case Hello():
                self._on_hello(message, now)
            case Ping(sent_at) if session.connection is not None:
                self._effects.append(Transmit(session.connection, (Pong(sent_at),)))
            case Pong(sent_at):
                session.take_pong(sent_at, now)
            case Goodbye(reason) | Disconnect(reason):
                if self._redirection is None or not self._redirection.token:
                    self._effects.append(ReportRefusal("session", reason))
            case Answer(number, document):
                self.answers[number] = document
            case Redirect() if self._redirection is not None:
                self._on_redirect(self._redirection, message, now)
            case ProbeRequest(number, brokers):
                self._effects.append(ProbeBrokers(number, brokers))
            case _:
                raise RemoteProtocolError(f"{type(message).__name__} is not for clients")

    def _on_redirect(self, redirection: Redirection, message: Redirect, now: float) -> None:
        if not message.is_final:
            self._effects.append(TryBroker(message.token, message.broker, message.address))
            return
        redirection.follow(message, now)
        connection = self.session.connection
        if connection is not None:
            self.session.closed(now)
            self._effects.append(CloseConnection(connection, "redirected"))
        self._effects.append(FollowRedirect(message.broker, message.address))

    def _on_hello(self, hello: Hello, now: float) -> None:
        session = self.session
        session.remote = hello.id
        self._sequence = max(self._sequence, hello.last_sequence)
        if hello.routing in (TOPIC_PROTOCOL, RENDEZVOUS_PROTOCOL) and self._acknowledged is None:
            self._acknowledged = ResendBuffer()
        if self._acknowledged is not None and session.continues(hello):
            self._acknowledged.acknowledging(session, hello.received, now)
        resumed = session.take_hello(hello)
        if resumed:
            session.retransmit(self._effects)
        else:
            self.confirmed.clear()
            session.pending.extend(self._replay(session.restart()))
        session.flush(self._effects)
        self._effects.append(ReportSession(resumed))
        if self._redirection is not None:
            self._effects += self._redirection.arrived(hello.id, now)

    def _replay(self, held: list[SequencedMessage]) -> list[SequencedMessage]:
        """What to send to a broker that lost the session: what it knew, then what it did not.

        Publications may depend on an advertisement that was withdrawn after them."""
        news = {m.id for m in held if isinstance(m, Advertise | Subscribe)}
        advertisements = {i: f for i, f in self.advertisements.items() if i not in news}
        subscriptions = {i: f for i, f in self.subscriptions.items() if i not in news}
        for message in held:
            if isinstance(message, Unadvertise) and message.id not in news:
                advertisements[message.id] = self._withdrawn[message.id]
        return [
            *(Advertise(i, f) for i, f in advertisements.items()),
            *(Subscribe(i, f) for i, f in subscriptions.items()),
            *self._published_lately(advertisements.values(), held),
            *held,
        ]

    def _published_lately(
        self, advertised: Iterable[Filter], held: list[SequencedMessage]
    ) -> list[Publication]:
        return [] if self._acknowledged is None else self._acknowledged.again(advertised, held)

    def _on_deadline(self, now: float) -> None:
        session = self.session
        if self._ack_at is not None and now >= self._ack_at:
            self._ack_at = None
            self._ack(self._effects)
        if now < self._ping_at:
            return
        self._ping_at = now + self._ping_every_s
        if session.connection is None:
            return
        if now - session.heard_at > self._silence_limit_s:
            connection = session.connection
            session.closed(now)
            self._effects.append(CloseConnection(connection, "the broker is silent"))
        else:
            self._effects.append(Transmit(session.connection, (Ping(now),)))


class Redirection:
    """The redirection that a client follows at the moment, if any."""

    def __init__(self) -> None:
        self._redirect: Redirect | None = None
        self._since = 0.0

    @property
    def token(self) -> str:
        """Proves to the new broker that the old one has released the client."""
        return "" if self._redirect is None else self._redirect.token

    def follow(self, redirect: Redirect, now: float) -> None:
        """The old broker sends a redirection; it may repeat it."""
        if self._redirect is None or self._redirect.token != redirect.token:
            self._redirect, self._since = redirect, now

    def arrived(self, broker: str, now: float) -> list[ReportMove]:
        """A session is established: the move is over if it is with the new broker. The redirection
        says how long the old broker was paused."""
        redirect = self._redirect
        if redirect is None or broker != redirect.broker:
            return []
        self._redirect = None
        wait_s = redirect.paused_ms / 1000.0 + now - self._since
        return [ReportMove(broker, wait_s, redirect.hops)]


# The resend buffer: recent publications that the broker has acknowledged.
#
# A broker that crashes loses what it has acknowledged and not forwarded. In a topic-connected
# overlay its clients reconnect elsewhere: their recent publications are offered again there, before
# anything new, and brokers drop duplicates. So a publisher's publications have no gap
# (`topic_log`).


KEEP_S = 15.0
KEEP_BYTES = 4 << 20


class ResendBuffer:
    """The latest acknowledged publications of a client, bounded in time and bytes.

    Each is kept once, from its first acknowledgement on: resent publications are acknowledged
    again, and would double the buffer with every change of broker."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, Publication]] = deque()
        self._sequences: set[int] = set()
        """Of those kept."""
        self._size_bytes = 0

    def acknowledging(self, session: Session, received: int, now: float) -> None:
        """The session is about to discard what it sent up to this number. O(acknowledged)."""
        for _, message in zip(range(received - session.acked), session.unacked, strict=False):
            if type(message) is Publication and message.sequence not in self._sequences:
                self._kept.append((now, message))
                self._sequences.add(message.sequence)
                self._size_bytes += message.size_bytes
        while self._kept and (self._kept[0][0] < now - KEEP_S or self._size_bytes > KEEP_BYTES):
            gone = self._kept.popleft()[1]
            self._sequences.discard(gone.sequence)
            self._size_bytes -= gone.size_bytes

    def again(
        self, advertised: Iterable[Filter], held: Iterable[SequencedMessage] = ()
    ) -> list[Publication]:
        """What to resend to a broker that lost the session, in order: what may be published now and
        is not ``held`` for it anyway."""
        filters = list(advertised)
        waiting = {message.sequence for message in held if type(message) is Publication}
        return [
            publication
            for _, publication in self._kept
            if publication.sequence not in waiting
            and any(own.matches(publication) for own in filters)
        ]

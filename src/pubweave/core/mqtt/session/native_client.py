"""The native clients behind MQTT sessions, and the in-process link to their broker.

Each MQTT session is an ordinary client of its broker over a connection within this process, which
has a negative number. So rights, limits, metering, sequence numbers and back-pressure are those of
every client. What the broker sends it arrives within the same event, and the broker says directly
what it has handled, so an answer to an MQTT client waits for nothing but the event's own record in
the journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from math import inf
from typing import Protocol

import msgspec

from pubweave.core.config.session import SessionLimits
from pubweave.core.mqtt.services import Deadlines
from pubweave.core.mqtt.session.cluster_messages import Arrived
from pubweave.core.session.continuity import GapDetector, PublishedBefore
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.core.vocabulary.events import ConnectionId, MessagesReceived
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import AdvertisementId, ClientId, SubscriptionId
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Advertise,
    Confirmed,
    Goodbye,
    Hello,
    Missed,
    Refused,
    Role,
    SequencedMessage,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.messages.topic_connected import TOPIC_PROTOCOL
from pubweave.model.mqtt_packets import PubAck, PubRec
from pubweave.model.mqtt_packets import Subscribe as MqttSubscribe
from pubweave.model.mqtt_packets import Unsubscribe as MqttUnsubscribe
from pubweave.model.publications import Publication, Value, make_publication

MAX_PUBLISHERS_REMEMBERED = 100_000
LIMITS = SessionLimits()
NO_ANSWER = 0
"""Instead of a packet id: whoever asked is gone."""


class PendingReply(msgspec.Struct, frozen=True):
    """An answer to a client, or a message to another gateway, that is due when the broker has
    handled ``count`` messages of the client.

    ``publication`` is the one that it answers; it is retained if it asks for that."""

    count: int
    answer: PubAck | PubRec | MqttSubscribe | MqttUnsubscribe | Arrived | None
    publication: Publication | None = None
    natives: tuple[tuple[str, ...], ...] = ()
    are_new: tuple[bool, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        """What a Subscribe or an Unsubscribe is about."""
        if isinstance(self.answer, MqttSubscribe):
            return tuple(asked.pattern for asked in self.answer.filters)
        return self.answer.patterns if isinstance(self.answer, MqttUnsubscribe) else ()


@dataclass
class Unpacked:
    """What came of a broker."""

    publications: list[Publication] = field(default_factory=list)
    behind_gaps: list[Publication] = field(default_factory=list)
    """Those of them before which something is missing that no broker has told of."""
    missed: int = 0
    """Publications that were lost on their way here, at most."""


class NativeSession:
    """The client's end of a native session; ``owner`` names the MQTT session that it is for."""

    def __init__(
        self,
        link: InProcessLink,
        id_: ClientId,
        connection: ConnectionId,
        owner: str,
        epoch: int,
    ) -> None:
        self.id = id_
        self.connection = connection
        self.owner = owner
        self.subscriptions: dict[SubscriptionId, Filter] = {}
        self.confirmed: set[SubscriptionId] = set()
        self.unconfirmed: list[tuple[PendingReply, float]] = []
        """Answers to Subscribe that wait until all of it is confirmed, and to what was said of the
        same patterns after it; and until when."""
        self.pending_replies: deque[PendingReply] = deque()
        self.refusals: dict[str, str] = {}
        """By advertisement, subscription or ``publication N``: why it was refused."""
        self.session: Session | None = None
        """The broker's end, from its answer to Hello until the session ends."""
        self.lost_reason: str | None = None
        """Why the broker ended this session, if it did."""
        self.is_leaving = False
        self.holds_up = False
        """Whoever feeds it is held up, and is to be let go when it has room again."""
        self._link = link
        self._epoch = epoch
        self._numbers = 0
        self._sequence = epoch  # larger than what an earlier client of this name used
        self._pending: list[SequencedMessage] = []
        self._queued = 0
        """How many messages were ever queued for the broker."""
        self._waiting: deque[SequencedMessage] = deque()
        """What the broker's window has no room for."""
        self.waiting_bytes = 0
        self._last_seen: dict[tuple[ClientId, str], int] = {}
        self._routes_by_topic = False
        self._published = PublishedBefore()
        self._gaps = GapDetector()

    # --- to the broker ---------------------------------------------------------------------

    def advertise(self, filter_: Filter) -> AdvertisementId:
        id_ = self._next_id()
        self._queue(Advertise(id_, filter_))
        return id_

    def unadvertise(self, id_: AdvertisementId) -> None:
        self._queue(Unadvertise(id_))

    def subscribe(self, filter_: Filter) -> SubscriptionId:
        id_ = self._next_id()
        self.subscriptions[id_] = filter_
        self._queue(Subscribe(id_, filter_))
        return id_

    def unsubscribe(self, id_: SubscriptionId, *, is_refused: bool = False) -> None:
        """``is_refused``: the broker does not have it."""
        self._gaps.unsubscribed(id_, self.subscriptions.pop(id_))
        self.confirmed.discard(id_)
        if not is_refused:
            self._queue(Unsubscribe(id_))

    def publish(
        self, topic: str, attributes: dict[str, Value], payload: bytes, published_at: float
    ) -> Publication:
        self._sequence += 1
        previous = self._published.turn(topic, self._sequence)
        publication = make_publication(
            self.id, self._sequence, topic, attributes, payload, published_at, previous
        )
        self._queue(publication)
        return publication

    def _next_id(self) -> str:
        self._numbers += 1
        # The epoch keeps ids of two incarnations apart while the old one's are withdrawn.
        return f"{self.id}:{self._epoch:x}.{self._numbers}"

    def _queue(self, message: SequencedMessage) -> None:
        self._pending.append(message)
        self._queued += 1
        self._link.touched[self] = None

    def reply_later(
        self,
        answer: PubAck | PubRec | MqttSubscribe | MqttUnsubscribe | Arrived | None,
        publication: Publication | None = None,
        natives: tuple[tuple[str, ...], ...] = (),
        are_new: tuple[bool, ...] = (),
    ) -> None:
        """Reply when the broker has handled what was queued last."""
        self.pending_replies.append(
            PendingReply(self._queued, answer, publication, natives, are_new)
        )
        self._link.touched[self] = None

    def leave(self) -> None:
        """Say goodbye as soon as the broker has handled everything."""
        self.is_leaving = True
        self._link.leaving(self)

    @property
    def is_talking(self) -> bool:
        """Whether it has something to say that the broker has room for."""
        session = self.session
        if session is None:
            return False
        has_room = session.received_bytes_unacked < session.remote_window_bytes
        return has_room and bool(self._pending or self._waiting)

    @property
    def is_congested(self) -> bool:
        """Whether so much waits that whoever feeds it is to be held up."""
        return self.waiting_bytes > LIMITS.congested_bytes

    def outgoing(self, session: Session) -> Sequence[SequencedMessage]:
        """The messages that the broker's window has room for."""
        messages, self._pending = self._pending, []
        size_bytes = sum([message.size_bytes for message in messages])
        room = session.remote_window_bytes - session.received_bytes_unacked
        if not self._waiting and size_bytes <= room:
            return messages
        self._waiting.extend(messages)
        self.waiting_bytes += size_bytes
        messages, size_bytes = [], 0
        while self._waiting and size_bytes < room:
            message = self._waiting.popleft()
            size_bytes += message.size_bytes
            messages.append(message)
        self.waiting_bytes -= size_bytes
        return messages

    # --- from the broker -------------------------------------------------------------------

    def attached(self, session: Session, hello: Hello) -> None:
        self.session = session
        self._sequence = max(self._sequence, hello.last_sequence)
        self._routes_by_topic = hello.routing in (TOPIC_PROTOCOL, RENDEZVOUS_PROTOCOL)
        self._link.touched[self] = None

    def receive(self, messages: Sequence[SequencedMessage]) -> None:
        (self._link.inbox if self.owner else self._link.gossip).append((self, messages))

    def acknowledged(self) -> None:
        self._link.touched[self] = None

    def closed(self, reason: str) -> None:
        self.session = None
        self.lost_reason = reason
        self._link.touched[self] = None

    def unpack(self, messages: Iterator[SequencedMessage]) -> Unpacked:
        """What the broker sent, up to the next confirmation; each publication once."""
        found = Unpacked()
        last_seen = self._last_seen
        for message in messages:
            if type(message) is Publication:
                # Routed by topic, two topics may take different routes: order holds within one.
                key = message.publisher, message.topic if self._routes_by_topic else ""
                if message.sequence <= last_seen.get(key, 0):
                    continue
                if len(last_seen) >= MAX_PUBLISHERS_REMEMBERED:
                    del last_seen[next(iter(last_seen))]
                last_seen[key] = message.sequence
                if self._gaps.check(message):
                    found.behind_gaps.append(message)
                found.publications.append(message)
            elif isinstance(message, Refused):
                self.refusals[message.subject] = message.reason
                self._published.refused(message.subject)
                self._link.touched[self] = None
            elif isinstance(message, Missed):
                key = message.publisher, message.topic if self._routes_by_topic else ""
                missed = message.beyond(last_seen.get(key, 0))
                if missed is not None:
                    self._gaps.missed(missed.topic, missed.publisher)
                    found.missed += missed.count
            elif isinstance(message, Confirmed):
                for id_ in message.ids:
                    if id_ in self.subscriptions:
                        self.confirmed.add(id_)
                        self._gaps.confirmed(id_, self.subscriptions[id_])
                break
        return found

    def is_confirmed(self, reply: PendingReply) -> bool:
        """Whether everything that an answer is about is in place, or was refused."""
        return all(
            id_ in self.confirmed or id_ in self.refusals or id_ not in self.subscriptions
            for natives in reply.natives
            for id_ in natives
        )

    def pop_answerable(self, now: float) -> list[PendingReply]:
        """Those of the answers that waited which are confirmed, or have waited until ``now``. What
        is said of one pattern is answered in its order."""
        waiting, self.unconfirmed = self.unconfirmed, []
        found = []
        blocked: set[str] = set()
        for reply, until in waiting:
            is_due = self.is_confirmed(reply) and blocked.isdisjoint(reply.patterns)
            if until <= now or is_due:
                found.append(reply)
            else:
                self.unconfirmed.append((reply, until))
                blocked.update(reply.patterns)
        return found

    def is_asked(self, patterns: Sequence[str]) -> bool:
        """Whether something that was said of one of these patterns is not answered yet."""
        waiting = chain(self.pending_replies, (reply for reply, _ in self.unconfirmed))
        return any(pattern in patterns for reply in waiting for pattern in reply.patterns)

    def connection_lost(self) -> None:
        """Answers of the connection are for nobody now; on the next one their packet ids may mean
        something else."""
        self.pending_replies = deque(map(_unaddressed, self.pending_replies))
        self.unconfirmed = [(_unaddressed(reply), until) for reply, until in self.unconfirmed]


def _unaddressed(reply: PendingReply) -> PendingReply:
    """A reply without its answer. What was subscribed to is granted all the same; PubRec is still
    due, as the publication is not sent again as a new one."""
    answer = reply.answer
    if isinstance(answer, PubAck):
        return msgspec.structs.replace(reply, answer=None)
    if isinstance(answer, MqttSubscribe | MqttUnsubscribe):
        return msgspec.structs.replace(
            reply, answer=msgspec.structs.replace(answer, packet_id=NO_ANSWER)
        )
    return reply


class NativeReceiver(Protocol):
    """What native clients report to: the gateway."""

    def notified(
        self, end: NativeSession, publications: Sequence[Publication], now: float
    ) -> None: ...

    def handled(self, end: NativeSession, reply: PendingReply, now: float) -> None:
        """The broker has handled what this reply waits for."""

    def gap_seen(self, end: NativeSession, publication: Publication, now: float) -> None:
        """Something is missing in front of a publication, and no broker has told of it."""

    def settled(self, end: NativeSession, now: float) -> None:
        """The broker has refused something, or has room again."""

    def lost(self, end: NativeSession, reason: str, now: float) -> None:
        """The broker has ended the session of a client."""


class InProcessLink:
    """Carries messages between a broker and the native clients of its gateway."""

    def __init__(
        self,
        sessions: SessionTable,
        receive: Callable[[MessagesReceived, float], None],
        ack: Callable[[Session], None],
        receiver: NativeReceiver,
        deadlines: Deadlines,
        suback_wait_s: float,
    ) -> None:
        self.inbox: deque[tuple[NativeSession, Sequence[SequencedMessage]]] = deque()
        """What the broker has sent."""
        self.gossip: deque[tuple[NativeSession, Sequence[SequencedMessage]]] = deque()
        """What it has sent to the gateway's own client."""
        self.touched: dict[NativeSession, None] = {}
        """The clients that have something to say, or were told what the broker has handled."""
        self.missed = 0
        """Publications that were lost before they reached their client, at most."""
        self.unconfirmed = 0
        """How many Subscribes were answered because they had waited for too long."""
        self._sessions = sessions
        self._receive = receive
        self._ack = ack
        self._receiver = receiver
        self._deadlines = deadlines
        self._suback_wait_s = suback_wait_s
        self._ends: dict[ConnectionId, NativeSession] = {}
        self._leaving: dict[ClientId, NativeSession] = {}
        """Clients that have yet to say Goodbye, by id."""
        self._greetings: dict[NativeSession, tuple[str, Hello]] = {}
        """Of clients that have yet to say Hello, with their users."""
        self._last_connection = 0
        self._last_epoch = 0

    def epoch(self, now: float) -> int:
        """A number larger than all before, over restarts, too."""
        self._last_epoch = max(self._last_epoch + 1, int(now * 1e6))
        return self._last_epoch

    def open(
        self,
        id_: ClientId,
        user: str,
        owner: str,
        now: float,
        *,
        can_move: bool = False,
        returns: bool = False,
    ) -> NativeSession:
        """Attach a client whose user was authenticated on another connection. ``returns``: it was
        elsewhere, and is to get what is kept of its topics."""
        self._last_connection -= 1
        connection, epoch = self._last_connection, self.epoch(now)
        end = self._ends[connection] = NativeSession(self, id_, connection, owner, epoch)
        self._greetings[end] = (
            user,
            Hello(
                PROTOCOL_VERSION,
                Role.CLIENT,
                id_,
                epoch,
                epoch if returns else 0,  # names no session, but says that there was one
                0,
                LIMITS.window_bytes,
                attempt=1,
                can_move=can_move,
            ),
        )
        self.touched[end] = None
        return end

    def greet(self, end: NativeSession, now: float) -> str:
        """Say Hello for a client, if it has not yet; why the broker does not take it, or empty."""
        greeting = self._greetings.pop(end, None)
        if greeting is not None:
            user, hello = greeting
            self._part_from(end.id, now)
            self._sessions.accept_local(end.connection, end, user, now)
            self._receive(MessagesReceived(end.connection, (hello,), now), now)
        return end.lost_reason or ""

    def leaving(self, end: NativeSession) -> None:
        """A client says Goodbye when the broker has handled everything."""
        self._leaving[end.id] = end
        self.touched[end] = None

    def _part_from(self, id_: ClientId, now: float) -> None:
        """A new client takes the id of one that is leaving: what that one had to say, perhaps a
        will, is said before, or it would be lost with its connection."""
        end = self._leaving.pop(id_, None)
        while end is not None and end.connection in self._ends and end.is_talking:
            self._carry(end, now)

    def run(self, now: float) -> None:
        """Carry messages in both directions until none are left. O(messages).

        Messages between gateways are delivered last. A handover's `Arrived` divides a session's
        publications; those before it in the same event must be in their sessions by then."""
        while self.inbox or self.touched or self.gossip:
            if not self.inbox and not self.touched:
                self._deliver(*self.gossip.popleft(), now)
            while self.inbox:
                self._deliver(*self.inbox.popleft(), now)
            touched, self.touched = self.touched, {}
            for end in touched:
                self._carry(end, now)

    def _deliver(
        self, end: NativeSession, messages: Sequence[SequencedMessage], now: float
    ) -> None:
        rest = iter(messages)
        while end.connection in self._ends and (ahead := list(islice(rest, 1))):
            found = end.unpack(chain(ahead, rest))
            self.missed += found.missed
            for publication in found.behind_gaps:
                self._receiver.gap_seen(end, publication, now)
            if found.publications:
                self._receiver.notified(end, found.publications, now)
            # Before what comes next, which the subscription wants already.
            for reply in end.pop_answerable(-inf):
                self._receiver.handled(end, reply, now)

    def on_deadline(self, now: float) -> None:
        """Answer each Subscribe that has waited for too long."""
        for end in [e for e in self._ends.values() if e.unconfirmed]:
            for reply in end.pop_answerable(now):
                self.unconfirmed += 1
                self._receiver.handled(end, reply, now)
        self._note_deadline()

    def excuse(self, seconds: float) -> None:
        """The broker did not run for so long: that time does not count."""
        for end in self._ends.values():
            end.unconfirmed = [(reply, until + seconds) for reply, until in end.unconfirmed]
        self._note_deadline()

    def _note_deadline(self) -> None:
        waiting = (until for end in self._ends.values() for _, until in end.unconfirmed)
        self._deadlines.set("unconfirmed", min(waiting, default=inf))

    def _carry(self, end: NativeSession, now: float) -> None:
        """Report what the broker has handled, and give it what it has room for."""
        if end.connection not in self._ends:
            return
        if end.lost_reason is not None:
            del self._ends[end.connection]
            if self._leaving.get(end.id) is end:
                del self._leaving[end.id]
            self._receiver.lost(end, end.lost_reason, now)
            return
        session = end.session
        replies, handled = end.pending_replies, 0 if session is None else session.told
        while replies and replies[0].count <= handled:
            reply = replies.popleft()
            if reply.patterns:
                end.unconfirmed.append((reply, now + self._suback_wait_s))
            else:
                self._receiver.handled(end, reply, now)
        if end.unconfirmed:
            for reply in end.pop_answerable(-inf):
                self._receiver.handled(end, reply, now)
            self._note_deadline()
        if end.refusals or end.holds_up:
            self._receiver.settled(end, now)
        if session is None:
            self.greet(end, now)
            return
        messages = end.outgoing(session)
        if messages:
            self._receive(MessagesReceived(end.connection, messages, now), now)
            self._ack(session)
        elif end.is_leaving and not (end.waiting_bytes or session.owes_ack):
            goodbye = (Goodbye("the MQTT session is over"),)
            self._receive(MessagesReceived(end.connection, goodbye, now), now)

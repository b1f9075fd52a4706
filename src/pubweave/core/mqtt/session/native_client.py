"""The native clients behind MQTT sessions, and the in-process link to their broker.

Each MQTT session is an ordinary client of its broker (`core.client`) over a connection within this
process: it has a negative number, and what the broker transmits on it is delivered within the same
event. So rights, limits, metering, sequence numbers and back-pressure are those of every client,
and an answer to a client waits for nothing but the event's own record in the journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from pubweave.core.client import ClientCore
from pubweave.core.mqtt.session.cluster_messages import Arrived
from pubweave.core.session.access import Access
from pubweave.core.vocabulary.effects import (
    CloseConnection,
    Effect,
    Notify,
    ProbeBrokers,
    ReportMissed,
    ReportRefusal,
    Transmit,
)
from pubweave.core.vocabulary.events import ConnectionId, ConnectionOpened, MessagesReceived
from pubweave.model.ids import ClientId
from pubweave.model.messages.session import Message, Ping, SequencedMessage
from pubweave.model.mqtt_packets import PubAck, PubRec, Subscribe
from pubweave.model.publications import Publication


class PendingReply(msgspec.Struct, frozen=True):
    """An answer to a client, or a message to another gateway, that is due when the broker has
    handled ``count`` messages of the client.

    ``publication`` is the one that it answers; it is retained if it asks for that."""

    count: int
    answer: PubAck | PubRec | Subscribe | Arrived | None
    publication: Publication | None = None
    natives: tuple[tuple[str, ...], ...] = ()
    are_new: tuple[bool, ...] = ()


class NativeSession:
    """The client's end of a native session; ``owner`` names the MQTT session that it is for."""

    def __init__(self, client: ClientCore, connection: ConnectionId, owner: str) -> None:
        self.client = client
        self.connection = connection
        self.owner = owner
        self.pending_replies: deque[PendingReply] = deque()
        self.refusals: dict[str, str] = {}
        """By advertisement, subscription or ``publication N``: why it was refused."""
        self.lost_reason: str | None = None
        """Why the broker ended this session, if it did."""
        self.is_leaving = False
        self.wants_ack = False
        """Whether the broker is to acknowledge at once."""
        self.missed = 0
        """How many publications were lost before they arrived here, at most."""
        self._has_sent = False
        self._outgoing: list[Message] = []

    def reply_later(
        self,
        answer: PubAck | PubRec | Subscribe | Arrived | None,
        publication: Publication | None = None,
        natives: tuple[tuple[str, ...], ...] = (),
        are_new: tuple[bool, ...] = (),
    ) -> None:
        """Reply when the broker has handled what was queued last."""
        session = self.client.session
        count = session.acked + session.queue_messages + len(session.pending)
        self.pending_replies.append(PendingReply(count, answer, publication, natives, are_new))

    def due_replies(self) -> list[PendingReply]:
        """The replies that are due now, in order."""
        acked = self.client.session.acked
        due: list[PendingReply] = []
        while self.pending_replies and self.pending_replies[0].count <= acked:
            due.append(self.pending_replies.popleft())
        return due

    def receive(self, messages: Sequence[Message], now: float) -> Sequence[Publication]:
        """Handle what the broker transmitted; the notifications among it."""
        notified: list[Publication] = []
        for effect in self.client.handle(MessagesReceived(self.connection, messages, now), now):
            if isinstance(effect, Notify):
                notified += effect.publications
            elif isinstance(effect, Transmit):
                self._outgoing += effect.messages
                # What was queued before the broker's Hello goes out by itself after it.
                self._has_sent |= any(isinstance(m, SequencedMessage) for m in effect.messages)
            elif isinstance(effect, ReportMissed):
                self.missed += effect.count
            elif isinstance(effect, ReportRefusal):
                self.refusals[effect.subject] = effect.reason
            elif isinstance(effect, ProbeBrokers):
                # MQTT clients cannot probe brokers: their distances stay unknown.
                for reply in self.client.probed(effect.number, {}):
                    self._outgoing += reply.messages  # type: ignore[union-attr]
        return notified

    def opened(self, now: float) -> None:
        for effect in self.client.handle(ConnectionOpened(self.connection), now):
            if isinstance(effect, Transmit):
                self._outgoing += effect.messages

    def outgoing(self, now: float) -> list[Message]:
        """The messages for the broker."""
        effects = self.client.flush()
        self.wants_ack, self._has_sent = bool(effects) or self._has_sent, False
        self.client.session.ack(effects)
        if self.is_leaving and not self.client.session.queue_messages:
            effects += self.client.goodbye("the MQTT session is over")
        messages = self._outgoing
        for effect in effects:
            if isinstance(effect, Transmit):
                messages += effect.messages
        self._outgoing = []
        return messages


class InProcessLink:
    """Carries messages between a broker and the native clients of its gateway."""

    def __init__(
        self,
        access: Access,
        opened: Callable[[ConnectionOpened, float], None],
        receive: Callable[[MessagesReceived, float], None],
    ) -> None:
        self.on_notified: Callable[[NativeSession, Sequence[Publication], float], None]
        self.on_missed: Callable[[int], None]
        self.on_settled: Callable[[NativeSession, float], None]
        self.ends: dict[ConnectionId, NativeSession] = {}
        self._access = access
        self._opened = opened
        self._receive = receive
        self._touched: dict[ConnectionId, None] = {}
        self._deferred: deque[Effect] = deque()
        self._gossip: deque[Effect] = deque()
        """Effects for the gateway's own client."""
        self._is_running = False
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
        client = ClientCore(id_, epoch=epoch, now=now, first_sequence=epoch, can_move=can_move)
        if returns:
            client.session.remote_epoch = epoch  # names no session, but says that there was one
        end = self.ends[connection] = NativeSession(client, connection, owner)
        self._opened(ConnectionOpened(connection), now)
        self._access.vouch(connection, user)
        end.opened(now)
        self.touch(end)
        return end

    def leave(self, end: NativeSession) -> None:
        """Say goodbye as soon as the broker has acknowledged everything."""
        end.is_leaving = True
        self.touch(end)

    def touch(self, end: NativeSession) -> None:
        """This end may have messages to carry."""
        self._touched[end.connection] = None

    def defer(self, effects: list[Effect]) -> None:
        """Move the in-process effects from ``effects`` to the next run."""
        self._deferred.extend([e for e in effects if _is_inner(e)])
        effects[:] = [e for e in effects if not _is_inner(e)]

    def run(self, effects: list[Effect], now: float) -> None:
        """Carry messages in both directions until none are left; in-process effects are taken out
        of the broker's ``effects``. O(messages).

        Messages between gateways are delivered last. A handover's `Arrived` divides a session's
        publications; those before it in the same event must be in their sessions by then.

        Runs do not nest: a call within a run is served by that run, or messages could overtake
        each other."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while True:
                self.defer(effects)
                if not self._deferred and not self._touched:
                    if not self._gossip:
                        return
                    self._hand_over(self._gossip.popleft(), now)
                while self._deferred:
                    effect = self._deferred.popleft()
                    if self._is_gossip(effect):
                        self._gossip.append(effect)
                    else:
                        self._hand_over(effect, now)
                touched = list(self._touched)
                self._touched.clear()
                for connection in touched:
                    self._send_outgoing(connection, now)
        finally:
            self._is_running = False

    def _is_gossip(self, effect: Effect) -> bool:
        end = self.ends.get(effect.connection)  # type: ignore[union-attr]
        return end is not None and not end.owner

    def _hand_over(self, effect: Effect, now: float) -> None:
        end = self.ends.get(effect.connection)  # type: ignore[union-attr]
        if end is None:
            return
        self.touch(end)
        if isinstance(effect, CloseConnection):
            end.lost_reason = effect.reason
        elif isinstance(effect, Transmit):
            missed = end.missed
            notified = end.receive(effect.messages, now)
            if end.missed > missed:
                self.on_missed(end.missed - missed)
            if notified:
                self.on_notified(end, notified, now)

    def _send_outgoing(self, connection: ConnectionId, now: float) -> None:
        end = self.ends.get(connection)
        if end is None:
            return
        if end.lost_reason is None:
            self.on_settled(end, now)
            messages = end.outgoing(now)
            if messages:
                self._receive(MessagesReceived(connection, messages, now), now)
            if end.wants_ack:
                # In an event of its own: a broker acknowledges a batch when it is handled whole.
                self._receive(MessagesReceived(connection, (Ping(now),), now), now)
            return
        del self.ends[connection]
        self.on_settled(end, now)


def _is_inner(effect: Effect) -> bool:
    return isinstance(effect, Transmit | CloseConnection) and effect.connection < 0

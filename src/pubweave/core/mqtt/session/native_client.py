"""The native clients behind MQTT sessions, and the way between them and their broker.

Each MQTT session is an ordinary client of its broker (`core.client`), attached over a connection
that never leaves this process: it has a negative number, and what the broker transmits to it is
handed over within the same event. So rights, limits, metering, sequence numbers and back-pressure
are those of every client, and what a client is told waits for nothing but the event's own record
in the journal.
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
    """An answer to a client, or a word to another door, that is due when the broker has taken in
    ``count`` messages of the client.

    ``publication`` is the one it is about; it is retained if it says so."""

    count: int
    answer: PubAck | PubRec | Subscribe | Arrived | None
    publication: Publication | None = None
    natives: tuple[tuple[str, ...], ...] = ()
    is_news: tuple[bool, ...] = ()


class NativeSession:
    """A client's end of a native session; ``owner`` names the MQTT session it is for."""

    def __init__(self, client: ClientCore, connection: ConnectionId, owner: str) -> None:
        self.client = client
        self.connection = connection
        self.owner = owner
        self.promises: deque[PendingReply] = deque()
        self.refusals: dict[str, str] = {}
        """By advertisement, subscription or ``publication N``: why it was refused."""
        self.lost_reason: str | None = None
        """Why the broker let this client go, if it did."""
        self.is_leaving = False
        self.asks = False
        """Whether the broker is to say at once what it has taken in."""
        self.missed = 0
        """How many publications were lost to it before they came here, at most."""
        self._has_told = False
        self._outgoing: list[Message] = []

    def promise(
        self,
        answer: PubAck | PubRec | Subscribe | Arrived | None,
        publication: Publication | None = None,
        natives: tuple[tuple[str, ...], ...] = (),
        is_news: tuple[bool, ...] = (),
    ) -> None:
        """Owe an answer for what was queued last."""
        session = self.client.session
        count = session.acked + session.queue_messages + len(session.pending)
        self.promises.append(PendingReply(count, answer, publication, natives, is_news))

    def kept(self) -> list[PendingReply]:
        """The answers that are due now, in their order."""
        acked = self.client.session.acked
        due: list[PendingReply] = []
        while self.promises and self.promises[0].count <= acked:
            due.append(self.promises.popleft())
        return due

    def receive(self, messages: Sequence[Message], now: float) -> Sequence[Publication]:
        """What the broker transmitted; the notifications among it."""
        notified: list[Publication] = []
        for effect in self.client.handle(MessagesReceived(self.connection, messages, now), now):
            if isinstance(effect, Notify):
                notified += effect.publications
            elif isinstance(effect, Transmit):
                self._outgoing += effect.messages
                # What was queued before the broker's Hello goes out by itself after it.
                self._has_told |= any(isinstance(m, SequencedMessage) for m in effect.messages)
            elif isinstance(effect, ReportMissed):
                self.missed += effect.count
            elif isinstance(effect, ReportRefusal):
                self.refusals[effect.subject] = effect.reason
            elif isinstance(effect, ProbeBrokers):
                # MQTT has no words for it: how far other brokers are stays unknown.
                for reply in self.client.probed(effect.number, {}):
                    self._outgoing += reply.messages  # type: ignore[union-attr]
        return notified

    def opened(self, now: float) -> None:
        for effect in self.client.handle(ConnectionOpened(self.connection), now):
            if isinstance(effect, Transmit):
                self._outgoing += effect.messages

    def outgoing(self, now: float) -> list[Message]:
        """What the broker is to hear now."""
        effects = self.client.flush()
        self.asks, self._has_told = bool(effects) or self._has_told, False
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
    """Carries messages between a broker and the native ends of its door."""

    def __init__(
        self,
        access: Access,
        opened: Callable[[ConnectionOpened, float], None],
        heard: Callable[[MessagesReceived, float], None],
    ) -> None:
        self.on_notified: Callable[[NativeSession, Sequence[Publication], float], None]
        self.on_missed: Callable[[int], None]
        self.on_settled: Callable[[NativeSession, float], None]
        self.ends: dict[ConnectionId, NativeSession] = {}
        self._access = access
        self._opened = opened
        self._heard = heard
        self._touched: dict[ConnectionId, None] = {}
        self._kept: deque[Effect] = deque()
        self._words: deque[Effect] = deque()
        """What is for the door's own client."""
        self._is_turning = False
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
        """Attach a client whose user has been proven at another connection. ``returns``: it has
        been elsewhere, and is to get what is kept of its topics."""
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
        """Say goodbye as soon as the broker has taken everything in."""
        end.is_leaving = True
        self.touch(end)

    def touch(self, end: NativeSession) -> None:
        """Something is to be carried from this end."""
        self._touched[end.connection] = None

    def keep(self, effects: list[Effect]) -> None:
        """Take the inner effects out of ``effects``, for the next turn."""
        self._kept.extend([e for e in effects if _is_inner(e)])
        effects[:] = [e for e in effects if not _is_inner(e)]

    def turn(self, effects: list[Effect], now: float) -> None:
        """Carry messages to and fro until nobody has anything to say; ``effects`` are those of
        the broker, of which the inner ones are taken out. O(messages).

        Words of doors are heard last. One says of a session what was before it and what comes
        after; the publications that came before it in one event must be in their sessions by then.

        Within a turn there is no other: whoever asks for one then is served by the one that is
        under way, or messages could overtake each other."""
        if self._is_turning:
            return
        self._is_turning = True
        try:
            while True:
                self.keep(effects)
                if not self._kept and not self._touched:
                    if not self._words:
                        return
                    self._hand_over(self._words.popleft(), now)
                while self._kept:
                    effect = self._kept.popleft()
                    if self._is_word(effect):
                        self._words.append(effect)
                    else:
                        self._hand_over(effect, now)
                touched = list(self._touched)
                self._touched.clear()
                for connection in touched:
                    self._speak(connection, now)
        finally:
            self._is_turning = False

    def _is_word(self, effect: Effect) -> bool:
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

    def _speak(self, connection: ConnectionId, now: float) -> None:
        end = self.ends.get(connection)
        if end is None:
            return
        if end.lost_reason is None:
            self.on_settled(end, now)
            messages = end.outgoing(now)
            if messages:
                self._heard(MessagesReceived(connection, messages, now), now)
            if end.asks:
                # By itself: a broker counts what came in one piece when it is through with it.
                self._heard(MessagesReceived(connection, (Ping(now),), now), now)
            return
        del self.ends[connection]
        self.on_settled(end, now)


def _is_inner(effect: Effect) -> bool:
    return isinstance(effect, Transmit | CloseConnection) and effect.connection < 0

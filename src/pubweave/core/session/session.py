"""One session: the traffic between two sides, which outlives the connections that carry it.

A session numbers sequenced messages by counting them. Each side acknowledges how many it took
in; what is not acknowledged is kept and transmitted again on the next connection, so a dropped
and re-made connection loses and duplicates nothing. The same window is the back-pressure: a
congested receiver withholds acknowledgements, and a sender with a full window lets messages wait.

No I/O and no clock here. Invariant: the messages a side has ever put in a session are, in order,
the acknowledged ones (forgotten), ``unacked``, ``waiting``, ``pending``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from pubweave.core.config.session import SessionLimits
from pubweave.core.session.states import SESSION, SessionState
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.core.vocabulary.events import ConnectionId
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.messages.migration import MovedSession
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Ack,
    Hello,
    Role,
    SequencedMessage,
)
from pubweave.model.publications import Publication


class RemoteProtocolError(Exception):
    """The far end broke the protocol; its connection is closed with this reason."""


class OvertakenError(RemoteProtocolError):
    """A connection lost a race against a newer one of the same far end: nobody's fault."""


class LocalEnd(Protocol):
    """The far end of a session in this process (`mqtt/session/native_client`): it has what is sent
    to it at once, so nothing of it is kept for a retransmission."""

    def attached(self, session: Session, hello: Hello) -> None:
        """The broker has answered its Hello."""

    def receive(self, messages: Sequence[SequencedMessage]) -> None: ...

    def acknowledged(self) -> None:
        """The broker has handled everything that was sent."""

    def closed(self, reason: str) -> None: ...


class Session:
    """One side's state of a session with ``remote``. Compared and hashed by identity.

    The two sides' epochs name a session. One that begins anew has another name, whatever the
    reason, or they could resume what is gone: the side that was dialed takes a fresh epoch then.
    """

    __slots__ = (
        "acked",
        "attempts",
        "can_move",
        "connection",
        "down_since",
        "heard_at",
        "is_client",
        "limits",
        "local",
        "own_epoch",
        "pending",
        "received",
        "received_bytes_unacked",
        "received_total",
        "received_total_bytes",
        "remote",
        "remote_attempt",
        "remote_epoch",
        "remote_window_bytes",
        "rtt_ms",
        "sent_total",
        "sent_total_bytes",
        "state",
        "told",
        "unacked",
        "unacked_bytes",
        "waiting",
        "waiting_bytes",
    )

    def __init__(
        self, remote: str, *, own_epoch: int, is_client: bool, limits: SessionLimits
    ) -> None:
        self.remote = remote
        self.own_epoch = own_epoch
        self.is_client = is_client
        self.limits = limits
        self.connection: ConnectionId | None = None
        self.local: LocalEnd | None = None
        """The far end, if it is in this process."""
        self.state = SESSION.first
        self.remote_epoch = 0
        self.attempts = 0
        self.remote_attempt = 0
        self.remote_window_bytes = limits.window_bytes
        self.heard_at = 0.0
        self.down_since = 0.0
        self.rtt_ms: float | None = None
        self.can_move = False
        """The far end is a client that can be redirected to another broker."""
        # outgoing
        self.acked = 0
        self.unacked: deque[SequencedMessage] = deque()
        self.unacked_bytes = 0
        self.waiting: deque[SequencedMessage] = deque()
        self.waiting_bytes = 0
        self.pending: list[SequencedMessage] = []
        self.sent_total = 0
        self.sent_total_bytes = 0
        # incoming
        self.received = 0
        self.told = 0
        self.received_bytes_unacked = 0
        self.received_total = 0
        self.received_total_bytes = 0

    def __repr__(self) -> str:
        return f"<Session {self.remote} {self.state.value}>"

    # --- connections -----------------------------------------------------------------------

    def opened(self, connection: ConnectionId, local: LocalEnd | None = None) -> None:
        """A connection to the far end stands; nothing but Hello may travel yet."""
        self.connection = connection
        self.local = local
        self.state = SESSION.after(self.state, "opened")

    def closed(self, now: float) -> None:
        self.connection = self.local = None
        self.down_since = now
        self.state = SESSION.after(self.state, "closed")

    def take_pong(self, sent_at: float, now: float) -> float:
        """The far end has answered a Ping; the round-trip time in ms."""
        self.rtt_ms = rtt_ms = (now - sent_at) * 1000.0
        return rtt_ms

    def excuse(self, seconds: float) -> None:
        """This side did not run for so long: that time counts against nobody."""
        self.heard_at += seconds
        self.down_since += seconds

    def hello(
        self,
        role: Role,
        own_id: str,
        *,
        last_sequence: int = 0,
        routing: str = "",
        can_move: bool = False,
        token: str = "",
    ) -> Hello:
        """What this side says first on a connection."""
        return Hello(
            PROTOCOL_VERSION,
            role,
            own_id,
            self.own_epoch,
            self.remote_epoch,
            self.received,
            self.limits.window_bytes,
            last_sequence,
            routing,
            self.attempts,
            can_move,
            token,
        )

    def continues(self, hello: Hello) -> bool:
        """Whether the far end speaks of the same session: each side names both epochs."""
        return hello.epoch == self.remote_epoch and hello.remote_epoch == self.own_epoch

    def is_outdated(self, hello: Hello) -> bool:
        """Whether a newer connection of the same far end has already said Hello."""
        return hello.epoch == self.remote_epoch and hello.attempt <= self.remote_attempt

    def take_hello(self, hello: Hello) -> bool:
        """The far end's Hello came; True if the session goes on where it was.

        A session that begins anew is emptied by `restart`.
        """
        if self.state is not SessionState.OPEN:
            raise RemoteProtocolError("said Hello where none is due")
        resumed = self.continues(hello)
        self.remote_epoch = hello.epoch
        self.remote_attempt = hello.attempt
        self.can_move = hello.can_move
        # The far end may ask for a smaller window than ours, never for more of our memory.
        self.remote_window_bytes = max(1, min(hello.window_bytes, self.limits.window_bytes))
        if resumed:
            acked = self.acked
            self.take_ack(hello.received)
            if self.unacked and hello.received > acked:
                sometimes(Branch.RESUMED_IN_WINDOW)
            self.told = self.received
            self.received_bytes_unacked = 0
        self.state = SESSION.after(self.state, "hello")
        return resumed

    def go_on(self, moved: MovedSession) -> None:
        """A client has been moved here: its session goes on where it was at its old broker. What
        is queued meanwhile was never sent."""
        self.own_epoch, self.remote_epoch = moved.own_epoch, moved.remote_epoch
        self.remote_attempt = moved.remote_attempt
        self.received = self.told = moved.received
        self.acked = moved.sent

    def restart(self) -> list[SequencedMessage]:
        """Begin anew: counters to zero, queues empty. Returns what they held, in order."""
        held = [*self.unacked, *self.waiting, *self.pending]
        self.unacked.clear()
        self.waiting.clear()
        self.pending.clear()
        self.unacked_bytes = self.waiting_bytes = 0
        self.acked = self.received = self.told = 0
        self.received_bytes_unacked = 0
        return held

    def forget_waiting(self) -> int:
        """Nobody is there to get what waits; how many publications that were."""
        count = sum(type(message) is Publication for message in self.waiting)
        self.waiting.clear()
        self.waiting_bytes = 0
        return count

    # --- outgoing --------------------------------------------------------------------------

    @property
    def is_established(self) -> bool:
        return self.state is SessionState.ESTABLISHED

    @property
    def queue_bytes(self) -> int:
        """All that this side keeps for the far end."""
        return self.unacked_bytes + self.waiting_bytes

    @property
    def queue_messages(self) -> int:
        return len(self.unacked) + len(self.waiting)

    @property
    def is_congested(self) -> bool:
        return self.waiting_bytes > self.limits.congested_bytes

    def retransmit(self, effects: list[Effect]) -> None:
        """On a resumed session: everything unacknowledged again, then what waited."""
        if self.unacked and self.connection is not None:
            effects.append(Transmit(self.connection, list(self.unacked)))
        self.pump(effects)

    def flush(self, effects: list[Effect]) -> int:
        """Send what `pending` holds, as far as connection and window allow; how many bytes that is.
        O(messages)."""
        messages = self.pending.copy()
        if not messages:
            return 0
        self.pending.clear()
        size = sum([message.size_bytes for message in messages])
        self.sent_total += len(messages)
        self.sent_total_bytes += size
        if self.local is not None:
            self.acked += len(messages)
            self.local.receive(messages)
        elif (
            self.state is SessionState.ESTABLISHED
            and not self.waiting
            and self.unacked_bytes + size <= self.remote_window_bytes
        ):
            self.unacked.extend(messages)
            self.unacked_bytes += size
            effects.append(Transmit(self.connection, messages))  # type: ignore[arg-type]
        else:
            self.waiting.extend(messages)
            self.waiting_bytes += size
            self.pump(effects)
        return size

    def pump(self, effects: list[Effect]) -> None:
        """Let waiting messages go while the window has room."""
        if not self.waiting or self.state is not SessionState.ESTABLISHED:
            return
        messages: list[SequencedMessage] = []
        size = 0
        room = self.remote_window_bytes - self.unacked_bytes
        while self.waiting and size < room:
            message = self.waiting.popleft()
            size += message.size_bytes
            messages.append(message)
        if messages:
            self.waiting_bytes -= size
            self.unacked.extend(messages)
            self.unacked_bytes += size
            effects.append(Transmit(self.connection, messages))  # type: ignore[arg-type]

    def take_ack(self, received: int) -> None:
        """The far end took in the first ``received`` messages: forget them."""
        count = received - self.acked
        if not 0 <= count <= len(self.unacked):
            raise RemoteProtocolError(
                f"acknowledged {received} messages, but between {self.acked} and "
                f"{self.acked + len(self.unacked)} were possible"
            )
        if count == len(self.unacked):
            self.unacked.clear()
            self.unacked_bytes = 0
        else:
            pop = self.unacked.popleft
            self.unacked_bytes -= sum([pop().size_bytes for _ in range(count)])
        self.acked = received

    # --- incoming --------------------------------------------------------------------------

    def took_in(self, count: int, size_bytes: int) -> None:
        """Count sequenced messages that were handled, and watch the window we granted."""
        self.received += count
        self.received_total += count
        self.received_total_bytes += size_bytes
        self.received_bytes_unacked += size_bytes

    @property
    def ack_every_bytes(self) -> int:
        """Both sides have told their windows, and the smaller one counts in both directions."""
        return self.remote_window_bytes // 4

    @property
    def owes_ack(self) -> bool:
        return self.received != self.told

    def ack(self, effects: list[Effect]) -> None:
        """Acknowledge what came in. A broker asks `FlowControl.ack`, which may withhold it."""
        if self.received == self.told or self.state is not SessionState.ESTABLISHED:
            return
        self.told = self.received
        self.received_bytes_unacked = 0
        if self.local is not None:
            self.local.acknowledged()
        else:
            effects.append(Transmit(self.connection, (Ack(self.received),)))  # type: ignore[arg-type]

"""Outgoing queue of the current event.

Messages are collected while an event is handled, and each touched session is flushed once at its
end. If a destination is congested, the origin of the event is held up. Two kinds of sessions are
stand-ins: what is queued for the stand-in of held links goes to the action that holds them, and a
gate that is full is opened.
"""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.metering.counters import Counters
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.session.backpressure import FlowControl
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.core.vocabulary.effects import Effect
from pubweave.model.messages.session import SequencedMessage


class OutgoingQueue:
    """The queues that the current event has touched, and its effects."""

    def __init__(self, counters: Counters, flow: FlowControl) -> None:
        self.effects: list[Effect] = []
        """Of the current event."""
        self.touched: dict[Session, None] = {}
        self.refusals = 0
        """Refusals queued for clients in this event, which do not count as deliveries."""
        self._counters = counters
        self._flow = flow
        self.find_stand_in: Callable[[], Session | None] = lambda: None
        """The session that stands in for links that an action holds."""
        self.gather: Callable[[Session | None, float], None] = lambda origin, now: None
        """Moves what is queued for the stand-in to the action."""

    def send(self, session: Session, message: SequencedMessage) -> None:
        session.pending.append(message)
        self.touched[session] = None

    def flush(
        self,
        origin: Session | None,
        sessions: SessionTable,
        routing: RoutingStrategy,
        now: float,
    ) -> None:
        """Send what the event queued; hold up its origin where a destination is congested."""
        if not self.touched:
            return
        touched = list(self.touched)
        self.touched.clear()
        counters = self._counters
        counters.deliveries -= self.refusals
        self.refusals = 0
        stand_in = self.find_stand_in()
        for session in touched:
            if session is stand_in:
                # The action keeps what was queued for held links; too much of it may end the hold.
                self.gather(origin, now)
                self.flush(None, sessions, routing, now)
                continue
            count = len(session.pending)
            counters.messages_out += count
            if session.is_client:
                counters.deliveries += count
            before = session.sent_total_bytes
            session.flush(self.effects)
            counters.bytes_out += session.sent_total_bytes - before
            if not session.is_congested:
                continue
            if session.is_client or sessions.links.get(session.remote) is session:
                self._flow.hold(origin, session, now)
                counters.holds = self._flow.holds
            else:
                routing.open_full_gates()
                self.flush(None, sessions, routing, now)

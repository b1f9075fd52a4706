"""Outgoing queue of the current event.

Messages are collected while an event is handled, and each touched session is flushed once at its
end. If a destination is congested, the origin of the event is held up. Two kinds of sessions are
stand-ins: what is queued for the stand-in of held links goes to the action that holds them, and a
gate that is full is opened.
"""

from __future__ import annotations

from typing import Protocol

from pubweave.core.metering.counters import Counters
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.session.backpressure import FlowControl
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.core.vocabulary.effects import Effect
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.messages.session import Confirmed, Refused, SequencedMessage


class Holder(Protocol):
    """Holds links; routes name its stand-in in place of them."""

    stand_in: Session | None

    def gather(self, origin: Session | None, now: float) -> None:
        """Take over what is queued for the stand-in."""


class OutgoingQueue:
    """The queues that the current event has touched, and its effects."""

    def __init__(self, counters: Counters, flow: FlowControl) -> None:
        self.effects: list[Effect] = []
        """Of the current event."""
        self.touched: dict[Session, None] = {}
        self.notices = 0
        """Refusals and confirmations queued for clients in this event; they are no deliveries."""
        self._counters = counters
        self._flow = flow

    def send(self, session: Session, message: SequencedMessage) -> None:
        session.pending.append(message)
        self.touched[session] = None
        self.notices += isinstance(message, Refused | Confirmed)

    def refuse(self, origin: Session, subject: str, reason: str) -> None:
        """Refuse a client's request."""
        self._counters.refused += 1
        self.send(origin, Refused(subject, reason))

    def flush(
        self,
        origin: Session | None,
        sessions: SessionTable,
        routing: RoutingStrategy,
        holder: Holder,
        now: float,
    ) -> None:
        """Send what the event queued; hold up its origin where a destination is congested."""
        touched = list(self.touched)
        self.touched.clear()
        counters = self._counters
        counters.deliveries -= self.notices
        self.notices = 0
        stand_in = holder.stand_in
        for session in touched:
            if session is stand_in:
                # The action keeps what was queued for held links; too much of it may end the hold.
                holder.gather(origin, now)
                self.flush(None, sessions, routing, holder, now)
                continue
            count = len(session.pending)
            counters.messages_out += count
            if session.is_client:
                counters.deliveries += count
            counters.bytes_out += session.flush(self.effects)
            if session.waiting_bytes <= session.limits.congested_bytes:
                continue
            if stand_in is not None:
                sometimes(Branch.BACKPRESSURE_IN_SHIFT)
            if session.is_client or sessions.links.get(session.remote) is session:
                self._flow.hold(origin, session, now)
                counters.holds = self._flow.holds
            else:
                counters.publications_lost_at_most += routing.open_full_gates()
                self.flush(None, sessions, routing, holder, now)

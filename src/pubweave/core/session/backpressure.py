"""Acknowledgements and back-pressure between the sessions of one broker.

A session whose queue is congested *holds up* the sessions that feed it: their acknowledgements
are withheld, their far ends run out of window, and so on up to the publishers. Nothing is lost
and every queue stays bounded. Because publications from a link never return to it, whoever waits
for whom follows the paths of the tree, and such waiting cannot close a cycle. Table messages can
return (an advertisement draws subscriptions), so a link never holds itself up: two brokers that
answer each other at length would wait for ever. Their number is bounded by the tables.
"""

from __future__ import annotations

from pubweave.core.session.session import Session
from pubweave.core.vocabulary.effects import Effect


class FlowControl:
    """Who owes an acknowledgement, and who holds up whom."""

    def __init__(self, *, ack_delay_s: float, holds_links: bool = True) -> None:
        """``holds_links``: False where links can form a cycle, in which all would wait for ever:
        then only clients are held up."""
        self._ack_delay_s = ack_delay_s
        self.holds_links = holds_links
        self._ack_due: dict[Session, None] = {}
        self.ack_at: float | None = None
        self.holds = 0

    def schedule_ack(self, session: Session, now: float, effects: list[Effect]) -> None:
        """Acknowledge at once after many bytes, else soon, so that several share one message."""
        if session.received_bytes_unacked >= session.ack_every_bytes:
            session.ack(effects)
        elif session.owes_ack:
            self._ack_due[session] = None
            if self.ack_at is None:
                self.ack_at = now + self._ack_delay_s

    def send_due_acks(self, now: float, effects: list[Effect]) -> None:
        if self.ack_at is None or now < self.ack_at:
            return
        for session in self._ack_due:
            session.ack(effects)
        self._ack_due.clear()
        self.ack_at = None

    def hold(self, origin: Session | None, congested: Session, now: float) -> None:
        """``congested`` cannot take more: whoever just fed it has to wait."""
        if congested.congested_since is None:
            congested.congested_since = now
        if origin is None:
            return
        if not origin.is_client and (origin is congested or not self.holds_links):
            return
        if congested not in origin.blocked_by:
            self.holds += 1
            origin.blocked_by[congested] = None
            congested.blocking[origin] = None

    def relieve(self, session: Session, effects: list[Effect]) -> None:
        """Let go whom a session held up, once its queue has gone down."""
        if session.waiting_bytes > session.limits.relieved_bytes:
            return
        session.congested_since = None
        for held in session.blocking:
            held.blocked_by.pop(session, None)
            held.ack(effects)
        session.blocking.clear()

    def discard(self, session: Session, effects: list[Effect]) -> None:
        """A session is over: it neither waits nor makes others wait."""
        self._ack_due.pop(session, None)
        for other in session.blocked_by:
            other.blocking.pop(session, None)
        session.blocked_by.clear()
        self.relieve(session, effects)

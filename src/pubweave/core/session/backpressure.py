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
from pubweave.core.vocabulary.rare_branches import Branch, sometimes


class FlowControl:
    """Who owes an acknowledgement, and who holds up whom."""

    def __init__(self, *, ack_delay_s: float, holds_links: bool = True) -> None:
        """``holds_links``: False where links can form a cycle, in which all would wait for ever:
        then only clients are held up."""
        self._ack_delay_s = ack_delay_s
        self._holds_links = holds_links
        self._ack_due: dict[Session, None] = {}
        self.ack_at: float | None = None
        self.holds = 0
        self.congested_since: dict[Session, float] = {}
        """Sessions that could not take more, and since when."""
        self._held: dict[Session, dict[Session, None]] = {}
        """Whose acknowledgements are withheld, and for which sessions."""
        self._holding: dict[Session, dict[Session, None]] = {}
        """The same the other way round."""

    def is_held(self, session: Session) -> bool:
        """Whether acknowledgements of a session are withheld."""
        return session in self._held

    def ack(self, session: Session, effects: list[Effect]) -> None:
        """Acknowledge what came in, unless the session is held up by somebody it feeds."""
        if session not in self._held:
            session.ack(effects)

    def schedule_ack(self, session: Session, now: float, effects: list[Effect]) -> None:
        """Something came in: acknowledge at once after many bytes, else soon, so that several share
        one message."""
        if session.received_bytes_unacked >= session.remote_window_bytes // 4:
            self.ack(session, effects)
        else:
            self._ack_due[session] = None
            if self.ack_at is None:
                self.ack_at = now + self._ack_delay_s

    def send_due_acks(self, now: float, effects: list[Effect]) -> None:
        if self.ack_at is None or now < self.ack_at:
            return
        for session in self._ack_due:
            if session not in self._held:
                session.ack(effects)
        self._ack_due.clear()
        self.ack_at = None

    def hold(self, origin: Session | None, congested: Session, now: float) -> None:
        """``congested`` cannot take more: whoever just fed it has to wait."""
        self.congested_since.setdefault(congested, now)
        if origin is None:
            return
        if not origin.is_client and (origin is congested or not self._holds_links):
            return
        if congested not in self._held.get(origin, ()):
            self.holds += 1
            if not origin.is_client:
                sometimes(Branch.LINK_HELD_UP)
            self.withhold(origin, congested)

    def withhold(self, origin: Session, cause: Session) -> None:
        """Withhold the acknowledgements of a session until its cause is relieved."""
        self._held.setdefault(origin, {})[cause] = None
        self._holding.setdefault(cause, {})[origin] = None

    def relieve(self, session: Session, effects: list[Effect]) -> None:
        """Let go whom a session held up, once its queue has gone down."""
        if session.waiting_bytes > session.limits.relieved_bytes:
            return
        self.congested_since.pop(session, None)
        for held in self._holding.pop(session, ()):
            self._let_go(held, session)
            self.ack(held, effects)

    def resume(self, origin: Session, cause: Session, effects: list[Effect]) -> None:
        """One cause of a session to be held up is gone, whoever else it holds up."""
        self._holding.get(cause, {}).pop(origin, None)
        self._let_go(origin, cause)
        self.ack(origin, effects)

    def _let_go(self, held: Session, cause: Session) -> None:
        causes = self._held.get(held)
        if causes is not None:
            causes.pop(cause, None)
            if not causes:
                del self._held[held]

    def restarted(self, now: float) -> None:
        """The broker is in a new process: whoever is congested gets its whole time again."""
        self.congested_since = dict.fromkeys(self.congested_since, now)

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long: that time counts against nobody."""
        self.congested_since = {s: at + seconds for s, at in self.congested_since.items()}

    def discard(self, session: Session, effects: list[Effect]) -> None:
        """A session is over: it neither waits nor makes others wait."""
        self._ack_due.pop(session, None)
        for cause in self._held.pop(session, ()):
            self._holding.get(cause, {}).pop(session, None)
        self.relieve(session, effects)
        self.congested_since.pop(session, None)

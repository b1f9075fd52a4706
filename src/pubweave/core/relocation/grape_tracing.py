"""GRAPE's phase 1 (section 4.1): trace sessions, bit vectors, and gathering them.

A publisher's first broker marks consecutive publications with the session's name, which is the
sequence of the first. Every broker they pass notes how often and which of them it delivered, and
to whom it passed them on. Then a request follows them down the same links, behind the last of
them, and answers come back, each with the reports of all brokers behind it.

A broker that could not follow (publications went into a hold, it was restarted) says so, and the
session comes to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from pubweave.core.config.relocation import MOST_TRACED
from pubweave.core.session.session import Session
from pubweave.model.ids import ClientId
from pubweave.model.messages.relocation import (
    TraceInformationAnswer,
    TraceInformationRequest,
    TraceReport,
)
from pubweave.model.publications import Publication

MOST_SESSIONS = 16_384
"""Publishers whose sessions a broker notes at most."""
SESSION_BYTES = 96
"""What a session is taken to occupy besides its bits and neighbors."""


@dataclass(slots=True)
class TraceSession:
    """What a broker has noted of one session."""

    first_sequence: int
    upstream: Session | None
    deliveries: int = 0
    bits: int = 0
    downstream: dict[Session, None] = field(default_factory=dict)
    is_whole: bool = True
    with_subscribers: bool = False


@dataclass(slots=True)
class _Gathering:
    """Answers that a broker waits for, and those that came."""

    session: TraceSession
    waiting: set[Session]
    until: float
    reports: list[TraceReport] = field(default_factory=list)
    is_whole: bool = True


MakeReport = Callable[[TraceSession], TraceReport]
OnGathered = Callable[[ClientId, tuple[TraceReport, ...], float, float], None]
"""Whose reports, which, since when they were gathered, and the instant."""


class GrapeTracing:
    """One broker's part in tracing by GRAPE."""

    def __init__(
        self,
        *,
        answer_limit_s: float,
        every_s: float,
        make_report: MakeReport,
        link_stands: Callable[[Session], bool],
        with_subscribers: Callable[[ClientId], bool],
        send: Callable[[Session, TraceInformationRequest | TraceInformationAnswer], None],
        on_gathered: OnGathered,
        on_noted: Callable[[ClientId], None],
    ) -> None:
        """``on_noted`` hears of sessions for which no placement round will come."""
        self._answer_limit_s = answer_limit_s
        self._every_s = every_s
        self._make_report = make_report
        self._link_stands = link_stands
        self._with_subscribers = with_subscribers
        self._send = send
        self._on_gathered = on_gathered
        self._on_noted = on_noted
        self.sessions: dict[ClientId, TraceSession] = {}
        self._gatherings: dict[ClientId, _Gathering] = {}
        self._open: dict[ClientId, int] = {}
        self._began_at: dict[ClientId, float] = {}
        """When the last session of each local publisher began."""
        self._last: dict[ClientId, tuple[int, int, float]] = {}
        """Of the last one that ended: its first sequence, how many it had, how long it took."""
        self._ended: dict[ClientId, None] = {}
        self.given_up = 0

    # --- the publisher's broker ------------------------------------------------------------

    @property
    def local(self) -> list[ClientId]:
        """The publishers with an open session that began here."""
        return list(self._open)

    def is_busy(self, publisher: ClientId) -> bool:
        """Whether a session of a local publisher is open or being gathered."""
        return publisher in self._open or publisher in self._gatherings

    def mark(self, publication: Publication, count: int, now: float, *, at_once: bool) -> int:
        """The session that a local publisher's publication belongs to; it may begin one, if the
        last one is old enough or it has to be ``at_once``, and ends one of ``count``."""
        publisher, sequence = publication.publisher, publication.sequence
        if publisher in self._gatherings:
            return 0
        if publisher not in self._open:
            if not at_once and now - self._began_at.get(publisher, -math.inf) < self._every_s:
                return 0
            self._began_at[publisher] = now
        first = self._open.setdefault(publisher, sequence)
        if sequence - first >= count - 1:
            self._ended[publisher] = None
            self._last[publisher] = (first, count, now - self._began_at[publisher])
        # Beyond the end: publications in between were refused.
        return first if sequence - first < count else 0

    def idle_until(self, publisher: ClientId, now: float) -> float:
        """Before this instant no session of a local publisher begins; ``now`` if one is open."""
        if self.is_busy(publisher):
            return now
        return self._began_at.get(publisher, now) + self._every_s

    def end_sessions(self, now: float) -> None:
        """Ask for the sessions whose last publication has been passed on."""
        for publisher in self._ended:
            first = self._open.pop(publisher)
            session = self.sessions.get(publisher)
            if session is None or session.first_sequence != first or session.upstream is not None:
                self._fail(publisher)
            else:
                session.with_subscribers = self._with_subscribers(publisher)
                self._gather(publisher, session, now)
        self._ended.clear()

    # --- every broker ----------------------------------------------------------------------

    def routed(
        self,
        publication: Publication,
        upstream: Session | None,
        own: int,
        downstream: list[Session],
        *,
        is_whole: bool,
    ) -> None:
        """A marked publication was passed on. Not ``is_whole``: to a stand-in, too."""
        place = publication.sequence - publication.trace
        if not 0 <= place < MOST_TRACED:
            return
        session = self.sessions.get(publication.publisher)
        if session is None or session.first_sequence != publication.trace:
            if session is None and len(self.sessions) >= MOST_SESSIONS:
                return
            session = TraceSession(publication.trace, upstream)
            self.sessions[publication.publisher] = session
        session.is_whole = session.is_whole and is_whole and session.upstream is upstream
        if own:
            session.deliveries += own
            session.bits |= 1 << place
        session.downstream.update(dict.fromkeys(downstream))

    def receive_request(
        self, origin: Session, message: TraceInformationRequest, now: float
    ) -> None:
        """Upstream wants to know: ask on, or answer."""
        session = self.sessions.get(message.publisher)
        if (
            session is None
            or session.first_sequence != message.first_sequence
            or session.upstream is not origin
        ):
            session = TraceSession(message.first_sequence, origin, is_whole=False)
        session.with_subscribers = message.with_subscribers
        self._gather(message.publisher, session, now)

    def _gather(self, publisher: ClientId, session: TraceSession, now: float) -> None:
        there = [link for link in session.downstream if self._link_stands(link)]
        gathering = _Gathering(session, set(there), now + self._answer_limit_s)
        gathering.is_whole = session.is_whole and len(there) == len(session.downstream)
        self._gatherings[publisher] = gathering
        request = TraceInformationRequest(
            publisher, session.first_sequence, session.with_subscribers
        )
        for link in there:
            self._send(link, request)
        if not session.with_subscribers:
            self._on_noted(publisher)
        self._finish_if_all(publisher, gathering, now)

    def receive_answer(self, origin: Session, message: TraceInformationAnswer, now: float) -> None:
        gathering = self._gatherings.get(message.publisher)
        if (
            gathering is None
            or gathering.session.first_sequence != message.first_sequence
            or origin not in gathering.waiting
        ):
            return
        gathering.waiting.discard(origin)
        gathering.reports.extend(message.reports)
        gathering.is_whole = gathering.is_whole and message.is_whole
        self._finish_if_all(message.publisher, gathering, now)

    def _finish_if_all(self, publisher: ClientId, gathering: _Gathering, now: float) -> None:
        if gathering.waiting:
            return
        session = gathering.session
        reports = (self._make_report(session), *gathering.reports)
        del self._gatherings[publisher]
        self.sessions.pop(publisher, None)
        if session.upstream is not None:
            answer = TraceInformationAnswer(
                publisher, session.first_sequence, reports, gathering.is_whole
            )
            self._send(session.upstream, answer)
        elif gathering.is_whole:
            self._on_gathered(publisher, reports, gathering.until - self._answer_limit_s, now)
        else:
            self._fail(publisher)

    # --- ends ------------------------------------------------------------------------------

    def _fail(self, publisher: ClientId) -> None:
        self.given_up += 1
        self.sessions.pop(publisher, None)

    def discard(self, publisher: ClientId) -> None:
        self.sessions.pop(publisher, None)
        self._gatherings.pop(publisher, None)
        self._open.pop(publisher, None)
        self._ended.pop(publisher, None)
        self._began_at.pop(publisher, None)
        self._last.pop(publisher, None)

    def last_session(self, publisher: ClientId) -> tuple[int, float]:
        """Of a local publisher's last session: the first sequence, and publications per second."""
        first, count, lasted_s = self._last.get(publisher, (0, 0, 0.0))
        return first, count / lasted_s if lasted_s > 0 else 0.0

    def give_up_late(self, now: float) -> None:
        for publisher in [p for p, g in self._gatherings.items() if g.until <= now]:
            upstream = self._gatherings.pop(publisher).session.upstream
            if upstream is None:
                self._fail(publisher)
            else:
                self.given_up += 1
                self.sessions.pop(publisher, None)

    @property
    def memory_bytes(self) -> int:
        """What sessions and gathered reports occupy, by their contents."""
        noted = sum(
            SESSION_BYTES + (session.bits.bit_length() + 7) // 8 + 8 * len(session.downstream)
            for session in self.sessions.values()
        )
        gathered = sum(
            SESSION_BYTES + sum(report.size_bytes for report in gathering.reports)
            for gathering in self._gatherings.values()
        )
        return noted + gathered

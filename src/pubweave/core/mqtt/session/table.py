"""The session table of one gateway: sessions by name, their wills and expiry."""

from __future__ import annotations

import heapq
from math import inf

from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.connection import MqttConnection
from pubweave.core.mqtt.session.inflight import QueueBudget
from pubweave.core.mqtt.session.native_client import InProcessLink
from pubweave.core.mqtt.session.session import MqttSession, native_id
from pubweave.core.vocabulary.rare_branches import Branch, sometimes


class MqttSessionTable:
    """Sessions by name, from their first Connect until they expire."""

    def __init__(
        self,
        services: MqttServices,
        link: InProcessLink,
    ) -> None:
        self._services = services
        self._config = services.config
        self._link = link
        self.by_name: dict[str, MqttSession] = {}
        self.qos0_dropped = 0
        """QoS 0 publications dropped by sessions that have ended."""
        self.dropped = self.overrun = 0
        """QoS 1 and 2 publications lost with sessions that exceeded their limits, and the number of
        these sessions."""
        self.gaps = 0
        """Gaps in what sessions were sent, of which no broker had told."""
        self.lost = 0
        """Persistent sessions that ended because the broker ended their native clients."""
        self.budget = QueueBudget(self._config.queues_bytes)
        self._timers: list[tuple[float, str]] = []

    def superseded(self, name: str, by: MqttConnection) -> MqttConnection | None:
        """The connection of a session that another connection takes over; None if there is none."""
        session = self.by_name.get(name)
        if session is None or session.connection is by:
            return None
        return session.connection

    def begin(
        self,
        name: str,
        client_id: str,
        user: str,
        now: float,
        *,
        can_move: bool = True,
        returns: bool = False,
    ) -> MqttSession:
        """A new session with a native client; ``returns``: it was at another gateway.

        The native id contains the broker: what a client published at one broker may still be on
        its way while it publishes at another, and must not make that look like duplicates."""
        access = self._services.sessions.access
        session = MqttSession(name, client_id, user, self._config, self.budget, access)
        session.routes_whole_topics = self._services.routes_whole_topics
        id_ = native_id(name, self._services.broker)
        session.end = self._link.open(id_, user, name, now, can_move=can_move, returns=returns)
        self.by_name[name] = session
        return session

    def attach(self, session: MqttSession, connection: MqttConnection, now: float) -> None:
        """A client has connected; the will of its last connection is void."""
        session.connection = connection
        connection.session = session
        session.will_at = session.expires_at = None
        session.since = now

    def disconnected(self, session: MqttSession, now: float) -> bool:
        """The client has disconnected; True if the session ends with that."""
        session.connection_lost()
        if not session.expiry_s or session.end is None:
            self.end(session, now)
            return True
        session.expires_at = now + session.expiry_s
        self._set_timer(session.expires_at, session.name)
        if session.will is not None and not session.will.delay_s:
            session.publish_will(now)
        elif session.will is not None:
            session.will_at = now + min(session.will.delay_s, session.expiry_s)
            self._set_timer(session.will_at, session.name)
        return False

    def await_client(self, session: MqttSession, now: float) -> None:
        """A session is here before its client is."""
        session.expires_at = now + session.expiry_s
        self._set_timer(session.expires_at, session.name)

    def end(self, session: MqttSession, now: float) -> None:
        """Forget a session; a will that waits is published before that."""
        del self.by_name[session.name]
        self.qos0_dropped += session.qos0_dropped
        session.inflight.close()
        if session.connection is not None:
            session.connection.session = None
        if session.end is not None:
            session.publish_will(now)
            session.end.leave()

    def native_lost(self, session: MqttSession) -> None:
        """The broker has ended the native client of a session, which must end, too: count what is
        lost with it."""
        connection = session.connection
        is_begun = connection is None or connection.is_accepted
        if session.expiry_s and is_begun:
            self.lost += 1
            self.dropped += session.inflight.lost + len(session.held or ())
        session.end, session.will, session.expiry_s = None, None, 0

    def overrunning(self) -> list[MqttSession]:
        """Sessions that exceeded their limits since the last call; each is counted and must be
        ended. O(1) if there are none."""
        self._note_largest()
        found = [s for name in self.budget.overrun if (s := self.by_name.get(name)) is not None]
        self.budget.overrun.clear()
        self.overrun += len(found)
        self.dropped += sum(session.inflight.lost + len(session.held or ()) for session in found)
        return found

    def _note_largest(self) -> None:
        """If all sessions together exceed their limit, end the largest: these are the fewest, and
        small ones do not suffer. O(n log n) then."""
        excess = self.budget.size_bytes - self._config.queues_bytes
        if excess <= 0:
            return
        for session in sorted(
            self.by_name.values(), key=lambda s: (-s.inflight.size_bytes, s.name)
        ):
            if excess <= 0:
                return
            self.budget.overrun[session.name] = None
            excess -= session.inflight.size_bytes

    # --- time ------------------------------------------------------------------------------

    def _set_timer(self, at: float, name: str) -> None:
        heapq.heappush(self._timers, (at, name))
        self._note_deadline()

    def _note_deadline(self) -> None:
        self._services.deadlines.set("sessions", self._timers[0][0] if self._timers else inf)

    def excuse(self, seconds: float) -> None:
        """Extend expiry and will delays by a local pause."""
        for session in self.by_name.values():
            if session.expires_at is not None:
                session.expires_at += seconds
            if session.will_at is not None:
                session.will_at += seconds
        self._timers = [(at + seconds, name) for at, name in self._timers]
        self._note_deadline()

    def on_deadline(self, now: float) -> list[MqttSession]:
        """Publish wills that are due; the sessions that ended."""
        ended = []
        while self._timers and self._timers[0][0] <= now:
            _, name = heapq.heappop(self._timers)
            session = self.by_name.get(name)
            if session is None:
                continue
            if session.will_at is not None and session.will_at <= now:
                session.publish_will(now)
            if session.expires_at is not None and session.expires_at <= now:
                sometimes(Branch.SESSION_EXPIRED)
                self.end(session, now)
                ended.append(session)
        self._note_deadline()
        return ended

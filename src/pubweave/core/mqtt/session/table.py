"""The session table of one gateway: sessions by name, their wills and expiry."""

from __future__ import annotations

import heapq
from math import inf

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.session.connection import MqttConnection
from pubweave.core.mqtt.session.inflight import QueueBudget
from pubweave.core.mqtt.session.native_client import InProcessLink
from pubweave.core.mqtt.session.session import MqttSession, native_id
from pubweave.core.session.access import Access
from pubweave.model.ids import BrokerId

UNNOTIFIED_MAX = 100_000


class MqttSessionTable:
    """Sessions by name, from their first Connect until they expire."""

    def __init__(
        self,
        broker: BrokerId,
        config: MqttConfig,
        link: InProcessLink,
        access: Access,
        *,
        routes_whole_topics: bool = False,
    ) -> None:
        self._routes_whole_topics = routes_whole_topics
        self._broker = broker
        self._config = config
        self._link = link
        self._access = access
        self._by_name: dict[str, MqttSession] = {}
        self.qos0_dropped = 0
        """QoS 0 publications dropped by sessions that have ended."""
        self.dropped = self.overrun = 0
        """QoS 1 and 2 publications lost with sessions that exceeded their limits, and the number of
        these sessions."""
        self.lost = 0
        """Persistent sessions that ended because the broker ended their native clients."""
        self._budget = QueueBudget()
        self._overrun: dict[str, None] = {}
        self._unnotified: dict[str, None] = {}
        """Sessions that exceeded their limits, and whose clients may not know yet."""
        self._timers: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._by_name)

    def all(self) -> list[MqttSession]:
        return list(self._by_name.values())

    def get(self, name: str) -> MqttSession | None:
        return self._by_name.get(name)

    def for_connection(self, connection: MqttConnection) -> MqttSession | None:
        """The session that a connection is attached to."""
        return self._by_name.get(connection.session) if connection.session else None

    def superseded(self, name: str, by: MqttConnection) -> MqttConnection | None:
        """The connection of a session that another connection takes over; None if there is none."""
        session = self._by_name.get(name)
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
        session = MqttSession(name, client_id, user, self._config, self._overrun, self._budget)
        session.routes_whole_topics = self._routes_whole_topics
        id_ = native_id(name, self._broker)
        session.end = self._link.open(id_, user, name, now, can_move=can_move, returns=returns)
        self._by_name[name] = session
        return session

    def attach(self, session: MqttSession, connection: MqttConnection, now: float) -> None:
        """A client has connected; the will of its last connection is void."""
        session.connection = connection
        connection.session = session.name
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
            self._publish_will(session, now)
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
        del self._by_name[session.name]
        self.qos0_dropped += session.qos0_dropped
        session.inflight.close()
        end = session.end
        if end is None:
            return
        self._publish_will(session, now)
        self._link.leave(end)

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
        found = [s for name in self._overrun if (s := self._by_name.get(name)) is not None]
        self._overrun.clear()
        self.overrun += len(found)
        self.dropped += sum(session.inflight.lost + len(session.held or ()) for session in found)
        for session in found:
            self._unnotified[session.name] = None
            if len(self._unnotified) > UNNOTIFIED_MAX:
                del self._unnotified[next(iter(self._unnotified))]
        return found

    def _note_largest(self) -> None:
        """If all sessions together exceed their limit, end the largest: these are the fewest, and
        small ones do not suffer. O(n log n) then."""
        excess = self._budget.size_bytes - self._config.queues_bytes
        if excess <= 0:
            return
        for session in sorted(self.all(), key=lambda s: (-s.inflight.size_bytes, s.name)):
            if excess <= 0:
                return
            self._overrun[session.name] = None
            excess -= session.inflight.size_bytes

    def is_unnotified(self, name: str) -> bool:
        """Whether a client may not know yet that its session exceeded its limits and ended."""
        return name in self._unnotified

    def confirmed(self, session: MqttSession) -> None:
        """A client has sent a packet in its session, so it has received ConnAck."""
        session.is_confirmed = True
        self._unnotified.pop(session.name, None)

    def _publish_will(self, session: MqttSession, now: float) -> None:
        session.publish_will(self._access.publish_rights(session.user), now)
        if session.end is not None:
            self._link.touch(session.end)

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        return self._timers[0][0] if self._timers else inf

    def missed(self, count: int) -> None:
        """Publications for a session were lost before they reached it."""
        self.dropped += count

    def _set_timer(self, at: float, name: str) -> None:
        heapq.heappush(self._timers, (at, name))

    def excuse(self, seconds: float) -> None:
        """Extend expiry and will delays by a local pause."""
        for session in self.all():
            if session.expires_at is not None:
                session.expires_at += seconds
            if session.will_at is not None:
                session.will_at += seconds
        self._timers = [(at + seconds, name) for at, name in self._timers]

    def on_deadline(self, now: float) -> list[MqttSession]:
        """Publish wills that are due; the sessions that ended."""
        ended = []
        while self._timers and self._timers[0][0] <= now:
            _, name = heapq.heappop(self._timers)
            session = self._by_name.get(name)
            if session is None:
                continue
            if session.will_at is not None and session.will_at <= now:
                self._publish_will(session, now)
            if session.expires_at is not None and session.expires_at <= now:
                self.end(session, now)
                ended.append(session)
        return ended

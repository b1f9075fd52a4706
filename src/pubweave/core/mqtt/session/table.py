"""The MQTT sessions of one door: who is attached to which, wills and expiry."""

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

UNTOLD_MAX = 100_000


class MqttSessionTable:
    """Sessions by name, from their first Connect until they expire."""

    def __init__(
        self,
        broker: BrokerId,
        config: MqttConfig,
        loop: InProcessLink,
        access: Access,
        *,
        routes_whole_topics: bool = False,
    ) -> None:
        self._routes_whole_topics = routes_whole_topics
        self._broker = broker
        self._config = config
        self._loop = loop
        self._access = access
        self._by_name: dict[str, MqttSession] = {}
        self.qos0_dropped = 0
        """QoS 0 publications that sessions which are over had to drop."""
        self.dropped = self.overrun = 0
        """QoS 1 and 2 publications that were lost with sessions that got more than they may keep,
        and how many sessions that were."""
        self.lost = 0
        """Sessions that were to last, and ended because the broker let their native clients go."""
        self._tally = QueueBudget()
        self._overrun: dict[str, None] = {}
        self._untold: dict[str, None] = {}
        """Sessions that were ended so, and whose clients may not know it yet."""
        self._alarms: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._by_name)

    def all(self) -> list[MqttSession]:
        return list(self._by_name.values())

    def get(self, name: str) -> MqttSession | None:
        return self._by_name.get(name)

    def of(self, connection: MqttConnection) -> MqttSession | None:
        """The session that a connection is attached to."""
        return self._by_name.get(connection.session) if connection.session else None

    def superseded(self, name: str, by: MqttConnection) -> MqttConnection | None:
        """The connection of a session whose place another is about to take."""
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
        """A new session, with a native client of its own; ``returns``: it was at another door.

        Its name has the broker's in it: what a client published at one broker may be under way
        still while it publishes at another, and is no older copy of that."""
        session = MqttSession(name, client_id, user, self._config, self._overrun, self._tally)
        session.routes_whole_topics = self._routes_whole_topics
        id_ = native_id(name, self._broker)
        session.end = self._loop.open(id_, user, name, now, can_move=can_move, returns=returns)
        self._by_name[name] = session
        return session

    def attach(self, session: MqttSession, connection: MqttConnection, now: float) -> None:
        """A client has come (back); the will of its last connection is void."""
        session.connection = connection
        connection.session = session.name
        session.will_at = session.expires_at = None
        session.since = now

    def left(self, session: MqttSession, now: float) -> bool:
        """The client is gone; True if that was the session's end as well."""
        session.connection_lost()
        if not session.expiry_s or session.end is None:
            self.end(session, now)
            return True
        session.expires_at = now + session.expiry_s
        self._watch(session.expires_at, session.name)
        if session.will is not None and not session.will.delay_s:
            self._publish_will(session, now)
        elif session.will is not None:
            session.will_at = now + min(session.will.delay_s, session.expiry_s)
            self._watch(session.will_at, session.name)
        return False

    def await_client(self, session: MqttSession, now: float) -> None:
        """A session is here before its client is."""
        session.expires_at = now + session.expiry_s
        self._watch(session.expires_at, session.name)

    def end(self, session: MqttSession, now: float) -> None:
        """Forget a session; a will that waits is published before that."""
        del self._by_name[session.name]
        self.qos0_dropped += session.qos0_dropped
        session.outbox.close()
        end = session.end
        if end is None:
            return
        self._publish_will(session, now)
        self._loop.leave(end)

    def let_go(self, session: MqttSession) -> None:
        """The broker has ended the native client of a session, which has to end, too: count what
        is lost with it."""
        connection = session.connection
        is_begun = connection is None or connection.is_accepted
        if session.expiry_s and is_begun:
            self.lost += 1
            self.dropped += session.outbox.lost + len(session.held or ())
        session.end, session.will, session.expiry_s = None, None, 0

    def overrunning(self) -> list[MqttSession]:
        """Sessions that got more than they may keep since this was last asked; each is counted and
        must be ended. O(1) if there are none."""
        self._note_largest()
        found = [s for name in self._overrun if (s := self._by_name.get(name)) is not None]
        self._overrun.clear()
        self.overrun += len(found)
        self.dropped += sum(session.outbox.lost + len(session.held or ()) for session in found)
        for session in found:
            self._untold[session.name] = None
            if len(self._untold) > UNTOLD_MAX:
                del self._untold[next(iter(self._untold))]
        return found

    def _note_largest(self) -> None:
        """Where all sessions together have too much, those with the most have to end: that are the
        fewest, and none that keeps little suffers for it. O(n log n) then."""
        excess = self._tally.size_bytes - self._config.queues_bytes
        if excess <= 0:
            return
        for session in sorted(self.all(), key=lambda s: (-s.outbox.size_bytes, s.name)):
            if excess <= 0:
                return
            self._overrun[session.name] = None
            excess -= session.outbox.size_bytes

    def is_untold(self, name: str) -> bool:
        """Whether the client of a session that was ended may not know it yet."""
        return name in self._untold

    def confirmed(self, session: MqttSession) -> None:
        """A client has said something in its session: it knows what became of the one before."""
        session.is_confirmed = True
        self._untold.pop(session.name, None)

    def _publish_will(self, session: MqttSession, now: float) -> None:
        session.publish_will(self._access.publish_rights(session.user), now)
        if session.end is not None:
            self._loop.touch(session.end)

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        return self._alarms[0][0] if self._alarms else inf

    def missed(self, count: int) -> None:
        """Publications were lost to a session before they came to it."""
        self.dropped += count

    def _watch(self, at: float, name: str) -> None:
        heapq.heappush(self._alarms, (at, name))

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long: no client could come back in that time."""
        for session in self.all():
            if session.expires_at is not None:
                session.expires_at += seconds
            if session.will_at is not None:
                session.will_at += seconds
        self._alarms = [(at + seconds, name) for at, name in self._alarms]

    def on_deadline(self, now: float) -> list[MqttSession]:
        """Publish wills that are due; the sessions that ended."""
        ended = []
        while self._alarms and self._alarms[0][0] <= now:
            _, name = heapq.heappop(self._alarms)
            session = self._by_name.get(name)
            if session is None:
                continue
            if session.will_at is not None and session.will_at <= now:
                self._publish_will(session, now)
            if session.expires_at is not None and session.expires_at <= now:
                self.end(session, now)
                ended.append(session)
        return ended

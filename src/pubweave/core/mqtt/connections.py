"""Clients that come to a door and go: connections, from the first byte to the last.

A client may have to wait before it is let in: for its password to be compared, or for its session
to come from another door. What it says meanwhile waits with it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import inf

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.cluster.handover import SessionHandover
from pubweave.core.mqtt.connect import ConnectHandler
from pubweave.core.mqtt.session.connection import MqttConnection, MqttError
from pubweave.core.mqtt.session.native_client import InProcessLink
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.core.session.access import Access
from pubweave.core.session.session import RemoteProtocolError
from pubweave.core.vocabulary.effects import CloseConnection, Effect, TransmitPackets
from pubweave.core.vocabulary.events import (
    ConnectionId,
    LoginReceived,
    MqttOpened,
    PasswordVerified,
)
from pubweave.model.mqtt_packets import ConnAck, Connect, Disconnect, FromClient, Reason

EARLY_PACKETS_MAX = 100
"""What a client may say before it is let in."""


class ConnectionTable:
    """The connections of one door, and who of them is in which session."""

    def __init__(
        self,
        config: MqttConfig,
        access: Access,
        loop: InProcessLink,
        sessions: MqttSessionTable,
        doors: GatewayGossip,
        moving: SessionHandover,
        connecting: ConnectHandler,
    ) -> None:
        self.on_early: Callable[[MqttConnection, list[FromClient], float], None]
        """Gets what a client said before it was let in."""
        self.on_leaving: Callable[[MqttSession, float], None]
        """Hears of sessions that are about to lose their connections."""
        self.elsewhere: Callable[[str, float], str]
        """Where a client may try that is not let in, by its session's name; empty: nowhere."""
        self.is_leaving: Callable[[], bool]
        """Whether the broker leaves the overlay."""
        self.effects: list[Effect] = []
        """Those of the event that is being handled."""
        self.connections: dict[ConnectionId, MqttConnection] = {}
        self._config = config
        self._access = access
        self._loop = loop
        self._sessions = sessions
        self._doors = doors
        self._moving = moving
        self._connecting = connecting
        self._speaking: dict[ConnectionId, None] = {}
        self._closing: dict[ConnectionId, str] = {}
        self._waiting: dict[str, tuple[ConnectionId, str]] = {}
        """Sessions on their way here: who waits for one, and the client's id."""
        self._alarms: list[tuple[float, ConnectionId]] = []
        """When a connection may have been silent for too long."""

    def opened(self, event: MqttOpened, now: float) -> None:
        connection = MqttConnection(event.connection, now, self._speaking)
        self.connections[event.connection] = connection
        self._access.opened(event.connection, event.certified)
        self._watch(event.connection, now + self._config.connect_limit_s)

    def is_closing(self, connection: MqttConnection) -> bool:
        return connection.number in self._closing

    def flush(self, effects: list[Effect]) -> None:
        """Send what was said in this event, and hang up where that is due."""
        for number in self._speaking:
            connection = self.connections.get(number)
            if connection is not None:
                effects.append(TransmitPackets(number, connection.said()))
        self._speaking.clear()
        for number, reason in self._closing.items():
            effects.append(CloseConnection(number, reason))
        self._closing.clear()

    # --- coming ----------------------------------------------------------------------------

    def first_packet(self, connection: MqttConnection, packet: FromClient, now: float) -> None:
        """A packet of a client that is not in yet. MqttError: it cannot be."""
        if connection.connect is None:
            if not isinstance(packet, Connect):
                raise MqttError(Reason.PROTOCOL_ERROR, "the first packet must be Connect")
            connection.begin(packet, self._config.topic_alias_max)
            if not self._access.is_waiting(connection.number):
                self._greet(connection, packet, now)
        elif connection.connect.authentication_method is not None:
            # [MQTT-3.1.2-30]; what belongs to the authentication stays with the driver.
            if isinstance(packet, Disconnect):
                self.close(connection, "the client disconnected", now)
                return
            raise MqttError(Reason.PROTOCOL_ERROR, "the authentication is not over")
        elif len(connection.early) >= EARLY_PACKETS_MAX:
            raise MqttError(Reason.QUOTA_EXCEEDED, "too much is said before the answer to Connect")
        else:
            connection.early.append(packet)

    def login(
        self, connection: MqttConnection, event: LoginReceived | PasswordVerified, now: float
    ) -> None:
        """A password is being compared, or has been; Connect waits for it."""
        self._access.note(event, self.effects)
        try:
            self._access.admit(connection.number, ())
        except RemoteProtocolError as error:
            self.refuse(connection, MqttError(Reason.BAD_USER_NAME_OR_PASSWORD, str(error)), now)
            return
        connect = connection.connect
        if connect is not None and not self._access.is_waiting(connection.number):
            self._greet(connection, connect, now)

    def _greet(self, connection: MqttConnection, connect: Connect, now: float) -> None:
        """It is known who comes: let whoever was in the session go, here and elsewhere."""
        try:
            name, client_id = self._connecting.name_of(connection, connect, now)
        except MqttError as error:
            self.refuse(connection, error, now)
            return
        if self.is_leaving() and self._doors.another_for(name):
            # Before it fetches its session from where it has just been brought.
            self._send_on(connection, name, now)
            return
        text = "another client has connected with this id"
        taken_over = MqttError(Reason.SESSION_TAKEN_OVER, text)
        superseded = self._sessions.superseded(name, connection)
        if superseded is not None:
            self.end(superseded, taken_over, now)
        waiting = self.connections.get(self._waiting.pop(name, (0, ""))[0])
        if waiting is not None:
            self.refuse(waiting, taken_over, now)
        if connect.client_id and self._moving.claim(name, now, is_clean=connect.clean_start):
            self._waiting[name] = connection.number, client_id
        else:
            self._let_in(connection, name, client_id, now)

    def session_arrived(self, name: str, now: float) -> None:
        """A session is here from another door, or will not come."""
        number, client_id = self._waiting.pop(name, (0, ""))
        connection = self.connections.get(number)
        if connection is None or self.is_closing(connection):
            return
        self._let_in(connection, name, client_id, now)

    def session_late(self, name: str, now: float) -> None:
        """A session is not complete yet, and its client has waited long enough."""
        connection = self.connections.get(self._waiting.pop(name, (0, ""))[0])
        if connection is not None and not self.is_closing(connection):
            text = "its session is still on its way here: try again"
            self.refuse(connection, MqttError(Reason.SERVER_BUSY, text), now)

    def _let_in(self, connection: MqttConnection, name: str, client_id: str, now: float) -> None:
        connect = connection.connect
        assert connect is not None
        before = self._sessions.get(name)
        if before is not None and connect.clean_start:
            self._sessions.end(before, now)
            self.over(before, now)
        session, answer = self._connecting.attach(connection, connect, name, client_id, now)
        self._loop.turn(self.effects, now)
        if session.end is None:
            self._send_on(connection, name, now)
            return
        if not connection.say(answer):
            self.close(connection, "it takes no packet as long as the answer", now)
            return
        connection.is_accepted = True
        self._doors.session_changed(session)
        self._moving.holds(session, now)
        if connection.silent_at is not None:
            self._watch(connection.number, connection.silent_at)
        session.resend(now)
        early, connection.early = connection.early, []
        if early:
            self.on_early(connection, early, now)

    def _send_on(self, connection: MqttConnection, name: str, now: float) -> None:
        """The broker lets nobody in any more: perhaps another does."""
        address = self.elsewhere(name, now) if connection.is_v5 else ""
        reason = Reason.USE_ANOTHER_SERVER if address else Reason.SERVER_BUSY
        text = "the broker takes no further clients"
        self.refuse(connection, MqttError(reason, text, address or None), now)

    # --- going -----------------------------------------------------------------------------

    def refuse(self, connection: MqttConnection, error: MqttError, now: float) -> None:
        """The answer to Connect is no; a client without room for it is told nothing."""
        answer = ConnAck(
            error.reason,
            reason_text=connection.problem(str(error)),
            server_reference=error.server_reference,
        )
        connection.say(answer)
        self.close(connection, str(error), now)

    def end(self, connection: MqttConnection, error: MqttError, now: float) -> None:
        """Close a connection, saying why where the client understands it."""
        if not connection.is_accepted:
            if connection.connect is None:
                self.close(connection, str(error), now)
            else:
                self.refuse(connection, error, now)
            return
        if connection.is_v5 and not self.is_closing(connection):
            text = connection.problem(str(error))
            reference = error.server_reference
            connection.say(Disconnect(error.reason, None, text, reference))
        self.close(connection, str(error), now)

    def end_overrun(self, session: MqttSession, now: float) -> None:
        """More has come for a session than it may keep. What was acknowledged to its publishers
        is not dropped in secret: the session is over, and its client hears of it, now or by the
        answer to its next Connect."""
        text = "more waits for this session than it, or all together, may keep"
        self.end_session(session, MqttError(Reason.QUOTA_EXCEEDED, text), now)

    def end_session(self, session: MqttSession, error: MqttError, now: float) -> None:
        """A session is over, whether its client is here or not; it hears why if it is."""
        session.expiry_s = 0
        if session.connection is None:
            self._sessions.end(session, now)
            self.over(session, now)
            return
        self.end(session.connection, error, now)

    def close(self, connection: MqttConnection, reason: str, now: float) -> None:
        if connection.number not in self._closing:
            self._closing[connection.number] = reason
            self._leave(connection, now)

    def closed(self, connection: MqttConnection, now: float) -> None:
        """A connection is gone, whoever ended it."""
        self._access.closed(connection.number)
        del self.connections[connection.number]
        self._leave(connection, now)

    def _leave(self, connection: MqttConnection, now: float) -> None:
        """The session goes on without a client, for as long as it may."""
        session = self._sessions.of(connection)
        connection.session = ""
        if session is None:
            return
        self.on_leaving(session, now)
        if self._sessions.left(session, now):
            self.over(session, now)
        else:
            self._doors.session_changed(session)

    def over(self, session: MqttSession, now: float) -> None:
        """A session is no more."""
        self._doors.session_changed(session, is_over=True)
        self._moving.over(session, now)

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        return self._alarms[0][0] if self._alarms else inf

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long: nobody has been silent for that time."""
        for connection in self.connections.values():
            connection.heard_at += seconds
        self._alarms = [(at + seconds, number) for at, number in self._alarms]

    def on_deadline(self, now: float) -> None:
        while self._alarms and self._alarms[0][0] <= now:
            _, number = heapq.heappop(self._alarms)
            connection = self.connections.get(number)
            if connection is not None and not self.is_closing(connection):
                self._look_at(connection, now)

    def _watch(self, number: ConnectionId, at: float) -> None:
        heapq.heappush(self._alarms, (at, number))

    def _look_at(self, connection: MqttConnection, now: float) -> None:
        if connection.connect is None:
            self.close(connection, "no Connect in time", now)
            return
        if not connection.is_accepted and connection.connect.authentication_method is not None:
            error = MqttError(Reason.NOT_AUTHORIZED, "the authentication took too long")
            self.end(connection, error, now)
            return
        silent_at = connection.silent_at
        if silent_at is None:
            return
        if silent_at > now:
            self._watch(connection.number, silent_at)
        else:
            error = MqttError(Reason.KEEP_ALIVE_TIMEOUT, "silent for too long")
            self.end(connection, error, now)

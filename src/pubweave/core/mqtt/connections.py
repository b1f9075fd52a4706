"""The connection table: MQTT connections from the first packet to the last, and keep-alive.

A client may have to wait before its Connect is accepted: until its password is verified, or until
its session arrives from another gateway. Packets that it sends meanwhile wait, too.
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
"""Packets that a client may send before its Connect is accepted."""


class ConnectionTable:
    """The connections of one gateway, with session takeover and timeouts."""

    def __init__(
        self,
        config: MqttConfig,
        access: Access,
        link: InProcessLink,
        sessions: MqttSessionTable,
        gossip: GatewayGossip,
        handover: SessionHandover,
        connect_handler: ConnectHandler,
    ) -> None:
        self.on_early: Callable[[MqttConnection, list[FromClient], float], None]
        """Called with the packets that a client sent before its Connect was accepted."""
        self.on_leaving: Callable[[MqttSession, float], None]
        """Called before a session loses its connection."""
        self.elsewhere: Callable[[str, float], str]
        """The address of another gateway for a client that is refused, by session name, or
        empty."""
        self.is_leaving: Callable[[], bool]
        """Whether the broker is leaving the overlay."""
        self.effects: list[Effect] = []
        """Of the current event."""
        self.by_number: dict[ConnectionId, MqttConnection] = {}
        self._config = config
        self._access = access
        self._link = link
        self._sessions = sessions
        self._gossip = gossip
        self._handover = handover
        self._connect_handler = connect_handler
        self._has_output: dict[ConnectionId, None] = {}
        self._closing: dict[ConnectionId, str] = {}
        self._awaiting_session: dict[str, tuple[ConnectionId, str]] = {}
        """By session on its way here: the connection that waits for it, and the client id."""
        self._timers: list[tuple[float, ConnectionId]] = []
        """When to check connections for timeouts."""

    def opened(self, event: MqttOpened, now: float) -> None:
        connection = MqttConnection(event.connection, now, self._has_output)
        self.by_number[event.connection] = connection
        self._access.opened(event.connection, event.certified)
        self._set_timer(event.connection, now + self._config.connect_limit_s)

    def is_closing(self, connection: MqttConnection) -> bool:
        return connection.number in self._closing

    def flush(self, effects: list[Effect]) -> None:
        """Send the packets of this event, then close the connections that are to be closed."""
        for number in self._has_output:
            connection = self.by_number.get(number)
            if connection is not None:
                effects.append(TransmitPackets(number, connection.pop_packets()))
        self._has_output.clear()
        for number, reason in self._closing.items():
            effects.append(CloseConnection(number, reason))
        self._closing.clear()

    # --- connecting ------------------------------------------------------------------------

    def first_packet(self, connection: MqttConnection, packet: FromClient, now: float) -> None:
        """A packet before ConnAck. MqttError if it may not come now."""
        if connection.connect is None:
            if not isinstance(packet, Connect):
                raise MqttError(Reason.PROTOCOL_ERROR, "the first packet must be Connect")
            connection.begin(packet, self._config.topic_alias_max)
            if not self._access.is_waiting(connection.number):
                self._begin_session(connection, packet, now)
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
        """A password is being verified, or has been; Connect waits for it."""
        self._access.note(event, self.effects)
        try:
            self._access.admit(connection.number, ())
        except RemoteProtocolError as error:
            self.refuse(connection, MqttError(Reason.BAD_USER_NAME_OR_PASSWORD, str(error)), now)
            return
        connect = connection.connect
        if connect is not None and not self._access.is_waiting(connection.number):
            self._begin_session(connection, connect, now)

    def _begin_session(self, connection: MqttConnection, connect: Connect, now: float) -> None:
        """The client is authenticated: end older connections of its session, here and elsewhere."""
        try:
            name, client_id = self._connect_handler.identify(connection, connect, now)
        except MqttError as error:
            self.refuse(connection, error, now)
            return
        if self.is_leaving() and self._gossip.gateway_for(name):
            # Before it claims its session from the gateway that has just received it.
            self._refer_elsewhere(connection, name, now)
            return
        text = "another client has connected with this id"
        taken_over = MqttError(Reason.SESSION_TAKEN_OVER, text)
        superseded = self._sessions.superseded(name, connection)
        if superseded is not None:
            self.end(superseded, taken_over, now)
        waiting = self.by_number.get(self._awaiting_session.pop(name, (0, ""))[0])
        if waiting is not None:
            self.refuse(waiting, taken_over, now)
        if connect.client_id and self._handover.claim(name, now, is_clean=connect.clean_start):
            self._awaiting_session[name] = connection.number, client_id
        else:
            self._accept(connection, name, client_id, now)

    def session_arrived(self, name: str, now: float) -> None:
        """A session has arrived from another gateway, or will not."""
        number, client_id = self._awaiting_session.pop(name, (0, ""))
        connection = self.by_number.get(number)
        if connection is None or self.is_closing(connection):
            return
        self._accept(connection, name, client_id, now)

    def session_late(self, name: str, now: float) -> None:
        """The handover of a session takes too long: the client is to try again."""
        connection = self.by_number.get(self._awaiting_session.pop(name, (0, ""))[0])
        if connection is not None and not self.is_closing(connection):
            text = "its session is still on its way here: try again"
            self.refuse(connection, MqttError(Reason.SERVER_BUSY, text), now)

    def _accept(self, connection: MqttConnection, name: str, client_id: str, now: float) -> None:
        connect = connection.connect
        assert connect is not None
        before = self._sessions.get(name)
        if before is not None and connect.clean_start:
            self._sessions.end(before, now)
            self.session_ended(before, now)
        session, answer = self._connect_handler.attach(connection, connect, name, client_id, now)
        self._link.run(self.effects, now)
        if session.end is None:
            self._refer_elsewhere(connection, name, now)
            return
        if not connection.send(answer):
            self.close(connection, "it takes no packet as long as the answer", now)
            return
        connection.is_accepted = True
        self._gossip.session_changed(session)
        self._handover.announce(session, now)
        if connection.silent_at is not None:
            self._set_timer(connection.number, connection.silent_at)
        session.resend(now)
        early, connection.early = connection.early, []
        if early:
            self.on_early(connection, early, now)

    def _refer_elsewhere(self, connection: MqttConnection, name: str, now: float) -> None:
        """This broker accepts no further clients: refer the client to another gateway, if any."""
        address = self.elsewhere(name, now) if connection.is_v5 else ""
        reason = Reason.USE_ANOTHER_SERVER if address else Reason.SERVER_BUSY
        text = "the broker takes no further clients"
        self.refuse(connection, MqttError(reason, text, address or None), now)

    # --- closing ---------------------------------------------------------------------------

    def refuse(self, connection: MqttConnection, error: MqttError, now: float) -> None:
        """Answer Connect with an error, if the answer fits the client's packet limit, and close."""
        answer = ConnAck(
            error.reason,
            reason_text=connection.reason_text(str(error)),
            server_reference=error.server_reference,
        )
        connection.send(answer)
        self.close(connection, str(error), now)

    def end(self, connection: MqttConnection, error: MqttError, now: float) -> None:
        """Close a connection, with a reason if the client's version has one."""
        if not connection.is_accepted:
            if connection.connect is None:
                self.close(connection, str(error), now)
            else:
                self.refuse(connection, error, now)
            return
        if connection.is_v5 and not self.is_closing(connection):
            text = connection.reason_text(str(error))
            reference = error.server_reference
            connection.send(Disconnect(error.reason, None, text, reference))
        self.close(connection, str(error), now)

    def end_overrun(self, session: MqttSession, now: float) -> None:
        """A session exceeds its queue limit. Acknowledged publications are not dropped in secret:
        the session ends, and its client is told, now or by the answer to its next Connect."""
        text = "more waits for this session than it, or all together, may keep"
        self.end_session(session, MqttError(Reason.QUOTA_EXCEEDED, text), now)

    def end_session(self, session: MqttSession, error: MqttError, now: float) -> None:
        """End a session; a connected client is told why."""
        session.expiry_s = 0
        if session.connection is None:
            self._sessions.end(session, now)
            self.session_ended(session, now)
            return
        self.end(session.connection, error, now)

    def close(self, connection: MqttConnection, reason: str, now: float) -> None:
        if connection.number not in self._closing:
            self._closing[connection.number] = reason
            self._detach(connection, now)

    def closed(self, connection: MqttConnection, now: float) -> None:
        """A connection was closed, by either end."""
        self._access.closed(connection.number)
        del self.by_number[connection.number]
        self._detach(connection, now)

    def _detach(self, connection: MqttConnection, now: float) -> None:
        """Disconnect the session; it may outlive the connection until it expires."""
        session = self._sessions.for_connection(connection)
        connection.session = ""
        if session is None:
            return
        self.on_leaving(session, now)
        if self._sessions.disconnected(session, now):
            self.session_ended(session, now)
        else:
            self._gossip.session_changed(session)

    def session_ended(self, session: MqttSession, now: float) -> None:
        """Tell other gateways that a session has ended."""
        self._gossip.session_changed(session, is_over=True)
        self._handover.session_ended(session, now)

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        return self._timers[0][0] if self._timers else inf

    def excuse(self, seconds: float) -> None:
        """Extend all timeouts by a local pause."""
        for connection in self.by_number.values():
            connection.heard_at += seconds
        self._timers = [(at + seconds, number) for at, number in self._timers]

    def on_deadline(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            _, number = heapq.heappop(self._timers)
            connection = self.by_number.get(number)
            if connection is not None and not self.is_closing(connection):
                self._check_timeouts(connection, now)

    def _set_timer(self, number: ConnectionId, at: float) -> None:
        heapq.heappush(self._timers, (at, number))

    def _check_timeouts(self, connection: MqttConnection, now: float) -> None:
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
            self._set_timer(connection.number, silent_at)
        else:
            error = MqttError(Reason.KEEP_ALIVE_TIMEOUT, "silent for too long")
            self.end(connection, error, now)

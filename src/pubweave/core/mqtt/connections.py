"""The connection table: MQTT connections from the first packet to the last, and keep-alive.

A client may have to wait before its Connect is accepted: until its password is verified, or until
its session arrives from another gateway. Packets that it sends meanwhile wait, too.
"""

from __future__ import annotations

import heapq
from math import inf
from typing import Protocol

from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.cluster.handover import SessionHandover
from pubweave.core.mqtt.connect import ConnectHandler
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.connection import MqttConnection, MqttError
from pubweave.core.mqtt.session.native_client import InProcessLink
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.core.session.session import RemoteProtocolError
from pubweave.core.vocabulary.effects import CloseConnection
from pubweave.core.vocabulary.events import (
    ConnectionId,
    LoginReceived,
    MqttOpened,
    PasswordVerified,
)
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.mqtt_packets import ConnAck, Connect, Disconnect, FromClient, Reason

EARLY_PACKETS_MAX = 100
"""Packets that a client may send before its Connect is accepted."""


class ConnectionListener(Protocol):
    """What the connection table asks of the gateway."""

    def received(self, connection: MqttConnection, packets: list[FromClient], now: float) -> None:
        """Handle what a client sent before its Connect was accepted."""

    def detached(self, session: MqttSession, now: float) -> None:
        """A session is about to lose its connection."""

    def elsewhere(self, name: str, now: float) -> str:
        """The address of another gateway for a client that is refused, by session name; empty if
        there is none."""


class ConnectionTable:
    """The connections of one gateway, with session takeover and timeouts."""

    def __init__(
        self,
        services: MqttServices,
        link: InProcessLink,
        sessions: MqttSessionTable,
        gossip: GatewayGossip,
        handover: SessionHandover,
        listener: ConnectionListener,
    ) -> None:
        self.with_output: dict[MqttConnection, None] = {}
        """Connections with packets to send at the end of this event."""
        self.closing: dict[ConnectionId, str] = {}
        """Connections to close then, and why."""
        self.by_number: dict[ConnectionId, MqttConnection] = {}
        self._services = services
        self._listener = listener
        self._config = services.config
        self._access = services.sessions.access
        self._link = link
        self._sessions = sessions
        self._gossip = gossip
        self._handover = handover
        self._connect_handler = ConnectHandler(services, sessions, gossip)
        self._awaiting_session: dict[str, tuple[ConnectionId, str]] = {}
        """By session on its way here: the connection that waits for it, and the client id."""
        self._timers: list[tuple[float, ConnectionId]] = []
        """When to check connections for timeouts."""

    def opened(self, event: MqttOpened, now: float) -> None:
        connection = MqttConnection(event.connection, now, self.with_output)
        self.by_number[event.connection] = connection
        self._access.opened(event.connection, event.certified)
        self._set_timer(event.connection, now + self._config.connect_limit_s)

    def close_all(self) -> None:
        """Close the connections that are to be closed, at the end of the event."""
        for number, reason in self.closing.items():
            self._services.emit(CloseConnection(number, reason))
            connection = self.by_number.get(number)
            if connection is not None:
                connection.is_closing = False
        self.closing.clear()

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
        self._access.note(event, self._services.outgoing.effects)
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
        if self._services.is_leaving() and self._gossip.gateway_for(name):
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
        if connection is None or connection.is_closing:
            return
        self._accept(connection, name, client_id, now)

    def session_late(self, name: str, now: float) -> None:
        """The handover of a session takes too long: the client is to try again."""
        connection = self.by_number.get(self._awaiting_session.pop(name, (0, ""))[0])
        if connection is not None and not connection.is_closing:
            text = "its session is still on its way here: try again"
            self.refuse(connection, MqttError(Reason.SERVER_BUSY, text), now)

    def _accept(self, connection: MqttConnection, name: str, client_id: str, now: float) -> None:
        connect = connection.connect
        assert connect is not None
        before = self._sessions.by_name.get(name)
        if before is not None and connect.clean_start:
            self._sessions.end(before, now)
            self.session_ended(before, now)
        session, answer = self._connect_handler.attach(connection, connect, name, client_id, now)
        if session.end is not None and self._link.greet(session.end, now):
            self._sessions.native_lost(session)
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
            self._listener.received(connection, early, now)

    def _refer_elsewhere(self, connection: MqttConnection, name: str, now: float) -> None:
        """This broker accepts no further clients: refer the client to another gateway, if any."""
        address = self._listener.elsewhere(name, now) if connection.is_v5 else ""
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
        if connection.is_v5 and not connection.is_closing:
            text = connection.reason_text(str(error))
            reference = error.server_reference
            connection.send(Disconnect(error.reason, None, text, reference))
        self.close(connection, str(error), now)

    def end_overrun(self, session: MqttSession, now: float) -> None:
        """A session exceeds its queue limit, or something for it was lost on its way here. That is
        not kept in secret: the session ends, and its client is told, now or by the answer to its
        next Connect."""
        sometimes(Branch.QUEUE_OVERRUN)
        text = "more waits for this session than may, or something for it was lost"
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
        if not connection.is_closing:
            connection.is_closing = True
            self.closing[connection.number] = reason
            self._detach(connection, now)

    def closed(self, connection: MqttConnection, now: float) -> None:
        """A connection was closed, by either end."""
        self._access.closed(connection.number)
        del self.by_number[connection.number]
        self._detach(connection, now)
        self.with_output.pop(connection, None)

    def _detach(self, connection: MqttConnection, now: float) -> None:
        """Disconnect the session; it may outlive the connection until it expires."""
        session, connection.session = connection.session, None
        if session is None:
            return
        self._listener.detached(session, now)
        if self._sessions.disconnected(session, now):
            self.session_ended(session, now)
        else:
            self._gossip.session_changed(session)

    def session_ended(self, session: MqttSession, now: float) -> None:
        """Tell other gateways that a session has ended."""
        self._gossip.session_changed(session, is_over=True)
        self._handover.session_ended(session, now)

    # --- time ------------------------------------------------------------------------------

    def excuse(self, seconds: float) -> None:
        """Extend all timeouts by a local pause."""
        for connection in self.by_number.values():
            connection.heard_at += seconds
        self._timers = [(at + seconds, number) for at, number in self._timers]
        self._note_deadline()

    def on_deadline(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            _, number = heapq.heappop(self._timers)
            connection = self.by_number.get(number)
            if connection is not None and not connection.is_closing:
                self._check_timeouts(connection, now)
        self._note_deadline()

    def _set_timer(self, number: ConnectionId, at: float) -> None:
        heapq.heappush(self._timers, (at, number))
        self._note_deadline()

    def _note_deadline(self) -> None:
        at = self._timers[0][0] if self._timers else inf
        self._services.deadlines.set("connections", at)

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

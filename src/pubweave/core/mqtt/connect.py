"""From Connect to ConnAck: identify the client, find its session, agree on the options."""

from __future__ import annotations

from pubweave.core.mqtt.capabilities import check_publication, why_too_large
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.protocol.topics import is_reserved
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.connection import MqttConnection, MqttError
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.core.session.session import RemoteProtocolError
from pubweave.model.mqtt_packets import VERSION_5, ConnAck, Connect, Reason, Will

AUTHENTICATION_METHOD = "SCRAM-SHA-256"
"""The one that drivers implement, for users with SCRAM credentials."""
CLIENT_ID_BYTES_MAX = 200
NAME_BYTES_MAX = 256
"""The longest id that a native client may have."""


class ConnectHandler:
    """Accepts or refuses the Connect of clients."""

    def __init__(
        self,
        services: MqttServices,
        sessions: MqttSessionTable,
        gossip: GatewayGossip,
    ) -> None:
        self._services = services
        self._config = services.config
        self._access = services.sessions.access
        self._sessions = sessions
        self._gossip = gossip

    def identify(self, connection: MqttConnection, connect: Connect, now: float) -> tuple[str, str]:
        """The session's name and the client's id, which may be assigned. MqttError if refused."""
        method = connect.authentication_method
        is_proven = self._access.is_logged_in(connection.number)
        if method is not None and (method != AUTHENTICATION_METHOD or not is_proven):
            text = f"nobody can be authenticated by {method!r} here"
            raise MqttError(Reason.BAD_AUTHENTICATION_METHOD, text)
        try:
            user = self._access.proven_user(connection.number)
        except RemoteProtocolError as error:
            raise MqttError(Reason.NOT_AUTHORIZED, str(error)) from error
        client_id = connect.client_id or self._assigned(connect, now)
        name = f"{user}/mqtt:{client_id}" if user else f"mqtt:{client_id}"
        native_bytes = len(name) + len(self._services.broker)
        if len(client_id) > CLIENT_ID_BYTES_MAX or native_bytes >= NAME_BYTES_MAX:
            most = CLIENT_ID_BYTES_MAX
            raise MqttError(Reason.CLIENT_ID_NOT_VALID, f"client ids have at most {most} letters")
        self._check_will(connect.will)
        return name, client_id

    def _check_will(self, will: Will | None) -> None:
        if will is None:
            return
        try:
            check_publication(will, will.topic, self._config)
        except MqttError as error:
            raise MqttError(error.reason, f"the will: {error}") from error
        too_large = why_too_large(will, self._config)
        if too_large:
            raise MqttError(Reason.PACKET_TOO_LARGE, f"the will: {too_large}")

    def _assigned(self, connect: Connect, now: float) -> str:
        if not self._config.assigns_client_ids:
            raise MqttError(Reason.CLIENT_ID_NOT_VALID, "clients need an id of their own here")
        if connect.version != VERSION_5 and not connect.clean_start:
            raise MqttError(Reason.CLIENT_ID_NOT_VALID, "a session that is kept needs a client id")
        return f"{self._services.broker}-{self._gossip.new_number(now):x}"

    def attach(
        self, connection: MqttConnection, connect: Connect, name: str, client_id: str, now: float
    ) -> tuple[MqttSession, ConnAck]:
        """Attach a connection to its session; begin a session if there is none."""
        session = self._sessions.by_name.get(name)
        is_present = session is not None and session.is_confirmed
        if session is None:
            user = self._access.proven_user(connection.number)
            can_move = connection.is_v5 and not self._services.routes_whole_topics
            session = self._sessions.begin(name, client_id, user, now, can_move=can_move)
            session.is_confirmed = connect.clean_start
        self._sessions.attach(session, connection, now)
        connection.mark = self._gossip.marks.own
        will = connect.will
        session.will = None if will is None or is_reserved(will.topic) else will
        session.is_bridge = connect.is_bridge
        session.expiry_s = min(connect.session_expiry_s, self._config.session_expiry_max_s)
        self._agree_keep_alive(connection, connect)
        return session, self._answer(connection, connect, session, is_present)

    def _agree_keep_alive(self, connection: MqttConnection, connect: Connect) -> None:
        most = self._config.keep_alive_max_s
        connection.keep_alive_s = connect.keep_alive_s
        if most and connection.is_v5:
            connection.keep_alive_s = min(connect.keep_alive_s or most, most)

    def _answer(
        self, connection: MqttConnection, connect: Connect, session: MqttSession, is_present: bool
    ) -> ConnAck:
        config = self._config
        is_capped = session.expiry_s != connect.session_expiry_s
        is_changed = connection.keep_alive_s != connect.keep_alive_s
        return ConnAck(
            session_present=is_present,
            session_expiry_s=session.expiry_s if is_capped else None,
            assigned_client_id=None if connect.client_id else session.client_id,
            server_keep_alive_s=connection.keep_alive_s if is_changed else None,
            receive_max=config.receive_max,
            topic_alias_max=config.topic_alias_max,
            max_packet_bytes=config.max_packet_bytes,
            takes_retained=config.retains,
            qos_max=config.qos_max,
            authentication_method=connect.authentication_method,
        )

"""Publications of MQTT clients: forwarded to the overlay, or refused.

Publications of a session that echoes (`bridges/loop_probes`) are held for a moment: an echo may be
faster than the overlay, and is recognised only when the overlay's own copy has arrived.
"""

from __future__ import annotations

import contextlib
from collections import deque
from math import inf

import msgspec

from pubweave.core.mqtt.bridges.loop_probes import LoopProbes
from pubweave.core.mqtt.capabilities import check_publication, why_too_large
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.connections import ConnectionTable
from pubweave.core.mqtt.protocol.topics import is_bridge_state, is_reserved
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.connection import MqttConnection, MqttError
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.core.vocabulary.effects import PauseReading
from pubweave.model.mqtt_packets import Publish, Reason

HELD_MAX = 10_000
HELD_BYTES_MAX = 8 << 20
"""What may be held of one session; beyond that, the first is forwarded as new."""


class PossibleEcho(msgspec.Struct, frozen=True):
    """A publication that may be an echo; from ``until`` on it counts as new."""

    packet: Publish
    topic: str
    until: float


class HeldPackets:
    """The held publications of one session, in order."""

    def __init__(self) -> None:
        self.packets: deque[PossibleEcho] = deque()
        self._size_bytes = 0

    def add(self, one: PossibleEcho) -> None:
        self.packets.append(one)
        self._size_bytes += len(one.packet.payload)

    def pop_first(self) -> PossibleEcho:
        first = self.packets.popleft()
        self._size_bytes -= len(first.packet.payload)
        return first

    @property
    def is_full(self) -> bool:
        return len(self.packets) > HELD_MAX or self._size_bytes > HELD_BYTES_MAX


class PublishHandler:
    """Forwards publications of clients to the overlay, or refuses them."""

    def __init__(
        self,
        services: MqttServices,
        sessions: MqttSessionTable,
        gossip: GatewayGossip,
        loop_probes: LoopProbes,
        connections: ConnectionTable,
    ) -> None:
        self.echoes = 0
        """Publications that a bridge returned."""
        self.too_large = 0
        """Publications that were refused because of their size."""
        self._config = services.config
        self._services = services
        self._sessions = sessions
        self._bridges = gossip.bridges
        self._loop_probes = loop_probes
        self._connections = connections
        self._held: dict[str, HeldPackets] = {}
        """By session; none of them is empty."""

    def receive(
        self, connection: MqttConnection, session: MqttSession, packet: Publish, now: float
    ) -> None:
        """Forward or refuse a publication. MqttError if it breaks the protocol."""
        if not session.has_published:
            session.has_published = True
            self._loop_probes.probe(session, now)
        config, topic = self._config, packet.topic
        if packet.topic_alias is not None:
            topic = connection.topic_of(packet, config.topic_alias_max)
        is_plain = (
            topic in session.advertised
            and packet.qos <= config.qos_max
            and not packet.retain
            and not 0 < config.max_payload_bytes < len(packet.payload)
        )
        if is_plain or self._is_allowed(session, packet, topic, now):
            if self._bridges.count or self._held or packet.content.user_properties:
                self._receive_beside_bridges(session, packet, topic, now)
            else:
                session.publish(packet, topic, now)
        if session.end is not None and session.end.waiting_bytes:
            self.check_congestion(session)

    def _is_allowed(self, session: MqttSession, packet: Publish, topic: str, now: float) -> bool:
        """Whether a publication is forwarded; it is answered if not."""
        check_publication(packet, topic, self._config)
        too_large = why_too_large(packet, self._config)
        is_for_nobody = is_reserved(topic)
        if is_for_nobody and not is_bridge_state(topic):
            text = f"{topic!r} is not for clients to publish on"
            session.refuse(packet, Reason.NOT_AUTHORIZED, text)
        elif too_large:
            self.too_large += 1
            # 0x95 is no answer to a publication (MQTT 5.0, 3.4.2.1).
            session.refuse(packet, Reason.QUOTA_EXCEEDED, too_large)
        elif is_for_nobody:
            session.publish(packet, topic, now, is_only_answered=True)
        else:
            return True
        return False

    def _receive_beside_bridges(
        self, session: MqttSession, packet: Publish, topic: str, now: float
    ) -> None:
        """A publication may have left this overlay over a bridge, and be back."""
        if self._loop_probes.receive_probe(session, packet, now):
            session.publish(packet, topic, now, is_only_answered=True)
        elif self._loop_probes.is_marked(packet):
            self.echoes += 1
            session.publish(packet, topic, now, is_only_answered=True)
        elif self._may_echo(session) and not session.is_duplicate(packet):
            held = self._held.setdefault(session.name, HeldPackets())
            held.add(PossibleEcho(packet, topic, now + self._config.echo_hold_s))
            self.release(session, now)
        else:
            session.publish(packet, topic, now)

    def check_congestion(self, session: MqttSession) -> None:
        """Read from a client only while the overlay takes what it publishes."""
        end, connection = session.end, session.connection
        if end is None:
            return
        end.holds_up = is_paused = end.is_congested
        if connection is not None and connection.is_paused != is_paused:
            connection.is_paused = is_paused
            self._services.emit(PauseReading(connection.number, is_paused))

    # --- possible echoes -------------------------------------------------------------------

    def _may_echo(self, session: MqttSession) -> bool:
        return self._loop_probes.is_watched(session) or session.name in self._held

    def release(self, session: MqttSession, now: float) -> None:
        """Release held publications that are certain echoes, or were held long enough, in order,
        so that answers and publications keep their order."""
        try:
            self._release(session, now)
        except MqttError as error:
            if session.connection is not None:
                self._connections.end(session.connection, error, now)

    def _release(self, session: MqttSession, now: float) -> None:
        held = self._held.pop(session.name, None)
        while held is not None and held.packets:
            is_echo = self._is_echo(session, held.packets[0], now)
            if not is_echo and held.packets[0].until > now and not held.is_full:
                self._held[session.name] = held
                break
            self._forward(session, held.pop_first(), now, is_echo=is_echo)
        self._note_deadline()

    def release_all(self, session: MqttSession, now: float) -> None:
        """A client disconnects: release everything, if the broker still accepts it."""
        held = self._held.pop(session.name, None)
        if held is not None and session.end is not None:
            with contextlib.suppress(MqttError):
                while held.packets:
                    one = held.pop_first()
                    is_echo = self._is_echo(session, one, now)
                    self._forward(session, one, now, is_echo=is_echo)
        self._note_deadline()

    def _is_echo(self, session: MqttSession, one: PossibleEcho, now: float) -> bool:
        return self._loop_probes.consume_echo(session, one.topic, one.packet.payload, now)

    def _forward(
        self, session: MqttSession, one: PossibleEcho, now: float, *, is_echo: bool
    ) -> None:
        self.echoes += is_echo
        if not is_echo:
            self._loop_probes.published(session, one.topic, one.packet.payload, now)
        session.publish(one.packet, one.topic, now, is_only_answered=is_echo)

    def _note_deadline(self) -> None:
        """O(sessions with held publications)."""
        at = min((self._due_at(name) for name in self._held), default=inf)
        self._services.deadlines.set("held publications", at)

    def _due_at(self, name: str) -> float:
        """When the first held publication of a session is due."""
        return self._held[name].packets[0].until

    def on_deadline(self, now: float) -> None:
        for name in [name for name in self._held if self._due_at(name) <= now]:
            session = self._sessions.by_name.get(name)
            if session is None:
                del self._held[name]
            else:
                self.release(session, now)
                self.check_congestion(session)
        self._note_deadline()

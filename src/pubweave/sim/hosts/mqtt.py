"""MQTT clients of the simulation, and brokers that let them in.

The clients are as simple as good clients can be: they keep their session, send again what has no
answer, answer what they get, and come back whenever they lose their connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pubweave.core.vocabulary.effects import Effect, TransmitPackets
from pubweave.core.vocabulary.events import MqttOpened, PacketsReceived
from pubweave.model.mqtt_packets import (
    ConnAck,
    Connect,
    Disconnect,
    FromClient,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Reason,
    SubAck,
    Subscribe,
    ToClient,
    TopicFilter,
)
from pubweave.sim.kernel.network import Network, SimConnection, SimLink
from pubweave.sim.kernel.nodes import REDIAL_S, SimBroker

SESSION_EXPIRY_S = 3600
RETRY_S = 0.3


class MqttSimBroker(SimBroker):
    """A broker with a door."""

    def opened(self, connection: SimConnection) -> None:
        if isinstance(connection.ends[0], SimMqttClient):
            self.connections[connection.number] = connection
            self.handle(MqttOpened(connection.number))
        else:
            super().opened(connection)

    def received(self, connection: SimConnection, messages: Sequence[Any]) -> None:
        if isinstance(connection.ends[0], SimMqttClient):
            self.handle(PacketsReceived(connection.number, list(messages)))
        else:
            super().received(connection, messages)

    def carry_out_other(self, effect: Effect) -> None:
        if isinstance(effect, TransmitPackets):
            connection = self.connections.get(effect.connection)
            if connection is not None:
                self.network.send(connection, self, effect.packets)  # type: ignore[arg-type]
        else:
            super().carry_out_other(effect)


class SimMqttClient:
    """An MQTT 5 client with a session that lasts, at one broker after the other."""

    def __init__(
        self,
        name: str,
        network: Network,
        home: SimBroker,
        latency_s: float,
        on_delivery: Callable[[SimMqttClient, Publish], None],
        on_session_lost: Callable[[SimMqttClient], None],
        on_redirected: Callable[[SimMqttClient, str], None],
    ) -> None:
        self.name = name
        self.home = home
        self.link = SimLink(latency_s)
        self.subscriptions: dict[str, int] = {}
        self.is_connected = False
        self.connection: SimConnection | None = None
        self.unanswered: dict[int, Publish | PubRel | Subscribe] = {}
        """What was said and has no answer yet, by packet id, in order."""
        self._network = network
        self._world = network.world
        self._on_delivery = on_delivery
        self._on_session_lost = on_session_lost
        self._on_redirected = on_redirected
        self._had_session = False
        self._is_dialing = False
        self._away_until = 0.0
        self._last_id = 0
        self._received: set[int] = set()
        """QoS 2 publications that came and were not released, by packet id."""

    def is_up(self) -> bool:
        return True

    # --- what the scenario asks for ----------------------------------------------------------

    def dial(self) -> None:
        if self.connection is not None or self._is_dialing:
            return
        if self._world.now < self._away_until:
            self._world.at(self._away_until, self.dial)
            return
        self._is_dialing = self._network.dial(self.link, self, self.home)
        if not self._is_dialing:
            self._world.after(self._world.uniform(*REDIAL_S), self.dial)

    def subscribe(self, pattern: str, qos: int) -> None:
        self.subscriptions[pattern] = qos
        self._ask(Subscribe(self._next_id(), (TopicFilter(pattern, qos),)))

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        packet_id = self._next_id() if qos else None
        packet = Publish(topic, payload, qos, retain, packet_id)
        if qos:
            self._ask(packet)
        else:
            self._say(packet)

    def move_to(self, broker: SimBroker, latency_s: float) -> None:
        """Go on at another broker, as a client that changes its network does."""
        self.home, self.link = broker, SimLink(latency_s)
        self._is_dialing = False
        self.cut()
        self.dial()

    def stay_away(self, seconds: float) -> None:
        """Lose the connection and come back later."""
        self._away_until = self._world.now + seconds
        self.cut()

    def cut(self) -> None:
        """Lose the connection."""
        connection, self.connection = self.connection, None
        self.is_connected = False
        if connection is not None:
            self._network.drop(connection)

    # --- from the network --------------------------------------------------------------------

    def opened(self, connection: SimConnection) -> None:
        if connection.link is not self.link:
            return
        self._is_dialing = False
        self.connection = connection
        connect = Connect(
            self.name, clean_start=not self._had_session, session_expiry_s=SESSION_EXPIRY_S
        )
        self._network.send(connection, self, (connect,))  # type: ignore[arg-type]

    def closed(self, connection: SimConnection) -> None:
        if connection.link is self.link and self.connection in (connection, None):
            self.connection = None
            self.is_connected = self._is_dialing = False
            self._world.after(self._world.uniform(*REDIAL_S), self.dial)

    def received(self, connection: SimConnection, packets: Sequence[Any]) -> None:
        if connection is not self.connection:
            return
        for packet in packets:
            self._on_packet(packet)

    def _on_packet(self, packet: ToClient) -> None:
        match packet:
            case ConnAck():
                self._on_connack(packet)
            case Publish():
                self._on_publish(packet)
            case PubRec():
                if packet.packet_id in self.unanswered:
                    self.unanswered[packet.packet_id] = PubRel(packet.packet_id)
                self._say(PubRel(packet.packet_id))
            case PubRel():
                self._received.discard(packet.packet_id)
                self._say(PubComp(packet.packet_id))
            case SubAck() if max(packet.reasons) >= Reason.UNSPECIFIED_ERROR:
                wish = self.unanswered.pop(packet.packet_id, None)
                if isinstance(wish, Subscribe):  # there was no room for what is retained
                    (one,) = wish.filters
                    self._world.after(RETRY_S, self.subscribe, one.pattern, one.qos)
            case Disconnect():  # and the connection is closed
                if packet.server_reference is not None:
                    self._on_redirected(self, packet.server_reference)
            case _:  # PubAck, PubComp, SubAck
                self.unanswered.pop(getattr(packet, "packet_id", 0), None)

    def _on_connack(self, answer: ConnAck) -> None:
        if answer.reason:
            return  # and the connection is closed
        self.is_connected = True
        is_lost = self._had_session and not answer.session_present
        self._had_session = True
        if is_lost:
            self._received.clear()
            self._on_session_lost(self)
            for packet_id in [k for k, v in self.unanswered.items() if isinstance(v, PubRel)]:
                del self.unanswered[packet_id]
            for pattern, qos in self.subscriptions.items():
                self.subscribe(pattern, qos)
        for packet in list(self.unanswered.values()):
            if isinstance(packet, Publish):
                packet = msgspec.structs.replace(packet, is_duplicate=not is_lost)
            self._say(packet)

    def _on_publish(self, packet: Publish) -> None:
        if packet.qos == 2:
            if packet.packet_id not in self._received:
                self._received.add(packet.packet_id or 0)
                self._on_delivery(self, packet)
            self._say(PubRec(packet.packet_id or 0))
            return
        self._on_delivery(self, packet)
        if packet.qos == 1:
            self._say(PubAck(packet.packet_id or 0))

    # --- inside ------------------------------------------------------------------------------

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % 65_535 + 1
            if self._last_id not in self.unanswered:
                return self._last_id

    def _ask(self, packet: Publish | Subscribe) -> None:
        self.unanswered[packet.packet_id or 0] = packet
        self._say(packet)

    def _say(self, packet: FromClient) -> None:
        if self.is_connected and self.connection is not None:
            self._network.send(self.connection, self, (packet,))  # type: ignore[arg-type]

"""MQTT clients of the simulation, and brokers that let them in.

The clients are as simple as good clients can be: they keep their session, send again what has no
answer, answer what they get, and come back whenever they lose their connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from pubweave.core.vocabulary.effects import Effect, TransmitPackets
from pubweave.core.vocabulary.events import MqttOpened, PacketsReceived
from pubweave.model.mqtt_packets import (
    VERSION_3,
    VERSION_5,
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
    UnsubAck,
    Unsubscribe,
    Will,
)
from pubweave.sim.kernel.network import Network, SimConnection, SimLink
from pubweave.sim.kernel.nodes import REDIAL_S, SimBroker
from pubweave.sim.kernel.world import World

LASTING_S = 3600
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


@dataclass(frozen=True)
class MqttManner:
    """How a client connects."""

    version: int = VERSION_5
    expiry_s: int = LASTING_S
    """How long its session is to outlive a connection; 3.1.1 knows only 0 and ever."""
    receive_max: int = 65_535

    @property
    def is_v5(self) -> bool:
        return self.version == VERSION_5


PATTERNS = (
    "a/#",
    "a/+",
    "+/x",
    "a/x",
    "b/+/c",
    "b/#",
    "#",
    "kept/#",
    "kept/1",
    "wills/+",
    "wills/#",
)
PLAIN = MqttManner()
SHORT_S = 2
"""How long sessions last that expire in a run."""


def any_manner(world: World) -> MqttManner:
    """Two thirds speak MQTT 5; the sessions of most last."""
    version = VERSION_5 if world.chance(0.67) else VERSION_3
    expiry_s = world.choice([LASTING_S, LASTING_S, LASTING_S, LASTING_S, SHORT_S, 0])
    if version == VERSION_3 and expiry_s == SHORT_S:
        expiry_s = LASTING_S
    receive_max = world.choice([65_535, 65_535, 20, 2]) if version == VERSION_5 else 65_535
    return MqttManner(version, expiry_s, receive_max)


def any_will(world: World, name: str, number: int, manner: MqttManner) -> Will:
    """A will that no other connection has."""
    delay_s = world.choice([0, 1, 4]) if manner.is_v5 else 0
    payload = f"will/{name}/{number}".encode()
    return Will(f"wills/{name}", payload, world.integer(0, 2), delay_s=delay_s)


def options_of(pattern: str, number: int, manner: MqttManner) -> TopicFilter:
    """How a client subscribes; for the same number always the same."""
    return TopicFilter(
        pattern,
        qos=(2, 1, 0)[number % 3] if number % 5 else 2,
        no_local=manner.is_v5 and number % 4 == 0,
        retain_handling=(0, 1, 0, 2)[number % 4] if manner.is_v5 else 0,
    )


Wished = tuple[TopicFilter, int | None]
"""A subscription with its identifier."""


Request = Publish | Subscribe | Unsubscribe
Answer = PubAck | PubRec | SubAck | UnsubAck


class ClientHistory(Protocol):
    """Hears what clients say and hear."""

    def connecting(self, client: str, connect: Connect, broker: str, now: float) -> None:
        """A client says Connect."""

    def connected(self, client: str, answer: ConnAck, now: float) -> None:
        """It was let in."""

    def disconnecting(
        self, client: str, packet: Disconnect, now: float, is_lost: Callable[[], bool]
    ) -> None:
        """It says Disconnect, and closes its connection; ``is_lost``: whether that was cut before
        a broker knew."""

    def closed(self, client: str, now: float) -> None:
        """It has no connection any more."""

    def told(self, client: str, packet: Disconnect, now: float) -> None:
        """The broker says Disconnect."""

    def asking(self, client: str, request: Subscribe | Unsubscribe, now: float) -> None:
        """It wants something else than before."""

    def answered(self, client: str, request: Request, answer: Answer, now: float) -> None:
        """A request has its answer; of QoS 2 the first one."""

    def delivered(self, client: str, packet: Publish, now: float) -> None:
        """A publication reaches the application."""


class NoHistory(ClientHistory):
    """Does nothing."""


class SimMqttClient:
    """An MQTT client, at one broker after the other."""

    def __init__(
        self,
        name: str,
        network: Network,
        home: SimBroker,
        latency_s: float,
        history: ClientHistory,
        on_redirected: Callable[[SimMqttClient, str], None] = lambda client, address: None,
        manner: MqttManner = PLAIN,
        next_will: Callable[[], Will | None] = lambda: None,
    ) -> None:
        """``next_will``: the will of the next connection."""
        self.name = name
        self.home = home
        self.link = SimLink(latency_s)
        self.manner = manner
        self.subscriptions: dict[str, Wished] = {}
        self.is_connected = False
        self.connection: SimConnection | None = None
        self.unanswered: dict[int, Publish | PubRel | Subscribe | Unsubscribe] = {}
        """What was said and has no answer yet, by packet id, in order."""
        self.starts_over = False
        """It wants a new session next time."""
        self.is_gone = False
        """It does not come back."""
        self._network = network
        self._world = network.world
        self._history = history
        self._on_redirected = on_redirected
        self._next_will = next_will
        self._had_session = False
        self._is_dialing = False
        self._away_until = 0.0
        self._last_id = 0
        self._last_subscription_id = 0
        self._received: set[int] = set()
        """QoS 2 publications that came and were not released, by packet id."""

    def is_up(self) -> bool:
        return True

    # --- what the scenario asks for ----------------------------------------------------------

    def dial(self) -> None:
        if self.connection is not None or self._is_dialing or self.is_gone:
            return
        if self._world.now < self._away_until:
            self._world.at(self._away_until, self.dial)
            return
        self._is_dialing = self._network.dial(self.link, self, self.home)
        if not self._is_dialing:
            self._world.after(self._world.uniform(*REDIAL_S), self.dial)

    def subscribe(self, wanted: TopicFilter) -> None:
        self._last_subscription_id += 1
        wished = wanted, self._last_subscription_id if self.manner.is_v5 else None
        self.subscriptions[wanted.pattern] = wished
        self._subscribe(wished)

    def _subscribe(self, wished: Wished) -> None:
        wanted, subscription_id = wished
        request = Subscribe(self._next_id(), (wanted,), subscription_id)
        self._history.asking(self.name, request, self._world.now)
        self._ask(request)

    def unsubscribe(self, pattern: str) -> None:
        del self.subscriptions[pattern]
        request = Unsubscribe(self._next_id(), (pattern,))
        self._history.asking(self.name, request, self._world.now)
        self._ask(request)

    def publish(self, packet: Publish) -> None:
        """Publish; without a connection what is of QoS 0 goes nowhere."""
        if packet.qos:
            self._ask(msgspec.structs.replace(packet, packet_id=self._next_id()))
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

    def say_goodbye(self, seconds: float, packet: Disconnect) -> None:
        """Disconnect as one should, and come back later."""
        connection = self.connection
        if not self.is_connected or connection is None:
            return
        self._away_until = self._world.now + seconds
        now = self._world.now
        self._history.disconnecting(self.name, packet, now, lambda: connection.is_dropped)
        self._say(packet)
        self._leave()
        self._network.close(connection, self)

    def cut(self) -> None:
        """Lose the connection."""
        connection = self._leave()
        if connection is not None:
            self._network.drop(connection)

    def _leave(self) -> SimConnection | None:
        connection, self.connection = self.connection, None
        self.is_connected = False
        if connection is not None:
            self._history.closed(self.name, self._world.now)
        return connection

    # --- from the network --------------------------------------------------------------------

    def opened(self, connection: SimConnection) -> None:
        if connection.link is not self.link:
            return
        self._is_dialing = False
        self.connection = connection
        manner = self.manner
        is_first = not self._had_session and manner.is_v5
        connect = Connect(
            self.name,
            manner.version,
            clean_start=is_first or self.starts_over or not manner.expiry_s,
            session_expiry_s=manner.expiry_s,
            receive_max=manner.receive_max,
            will=self._next_will(),
        )
        self._history.connecting(self.name, connect, self.home.name, self._world.now)
        self._network.send(connection, self, (connect,))  # type: ignore[arg-type]

    def closed(self, connection: SimConnection) -> None:
        if connection.link is self.link and self.connection in (connection, None):
            self._leave()
            self._is_dialing = False
            self._world.after(self._world.uniform(*REDIAL_S), self.dial)

    def received(self, connection: SimConnection, packets: Sequence[Any]) -> None:
        for packet in packets:
            if connection is self.connection:
                self._on_packet(packet)

    def _on_packet(self, packet: ToClient) -> None:
        match packet:
            case ConnAck():
                self._on_connack(packet)
            case Publish():
                self._on_publish(packet)
            case PubRec():
                request = self.unanswered.get(packet.packet_id)
                if isinstance(request, Publish):
                    self._history.answered(self.name, request, packet, self._world.now)
                    self.unanswered[packet.packet_id] = PubRel(packet.packet_id)
                self._say(PubRel(packet.packet_id))
            case PubRel():
                self._received.discard(packet.packet_id)
                self._say(PubComp(packet.packet_id))
            case PubAck() | SubAck() | UnsubAck():
                self._on_answer(packet)
            case PubComp():
                self.unanswered.pop(packet.packet_id, None)
            case Disconnect():  # and the connection is closed
                self._history.told(self.name, packet, self._world.now)
                if packet.server_reference is not None:
                    self._on_redirected(self, packet.server_reference)

    def _on_answer(self, packet: PubAck | SubAck | UnsubAck) -> None:
        request = self.unanswered.pop(packet.packet_id, None)
        if request is None or isinstance(request, PubRel):
            return
        self._history.answered(self.name, request, packet, self._world.now)
        if isinstance(request, Subscribe) and isinstance(packet, SubAck):
            wished = request.filters[0], request.subscription_id
            if max(packet.reasons) >= Reason.UNSPECIFIED_ERROR:
                # There was no room for what is retained.
                self._world.after(RETRY_S, self._subscribe_again, wished)

    def _subscribe_again(self, wished: Wished) -> None:
        if self.subscriptions.get(wished[0].pattern) == wished:
            self._subscribe(wished)

    def _on_connack(self, answer: ConnAck) -> None:
        if answer.reason:
            return  # and the connection is closed
        self.is_connected = True
        is_anew = not answer.session_present
        self._had_session, self.starts_over = True, False
        self._history.connected(self.name, answer, self._world.now)
        if is_anew:
            self._received.clear()
            for packet_id, packet in list(self.unanswered.items()):
                if not isinstance(packet, Publish):
                    del self.unanswered[packet_id]
            again = list(self.unanswered.values())
            for wished in self.subscriptions.values():
                self._subscribe(wished)
        else:
            again = list(self.unanswered.values())
        for packet in again:
            if isinstance(packet, Publish):
                packet = msgspec.structs.replace(packet, is_duplicate=not is_anew)
            self._say(packet)

    def _on_publish(self, packet: Publish) -> None:
        if packet.qos == 2:
            if packet.packet_id not in self._received:
                self._received.add(packet.packet_id or 0)
                self._history.delivered(self.name, packet, self._world.now)
            self._say(PubRec(packet.packet_id or 0))
            return
        self._history.delivered(self.name, packet, self._world.now)
        if packet.qos == 1:
            self._say(PubAck(packet.packet_id or 0))

    # --- inside ------------------------------------------------------------------------------

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % 65_535 + 1
            if self._last_id not in self.unanswered:
                return self._last_id

    def _ask(self, packet: Publish | Subscribe | Unsubscribe) -> None:
        self.unanswered[packet.packet_id or 0] = packet
        self._say(packet)

    def _say(self, packet: FromClient) -> None:
        if self.is_connected and self.connection is not None:
            self._network.send(self.connection, self, (packet,))  # type: ignore[arg-type]

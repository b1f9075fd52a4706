"""Brokers with gateways in one process, without sockets: packets in, packets out, time by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.vocabulary.effects import (
    CloseConnection,
    Effect,
    OpenLink,
    PauseReading,
    ReportProblem,
    Transmit,
    TransmitPackets,
    VerifyPassword,
)
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    Event,
    LinkAdded,
    MessagesReceived,
    MqttOpened,
    PacketsReceived,
)
from pubweave.model.messages.session import Message
from pubweave.model.mqtt_packets import (
    ConnAck,
    Connect,
    FromClient,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    ToClient,
    TopicFilter,
)


class MqttWorld:
    """A chain of linked brokers b1, b2, ..., and the clients of their gateways."""

    def __init__(self, brokers: int = 1, mqtt: MqttConfig | None = None, **config: Any) -> None:
        self.now = 1000.0
        self._numbers = 0
        self._events: deque[tuple[str, Event]] = deque()
        self._is_busy = False
        self._links: dict[tuple[str, int], tuple[str, int]] = {}
        self.clients: dict[int, MqttPeer] = {}
        self.is_slow = False
        """What brokers say to each other waits in `under_way`."""
        self.under_way: dict[tuple[str, int], deque[Event]] = {}
        self.asked: list[VerifyPassword] = []
        self.problems: list[str] = []
        """What brokers want people to know."""
        self.brokers = {
            f"b{n}": Broker(
                BrokerConfig(f"b{n}", mqtt=mqtt or MqttConfig(), **config),
                epoch=1000 * n,
                now=self.now,
            )
            for n in range(1, brokers + 1)
        }
        names = list(self.brokers)
        for one, other in pairwise(names):
            self._link(one, other)
        self.pass_time(0.1)

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _link(self, one: str, other: str) -> None:
        self.handle(one, LinkAdded(other))
        self.handle(other, LinkAdded(one))
        self._connect(one, other)

    def _connect(self, one: str, other: str) -> None:
        ends = (one, self.number()), (other, self.number())
        self._links[ends[0]], self._links[ends[1]] = ends[1], ends[0]
        self.handle(other, ConnectionOpened(ends[1][1]))
        self.handle(one, ConnectionOpened(ends[0][1], other))

    def handle(self, broker: str, event: Event) -> None:
        """Let an event happen, and all that it causes, in the order in which it was caused."""
        self._events.append((broker, event))
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events:
                name, next_ = self._events.popleft()
                self._carry_out(name, self.brokers[name].handle(next_, self.now))
        finally:
            self._is_busy = False

    def _carry_out(self, broker: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Transmit(connection, messages):
                    assert connection > 0, "inner messages stay inside"
                    self._transmit((broker, connection), messages)
                case TransmitPackets(connection, packets):
                    self.clients[connection].got += packets
                case CloseConnection(connection) if connection in self.clients:
                    peer = self.clients.pop(connection)
                    peer.is_open = False
                    self.handle(broker, ConnectionClosed(connection))
                case CloseConnection(connection) if (broker, connection) in self._links:
                    far = self._links.pop((broker, connection))
                    self._links.pop(far)
                    for name, number in ((broker, connection), far):
                        self.handle(name, ConnectionClosed(number))
                case PauseReading(connection, is_paused):
                    self.clients[connection].is_paused = is_paused
                case OpenLink(neighbor) if neighbor in self.brokers:
                    self._connect(broker, neighbor)
                case VerifyPassword():
                    self.asked.append(effect)
                case ReportProblem(text):
                    self.problems.append(text)

    def _transmit(self, end: tuple[str, int], messages: Sequence[Message]) -> None:
        far = self._links.get(end)
        if far is None:
            return
        received = MessagesReceived(far[1], list(messages), self.now)
        if self.is_slow:
            self.under_way.setdefault(far, deque()).append(received)
        else:
            self.handle(far[0], received)

    def arrive(self, end: tuple[str, int]) -> None:
        """What has been under way for longest to an end of a link gets there."""
        waiting = self.under_way[end]
        event = waiting.popleft()
        if not waiting:
            del self.under_way[end]
        self.handle(end[0], event)

    def pass_time(self, seconds: float) -> None:
        """Let deadlines come, in steps no longer than a second."""
        end = self.now + seconds
        while self.now < end:
            deadlines = [broker.next_deadline() for broker in self.brokers.values()]
            # One that is long over is due now.
            self.now = max(self.now, min(end, self.now + 1.0, *deadlines))
            for name, broker in self.brokers.items():
                if broker.next_deadline() <= self.now:
                    self.handle(name, DeadlineReached())

    def peer(self, broker: str = "b1", **event: Any) -> MqttPeer:
        """A connection that has said nothing yet."""
        peer = MqttPeer(self, broker, self.number())
        self.clients[peer.number] = peer
        self.handle(broker, MqttOpened(peer.number, **event))
        return peer

    def client(self, client_id: str, broker: str = "b1", **connect: Any) -> MqttPeer:
        """A client that was let in."""
        peer = self.peer(broker)
        answer = peer.connect(client_id, **connect)
        assert answer.reason == 0, answer
        return peer


class MqttPeer:
    """The far end of one connection to a gateway."""

    def __init__(self, world: MqttWorld, broker: str, number: int) -> None:
        self.world = world
        self.broker = broker
        self.number = number
        self.got: list[ToClient] = []
        self.is_open = True
        self.is_paused = False

    def say(self, *packets: FromClient) -> list[ToClient]:
        """Send packets as one read; what came since the last time."""
        self.world.handle(self.broker, PacketsReceived(self.number, packets))
        return self.heard()

    def heard(self) -> list[ToClient]:
        got, self.got = self.got, []
        return got

    def connect(self, client_id: str, **fields: Any) -> ConnAck:
        self.say_nothing_back(Connect(client_id, **fields))
        found = [packet for packet in self.got if isinstance(packet, ConnAck)]
        self.got = [packet for packet in self.got if not isinstance(packet, ConnAck)]
        return found[0]

    def say_nothing_back(self, *packets: FromClient) -> None:
        self.world.handle(self.broker, PacketsReceived(self.number, packets))

    def subscribe(
        self, pattern: str, qos: int = 0, *, packet_id: int = 1, **fields: Any
    ) -> tuple[int, ...]:
        """The reasons; retained publications stay in `got`."""
        options = {k: fields.pop(k) for k in list(fields) if k not in _OF_SUBSCRIBE}
        wish = TopicFilter(pattern, qos, **options)
        self.say_nothing_back(Subscribe(packet_id, (wish,), **fields))
        found = [packet for packet in self.got if isinstance(packet, SubAck)]
        self.got = [packet for packet in self.got if not isinstance(packet, SubAck)]
        return found[0].reasons

    def publish(self, topic: str, payload: bytes = b"x", qos: int = 0, **fields: Any) -> list[Any]:
        packet_id = fields.pop("packet_id", 7 if qos else None)
        return self.say(Publish(topic, payload, qos, packet_id=packet_id, **fields))

    def published(self) -> list[Publish]:
        """The publications that came since the last time."""
        return [packet for packet in self.heard() if isinstance(packet, Publish)]

    def payloads(self) -> list[bytes]:
        return [packet.payload for packet in self.published()]

    def answer(self) -> list[Publish]:
        """Take publications in as a good client does, until nothing comes any more."""
        taken: list[Publish] = []
        while packets := self.heard():
            for packet in packets:
                match packet:
                    case Publish(qos=1):
                        taken.append(packet)
                        self.say_nothing_back(PubAck(packet.packet_id or 0))
                    case Publish(qos=2):
                        taken.append(packet)
                        self.say_nothing_back(PubRec(packet.packet_id or 0))
                    case Publish():
                        taken.append(packet)
                    case PubRel():
                        self.say_nothing_back(PubComp(packet.packet_id))
                    case _:
                        pass
        return taken

    def cut(self) -> None:
        """The connection is lost without a word."""
        self.world.clients.pop(self.number, None)
        self.is_open = False
        self.world.handle(self.broker, ConnectionClosed(self.number))


_OF_SUBSCRIBE = ("subscription_id", "user_properties")

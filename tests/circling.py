"""Mosquittos outside an overlay with doors, in simulated time: they pass on what they get over
bridges that lose marks, with names and delays of their own."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from pubweave.core.vocabulary.events import DeadlineReached
from pubweave.model.mqtt_packets import VERSION_3, PubAck, PubComp, Publish, PubRec, PubRel
from tests.mqtt_world import MqttPeer, MqttWorld

STEP_MIN_S = 1e-6


@dataclass
class Connection:
    """One bridge of a mosquitto, with exact topics. ``takes``: topics of the overlay that become
    local ones, ``gives``: local ones that become topics of the overlay."""

    broker: str
    takes: dict[str, str]
    gives: dict[str, str]
    says_so: bool = False
    delay_s: tuple[float, float] = (0.001, 0.002)
    peer: MqttPeer | None = None
    last_id: int = 0
    last_at: dict[str, float] = field(default_factory=dict)


def both(broker: str, *topics: str, **fields: object) -> Connection:
    same = {topic: topic for topic in topics}
    return Connection(broker, dict(same), dict(same), **fields)  # type: ignore[arg-type]


class Outside:
    """Mosquittos, whoever speaks there, and time."""

    def __init__(self, world: MqttWorld, seed: int = 0) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.passed = 0
        """Publications that bridges brought into the overlay."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._sites: list[list[Connection]] = []

    def site(self, *connections: Connection, qos: int = 1) -> int:
        """A mosquitto with these bridges; its number."""
        number = len(self._sites)
        self._sites.append(list(connections))
        for index, one in enumerate(connections):
            name = f"site{number}-{index}"
            one.peer = self.world.client(name, one.broker, version=VERSION_3, is_bridge=True)
            if one.says_so:
                state = Publish(f"$SYS/broker/connection/{name}/state", b"1")
                one.peer.say_nothing_back(state)
            for topic in one.takes:
                one.peer.subscribe(topic, qos)
        return number

    def at(self, instant: float, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (instant, self._number, action))

    def say(self, site: int, topic: str, payload: bytes, qos: int = 1) -> None:
        """By a client of a mosquitto."""
        self._spread(site, topic, payload, qos, None)

    def _spread(
        self, site: int, topic: str, payload: bytes, qos: int, source: Connection | None
    ) -> None:
        for one in self._sites[site]:
            if one is not source and topic in one.gives:
                self._send(one, "in", lambda o=one: self._bring(o, o.gives[topic], payload, qos))

    def _send(self, one: Connection, way: str, action: Callable[[], None]) -> None:
        """In order, as connections are."""
        due = max(self.world.now + self.chance.uniform(*one.delay_s), one.last_at.get(way, 0.0))
        one.last_at[way] = due
        self.at(due, action)

    def _bring(self, one: Connection, topic: str, payload: bytes, qos: int) -> None:
        assert one.peer is not None
        one.last_id = one.last_id % 65_535 + 1
        self.passed += 1
        one.peer.say_nothing_back(Publish(topic, payload, qos, False, one.last_id if qos else None))

    def _hear(self) -> None:
        for number, connections in enumerate(self._sites):
            for one in connections:
                assert one.peer is not None
                for packet in one.peer.heard():
                    self._take(number, one, packet)

    def _take(self, number: int, one: Connection, packet: object) -> None:
        assert one.peer is not None
        if isinstance(packet, PubRec):
            one.peer.say_nothing_back(PubRel(packet.packet_id))
        elif isinstance(packet, PubRel):
            one.peer.say_nothing_back(PubComp(packet.packet_id))
        elif isinstance(packet, Publish):
            if packet.qos:
                kind = PubAck if packet.qos == 1 else PubRec
                one.peer.say_nothing_back(kind(packet.packet_id or 0))
            local = one.takes.get(packet.topic)
            if local is not None:
                payload, qos = packet.payload, packet.qos
                action = lambda: self._spread(number, local, payload, qos, one)  # noqa: E731
                self._send(one, "out", action)

    def run(self, seconds: float, *, most: int = 10**9) -> None:
        """Let time pass; fails where bridges bring more than so many."""
        end = self.world.now + seconds
        while True:
            self._hear()
            deadlines = {n: b.next_deadline() for n, b in self.world.brokers.items()}
            due = min(*deadlines.values(), end, self._queue[0][0] if self._queue else end)
            self.world.now = max(self.world.now, due)
            if self._queue and self._queue[0][0] <= self.world.now:
                heapq.heappop(self._queue)[2]()
            elif min(deadlines.values()) <= self.world.now:
                for name, deadline in deadlines.items():
                    if deadline <= self.world.now:
                        self.world.handle(name, DeadlineReached())
            elif self.world.now >= end:
                return
            assert self.passed <= most, f"it circles: {self.passed}"

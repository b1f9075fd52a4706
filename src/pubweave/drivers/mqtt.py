"""MQTT clients at the doors of real broker hosts, and what their qualities promise.

Like native ones they are judged by what they were told: a subscription counts from the rest after
its SUBACK, a publication once PUBACK or PUBCOMP has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mqtt5

from pubweave.drivers.mqtt_client import PlainMqttClient
from pubweave.drivers.overlay import MQTT_PORT
from pubweave.drivers.run import DriverRun
from pubweave.runtime.net.addresses import Address
from pubweave.sim.eventloop.process import SimProcess
from pubweave.wire.mqtt.codec import V3, V5

PATTERNS = ("a/#", "a/+", "+/x", "a/x", "b/+/c", "b/#", "#")
TOPICS = ("a/x", "a/y", "b/x", "b/1/c", "b/2/c", "a")
SIZES = (0, 10, 500, 5_000, 30_000)
SLOW_S = (0.1, 6.0)


def wants(pattern: str, topic: str) -> bool:
    """Whether a topic filter matches a topic.

    >>> wants("a/#", "a"), wants("+/x", "a/x"), wants("a/+", "a"), wants("a/x", "a/x")
    (True, True, False, True)
    """
    wanted, levels = pattern.split("/"), topic.split("/")
    for n, level in enumerate(wanted):
        if level == "#":
            return True
        if n >= len(levels) or level not in ("+", levels[n]):
            return False
    return len(wanted) == len(levels)


@dataclass
class MqttAttempt:
    """One publication; its payload names it."""

    publisher: str
    number: int
    topic: str
    qos: int
    is_acknowledged: bool = False
    is_judged: bool = False
    due: dict[str, int] = field(default_factory=dict)
    """Clients with the quality that they are to get it with."""
    got: dict[str, int] = field(default_factory=dict)
    """How often each client got it."""


@dataclass
class DrivenMqttClient:
    """One client in a process of its own."""

    client: PlainMqttClient
    process: SimProcess
    asked: dict[str, int] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    """Subscriptions whose SUBACK came before a rest, with their qualities."""
    last: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """Of each publisher, topic and quality, the latest that came for the first time."""
    losses_seen: int = 0
    sessions_lost_seen: int = 0


class DrivenMqttClients:
    """All MQTT clients of a run."""

    def __init__(self, run: DriverRun) -> None:
        self.violations: list[str] = []
        self.attempts: dict[bytes, MqttAttempt] = {}
        self.deliveries = self.due = self.excused = 0
        self._world = run.world
        self._loop = run.loop
        self._setting = run.setting
        self._round: list[MqttAttempt] = []
        self._disorder: list[str] = []
        self._clients: dict[str, DrivenMqttClient] = {}
        brokers = list(run.overlay.brokers.values())
        for number in range(run.setting.clients):
            name, home = f"m{number}", self._world.choice(brokers)
            client = PlainMqttClient(
                name,
                Address(home.address.host, MQTT_PORT),
                self._world.choice([V3, V5]),
                self._world,
                lambda packet, name=name: self._delivered(name, packet),  # type: ignore[misc]
            )
            client.on_acknowledged = self._acknowledged
            process = self._loop.spawn(name, f"10.0.1.{number + 1}")
            self._clients[name] = DrivenMqttClient(client, process)

    @property
    def processes(self) -> Sequence[SimProcess]:
        return [driven.process for driven in self._clients.values()]

    @property
    def seen(self) -> int:
        return self.deliveries

    def counts(self) -> dict[str, int]:
        return {
            "publications": len(self.attempts),
            "deliveries": self.deliveries,
            "due": self.due,
            "excused": self.excused,
            "connections_lost": sum(d.client.losses for d in self._clients.values()),
            "sessions_lost": sum(d.client.sessions_lost for d in self._clients.values()),
        }

    # --- phases ----------------------------------------------------------------------------

    def start(self) -> None:
        for driven in self._clients.values():
            self._loop.begin(driven.process, driven.client.live())

    def settle(self) -> None:
        for driven in self._clients.values():
            if self._world.chance(0.7):
                pattern, qos = self._world.choice(list(PATTERNS)), self._world.integer(0, 2)
                driven.asked[pattern] = qos
                self._do(driven, driven.client.subscribe, pattern, qos)

    def act_until(self, end: float) -> None:
        for driven in self._clients.values():
            driven.settled = dict(driven.asked)
            driven.losses_seen = driven.client.losses
            driven.sessions_lost_seen = driven.client.sessions_lost
        for _ in range(self._setting.actions):
            self._world.at(self._world.uniform(self._world.now, end), self._act)

    def is_quiet(self) -> bool:
        return all(driven.client.is_quiet for driven in self._clients.values())

    def leave(self) -> None:
        for driven in self._clients.values():
            self._do(driven, driven.client.leave)

    # --- what clients do -------------------------------------------------------------------

    def _do(self, driven: DrivenMqttClient, what: object, *args: object) -> None:
        self._loop.call_soon(what, *args, context=driven.process.context)  # type: ignore[arg-type]

    def _act(self) -> None:
        world = self._world
        driven = world.choice(list(self._clients.values()))
        if world.chance(0.03):
            self._do(driven, driven.client.read_nothing_for, world.uniform(*SLOW_S))
            return
        topic, qos = world.choice(list(TOPICS)), world.integer(0, 2)
        for _ in range(world.choice([1, 1, 1, 4, 20])):
            number = len(self.attempts) + 1
            attempt = MqttAttempt(driven.client.name, number, topic, qos)
            attempt.is_acknowledged = not qos
            for name, other in self._clients.items():
                found = [q for pattern, q in other.settled.items() if wants(pattern, topic)]
                if found:
                    attempt.due[name] = min(qos, max(found))
            payload = f"{driven.client.name}/{number} ".encode()
            payload = payload.ljust(world.choice(list(SIZES)), b".")
            self.attempts[payload] = attempt
            self._round.append(attempt)
            self._do(driven, driven.client.publish, topic, payload, qos)

    # --- what they are told ----------------------------------------------------------------

    def _acknowledged(self, payload: bytes) -> None:
        self.attempts[payload].is_acknowledged = True

    def _delivered(self, name: str, packet: mqtt5.PublishPacket) -> None:
        self.deliveries += 1
        attempt = self.attempts.get(packet.payload)
        where = f"{self._world.now:.3f} {name} got {packet.payload[:30].decode()}"
        self._world.note(name, f"gets {packet.payload[:30].decode()} qos {packet.qos.value}")
        if attempt is None or attempt.topic != packet.topic:
            self.violations.append(f"{where}, which nobody published")
            return
        driven = self._clients[name]
        attempt.got[name] = times = attempt.got.get(name, 0) + 1
        # Of quality 1 made 0, one may get lost and come when its publisher says it again.
        if times == 1 and (packet.qos.value or attempt.qos != 1):
            key = attempt.publisher, attempt.topic, attempt.qos
            if attempt.number < driven.last.get(key, 0):
                self._disorder.append(f"{where} after {driven.last[key]}: out of order")
            driven.last[key] = max(attempt.number, driven.last.get(key, 0))
        wishes = [q for pattern, q in driven.asked.items() if wants(pattern, attempt.topic)]
        if not wishes:
            self.violations.append(f"{where}, which it did not ask for")
        elif packet.qos.value != min(attempt.qos, max(wishes)):
            self.violations.append(f"{where} with quality {packet.qos.value}, not {attempt.qos}")

    def judge(self, *, memory_was_lost: bool) -> None:
        for driven in self._clients.values():
            client = driven.client
            where = f"{self._world.now:.3f} {client.name}"
            self.violations += [f"{where} was refused {text}" for text in client.refusals]
            if client.sessions_lost > driven.sessions_lost_seen and not memory_was_lost:
                self.violations.append(f"{where} lost its session")
        if memory_was_lost:
            # Said again to a broker that has forgotten it, it is a new publication.
            self.excused += len(self._disorder)
        else:
            self.violations += self._disorder
        self._disorder.clear()
        for attempt in self._round:
            name = f"{attempt.publisher}/{attempt.number} (qos {attempt.qos})"
            if not attempt.is_acknowledged:
                self.violations.append(f"{self._world.now:.3f} {name} was never acknowledged")
            for receiver, qos in attempt.due.items():
                self.due += bool(qos)
                times = attempt.got.get(receiver, 0)
                if qos and not times:
                    self._missing(f"{receiver} never got {name}", excuse=memory_was_lost)
                elif times > 1 and not self._may_repeat(attempt, receiver, qos):
                    self._missing(f"{receiver} got {name} {times} times", excuse=memory_was_lost)
        self._round.clear()

    def _may_repeat(self, attempt: MqttAttempt, receiver: str, qos: int) -> bool:
        """Quality 1 comes again where an acknowledgement was lost, on either side."""
        again = [self._has_lost(receiver)] if qos == 1 else []
        if attempt.qos == 1:
            again.append(self._has_lost(attempt.publisher))
        return any(again)

    def _has_lost(self, name: str) -> bool:
        driven = self._clients[name]
        return driven.client.losses > driven.losses_seen

    def _missing(self, text: str, *, excuse: bool) -> None:
        self.excused += excuse
        if not excuse:
            self.violations.append(f"{self._world.now:.3f} {text}")

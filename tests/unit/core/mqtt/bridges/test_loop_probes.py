"""Rings through bridges that lose the mark: what left the overlay over one does not circle."""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.journal.snapshot import restore_broker, take_snapshot
from pubweave.core.mqtt.bridges.echo_filter import ECHO_S, EXPECTED_MAX, ROUTES_MAX, EchoFilter
from pubweave.core.mqtt.bridges.loop_probes import EVERY_S, LEVEL, ROUTE_S, WATCHED_MAX
from pubweave.model.mqtt_packets import VERSION_3, PubAck, Publish
from tests.mqtt_world import MqttPeer, MqttWorld

STEPS_MAX = 3000
HOLD_S = MqttConfig().echo_hold_s


class Mosquitto:
    """Passes on what it gets over a bridge over all others, in the order in which it came, and
    without user properties, as 3.1.1 has it."""

    def __init__(self, *bridges: MqttPeer) -> None:
        self.bridges = bridges
        self.got: list[Publish] = []
        """What its own clients hear."""
        self._waiting: deque[tuple[MqttPeer, Publish]] = deque()
        self._last_id = 0

    def publish(self, topic: str, payload: bytes) -> None:
        """By a client of its own."""
        self._queue(Publish(topic, payload, 1), None)

    def _queue(self, packet: Publish, source: MqttPeer | None) -> None:
        for bridge in self.bridges:
            if bridge is not source:
                self._waiting.append((bridge, packet))

    def hear(self) -> bool:
        """Take in what has come over the bridges; False: nothing has."""
        found = False
        for bridge in self.bridges:
            for packet in bridge.published():
                found = True
                self.got.append(packet)
                if packet.qos:
                    bridge.say_nothing_back(PubAck(packet.packet_id or 0))
                self._queue(packet, bridge)
        return found

    def speak(self) -> bool:
        """Give the next on; False: there is none."""
        if not self._waiting:
            return False
        bridge, packet = self._waiting.popleft()
        self._last_id = self._last_id % 65_535 + 1
        packet_id = self._last_id if packet.qos else None
        said = Publish(packet.topic, packet.payload, packet.qos, packet.retain, packet_id)
        bridge.say_nothing_back(said)
        return True


def bridge(world: MqttWorld, broker: str, pattern: str = "#", name: str = "bridge") -> MqttPeer:
    """As mosquitto does it: it says first that it is there."""
    peer = world.client(f"{name}-{broker}", broker, version=VERSION_3, is_bridge=True)
    peer.say_nothing_back(Publish(f"$SYS/broker/connection/{name}-{broker}/state", b"1"))
    peer.subscribe(pattern, 1)
    return peer


def settle(world: MqttWorld, *mosquittos: Mosquitto) -> None:
    """Until nobody has anything to say; fails where that does not come."""
    for _ in range(STEPS_MAX):
        busy = [m.hear() | m.speak() for m in mosquittos]
        if not any(busy):
            before = world.now
            world.pass_time(2 * HOLD_S)
            assert world.now > before
            if not any([m.hear() for m in mosquittos]):
                return
    raise AssertionError("it circles")


def ring(brokers: int, mqtt: MqttConfig | None = None, **fields: Any) -> tuple[Any, ...]:
    """A mosquitto with a bridge to each broker, which is known to be a ring, and a hearer."""
    world = MqttWorld(brokers, mqtt, **fields)
    mosquitto = Mosquitto(*(bridge(world, name) for name in world.brokers))
    settle(world, mosquitto)
    hearer = world.client("hearer", "b1")
    hearer.subscribe("#", 0)
    return world, mosquitto, hearer


def test_a_bridge_that_only_listens_is_not_asked_until_it_says_something() -> None:
    world = MqttWorld(2)
    bridge(world, "b1")
    quiet = world.client("quiet", "b2", version=VERSION_3, is_bridge=True)
    quiet.subscribe("#", 0)
    world.pass_time(10.0)
    assert quiet.published() == []
    quiet.say_nothing_back(Publish("a", b"x"))
    assert [packet.topic for packet in quiet.published()] == [LEVEL]


def echoes(world: MqttWorld) -> int:
    gateways = [broker.mqtt for broker in world.brokers.values()]
    return sum(gateway.status(world.now).echoes for gateway in gateways if gateway is not None)


def bridges_known(world: MqttWorld) -> list[int]:
    return [b.mqtt.gossip.bridges.count for b in world.brokers.values() if b.mqtt is not None]


@pytest.mark.parametrize("brokers", [2, 3, 4])
def test_what_is_published_inside_is_heard_once(brokers: int) -> None:
    world, mosquitto, hearer = ring(brokers)
    ann = world.client("ann", "b2")
    for number in range(5):
        ann.publish("a", b"%d" % number, 1)
        settle(world, mosquitto)
    assert hearer.payloads() == [b"%d" % number for number in range(5)]
    assert echoes(world) == 5 * brokers * (brokers - 1)


@pytest.mark.parametrize("brokers", [2, 3])
def test_what_is_published_outside_comes_once_over_each_bridge(brokers: int) -> None:
    world, mosquitto, hearer = ring(brokers)
    for payload in (b"on", b"on", b"off", b"on"):
        mosquitto.publish("lamp", payload)
        settle(world, mosquitto)
    assert hearer.payloads() == [p for p in (b"on", b"on", b"off", b"on") for _ in range(brokers)]


def test_bridges_in_different_directions_are_a_ring_as_well() -> None:
    """Over one everything goes out, over the other it comes in."""
    world = MqttWorld(2)
    out = bridge(world, "b1")
    into = world.client("in", "b2", version=VERSION_3, is_bridge=True)
    mosquitto = Mosquitto(out, into)
    settle(world, mosquitto)
    hearer = world.client("hearer", "b1")
    hearer.subscribe("#", 0)
    world.client("ann").publish("a", b"x", 1)
    settle(world, mosquitto)
    assert hearer.payloads() == [b"x"] * 2, "at b2 nobody could tell before it came in twice"


def test_two_sites_with_a_bridge_each_are_no_ring() -> None:
    """And so nothing that is said again is taken for anything else."""
    world = MqttWorld(2)
    left, right = Mosquitto(bridge(world, "b1")), Mosquitto(bridge(world, "b2"))
    hearer = world.client("hearer", "b1")
    hearer.subscribe("#", 0)
    for _ in range(3):
        for site in (left, right):
            site.publish("temperature", b"21.5")
            settle(world, left, right)
    assert hearer.payloads() == [b"21.5"] * 6
    assert echoes(world) == 0
    assert {packet.topic for packet in left.got} == {"temperature", LEVEL}, "it was asked"


def test_a_single_bridge_is_asked_nothing() -> None:
    world = MqttWorld(2)
    mosquitto = Mosquitto(bridge(world, "b1"))
    settle(world, mosquitto)
    world.pass_time(2 * EVERY_S)
    mosquitto.hear()
    assert mosquitto.got == []


def test_without_the_setting_nobody_is_asked_and_it_circles() -> None:
    world = MqttWorld(2, MqttConfig(recognises_echoes=False))
    mosquitto = Mosquitto(bridge(world, "b1"), bridge(world, "b2"))
    settle(world, mosquitto)
    assert mosquitto.got == []
    world.client("ann").publish("a", b"x", 1)
    with pytest.raises(AssertionError, match="it circles"):
        settle(world, mosquitto)


def test_a_ring_that_is_refused_loses_one_bridge_of_two() -> None:
    world = MqttWorld(2, MqttConfig(on_loop="refuse"))
    mosquitto = Mosquitto(bridge(world, "b1"), bridge(world, "b2"))
    settle(world, mosquitto)
    assert [peer.is_open for peer in mosquitto.bridges].count(True) == 1
    world.client("ann").publish("a", b"x", 1)
    settle(world, mosquitto)
    assert [packet.topic for packet in mosquitto.got].count("a") == 1


def test_what_circles_before_the_ring_is_known_ends_with_it() -> None:
    world = MqttWorld(2)
    left = bridge(world, "b1")
    mosquitto = Mosquitto(left)
    settle(world, mosquitto)
    right = bridge(world, "b2")
    for peer in (left, right):
        peer.heard()  # the first probes get lost
    world.client("ann").publish("a", b"x", 1)
    mosquitto.bridges = (left, right)
    for _ in range(100):
        mosquitto.hear()
        mosquitto.speak()
    world.pass_time(3.0)
    settle(world, mosquitto)


def test_bridges_are_counted_at_all_doors_and_forgotten_when_they_go() -> None:
    world = MqttWorld(2)
    left, right = bridge(world, "b1"), bridge(world, "b2")
    world.client("v5", "b2").subscribe("#", 1, no_local=True, retain_as_published=True)
    assert bridges_known(world) == [3, 3]
    right.cut()
    assert bridges_known(world) == [2, 2]
    left.cut()
    assert bridges_known(world) == [1, 1]


def test_the_bridges_of_a_door_that_is_silent_are_forgotten() -> None:
    world = MqttWorld(2)
    bridge(world, "b1")
    bridge(world, "b2")
    world.is_slow = True
    world.pass_time(60.0)
    assert bridges_known(world) == [1, 1]


def test_a_door_that_has_missed_something_of_bridges_hears_it_with_the_next_announcement() -> None:
    world = MqttWorld(2)
    bridge(world, "b2")
    world.brokers["b1"].mqtt.gossip.bridges.heard("b2", 0)  # type: ignore[union-attr]
    assert bridges_known(world) == [0, 1]
    world.pass_time(11.0)
    assert bridges_known(world) == [1, 1]


def test_what_comes_from_a_watched_bridge_waits_a_moment_and_in_order() -> None:
    world, mosquitto, hearer = ring(2)
    left = mosquitto.bridges[0]
    packets = [Publish("a", b"%d" % n, 1, packet_id=n) for n in (1, 2)]
    assert left.say(*packets) == []
    assert hearer.heard() == []
    world.pass_time(HOLD_S + 0.01)
    assert [p for p in left.heard() if isinstance(p, PubAck)] == [PubAck(1), PubAck(2)]
    assert hearer.payloads() == [b"1", b"2"]


def test_only_so_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pubweave.core.mqtt.publish.HELD_MAX", 3)
    _, mosquitto, hearer = ring(2)
    for number in range(5):
        mosquitto.bridges[0].say(Publish("a", b"%d" % number, 1, packet_id=number + 1))
    assert hearer.payloads() == [b"0", b"1"]


def test_what_waits_is_taken_in_when_its_bridge_goes() -> None:
    _, mosquitto, hearer = ring(2)
    left = mosquitto.bridges[0]
    left.say(Publish("a", b"last", 1, packet_id=1))
    left.cut()
    assert hearer.payloads() == [b"last"]


def test_a_way_that_is_no_more_is_forgotten() -> None:
    world, mosquitto, _ = ring(2)
    gateway = world.brokers["b1"].mqtt
    session = gateway.sessions.by_name.get("mqtt:bridge-b1")
    assert gateway.loop_probes.is_watched(session)
    for _ in range(8):
        world.pass_time(ROUTE_S / 4)
        for peer in mosquitto.bridges:
            peer.heard()  # the mosquitto passes nothing on any more
    assert not gateway.loop_probes.is_watched(session)


def test_what_is_known_of_a_ring_survives_with_the_broker() -> None:
    world, mosquitto, _ = ring(2)
    left = mosquitto.bridges[0]
    left.say(Publish("a", b"held", 1, packet_id=1))
    broker = world.brokers["b1"]
    data = take_snapshot(broker)
    gateway = restore_broker(data, broker.config, epoch=1, now=world.now).mqtt
    assert gateway is not None
    session = gateway.sessions.by_name.get("mqtt:bridge-b1")
    assert session is not None
    assert gateway.loop_probes.is_watched(session)
    assert gateway.deadline <= world.now + HOLD_S, "what waits still does"


def test_only_so_many_are_watched() -> None:
    world, mosquitto, _ = ring(2)
    probe = next(p for p in mosquitto.got if p.topic == LEVEL and b"bridge-b1" in p.payload)
    for number in range(WATCHED_MAX + 5):
        world.client(f"c{number}", "b2").publish(LEVEL, probe.payload)
    gateway = world.brokers["b2"].mqtt
    watched = [s for s in gateway.sessions.by_name.values() if gateway.loop_probes.is_watched(s)]
    assert len(watched) == WATCHED_MAX


def test_something_that_only_looks_like_a_probe_is_a_publication() -> None:
    _, mosquitto, hearer = ring(2)
    world = mosquitto.bridges[0].world
    for payload in (f"{LEVEL} {{", f'{LEVEL} ["b9.9","mqtt:x","#"]', LEVEL):
        world.client("ann").publish("a", payload.encode())
    assert len(hearer.payloads()) == 3


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), brokers=st.integers(2, 4), inside=st.booleans())
def test_it_ends_and_loses_nothing_however_slow_the_overlay_is(
    seed: int, brokers: int, inside: bool
) -> None:
    """The mosquitto and each link of the overlay go on in any order; time may pass meanwhile, so
    that echoes overtake the publications that they are of."""
    chance = random.Random(seed)
    world, mosquitto, hearer = ring(brokers)
    hearer.heard()
    world.is_slow = True
    payloads = [b"%d" % number for number in range(4)]
    ann = world.client("ann", f"b{chance.randint(1, brokers)}")
    for payload in payloads:
        if inside:
            ann.publish("a", payload, 1)
        else:
            mosquitto.publish("a", payload)
    quiet_s = 0.0
    for _ in range(STEPS_MAX):
        choice = chance.random()
        if choice < 0.45 and world.under_way:
            world.arrive(chance.choice(list(world.under_way)))
        elif choice < 0.9 and (mosquitto.hear() | mosquitto.speak()):
            quiet_s = 0.0
        elif choice >= 0.9:
            world.pass_time(HOLD_S / 2)
            quiet_s += 0.0 if world.under_way else HOLD_S / 2
        if quiet_s > 4 * HOLD_S:
            break
    else:
        raise AssertionError("it circles")
    heard = Counter(hearer.payloads())
    assert sorted(heard) == payloads, "something is lost"
    assert max(heard.values()) <= brokers**2, heard


def test_expectations_end_with_time_and_are_bounded() -> None:
    some = EchoFilter()
    some.learn("mqtt:left", "#", 1000.0)
    some.expect("a", b"x", "", 0.0)
    assert not some.consume("a", b"x", ECHO_S)
    for number in range(EXPECTED_MAX + 1):
        some.expect("a", b"%d" % number, "", 20.0)
    assert not some.consume("a", b"0", 20.0)
    assert some.consume("a", b"1", 20.0)
    assert not some.consume("b", b"2", 20.0)
    for number in range(ROUTES_MAX + 1):
        some.learn(f"mqtt:{number}", "#", 1000.0)
    some.expect("c", b"", "mqtt:3", 21.0)
    assert sum(some.consume("c", b"", 21.0) for _ in range(2 * ROUTES_MAX)) == ROUTES_MAX - 1


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.sampled_from((0.0, 1.0, 6.0)))))
def test_expectations_are_a_multiset_with_an_end(steps: list[tuple[str, bool, float]]) -> None:
    some, model, now = EchoFilter(), [], 0.0
    some.learn("mqtt:left", "#", 1e9)
    for topic, is_expected, later_s in steps:
        now += later_s
        model = [(t, until) for t, until in model if until > now]
        if is_expected:
            some.expect(topic, b"", "", now)
            model.append((topic, now + ECHO_S))
            continue
        first = next((one for one in model if one[0] == topic), None)
        assert some.consume(topic, b"", now) == (first is not None)
        if first is not None:
            model.remove(first)

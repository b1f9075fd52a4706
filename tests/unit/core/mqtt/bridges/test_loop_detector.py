"""Loops over bridges are noticed and warned about, or ended; who repeats itself is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.bridges.loop_detector import (
    PAIRS_MAX,
    REMEMBERED_MAX,
    SHOWN_S,
    WARN_EVERY_S,
    WINDOW_S,
)
from pubweave.core.vocabulary.effects import Effect, ReportProblem
from pubweave.model.mqtt_packets import VERSION_3, Disconnect, Publish, Reason
from pubweave.model.publications import Publication
from pubweave.runtime.broker.host import BrokerHost
from tests.circling import Connection, Outside, both
from tests.mqtt_world import MqttPeer, MqttWorld
from tests.sockets.harness import settings_of

REFUSE = MqttConfig(on_loop="refuse")
LONG_S = 4 * WINDOW_S


def gateway(world: MqttWorld, broker: str = "b1") -> Any:
    return world.brokers[broker].mqtt


def total(world: MqttWorld, name: str) -> int:
    return sum(getattr(gateway(world, b).status(world.now), name) for b in world.brokers)


def ring(mqtt: MqttConfig, brokers: int = 2, **fields: Any) -> tuple[MqttWorld, Outside]:
    """A mosquitto with two bridges on a topic without wildcards, which no probe can use."""
    world = MqttWorld(brokers, mqtt)
    outside = Outside(world)
    outside.site(*(both(f"b{min(n, brokers)}", "t", **fields) for n in (1, 2)))
    return world, outside


def bridges(outside: Outside) -> list[MqttPeer]:
    return [one.peer for site in outside._sites for one in site if one.peer is not None]


# --- loops -----------------------------------------------------------------------------------


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_loop_is_counted_and_both_bridges_are_named(brokers: int) -> None:
    world, outside = ring(MqttConfig(), brokers)
    world.client("ann").publish("t", b"x", 1)
    outside.run(LONG_S)
    assert total(world, "loops") >= 1
    assert world.problems, "nobody hears of it"
    for text in world.problems:
        assert {"'site0-0'", "'site0-1'", "'t'"} <= set(text.replace(":", "").split()), text
        assert " brings back " in text
        assert "MQTT 5" in text
    assert any(gateway(world, b).status(world.now).loop in world.problems for b in world.brokers)
    assert all(peer.is_open for peer in bridges(outside)), "a warning ends nothing"
    assert total(world, "loops_refused") == 0


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_loop_is_ended_where_that_is_wanted(brokers: int) -> None:
    world, outside = ring(REFUSE, brokers)
    ann = world.client("ann")
    ann.publish("t", b"x", 1)
    outside.run(LONG_S)
    assert total(world, "loops_refused") >= 1
    assert not all(peer.is_open for peer in bridges(outside))
    passed = outside.passed
    ann.publish("t", b"x", 1)
    outside.run(LONG_S, most=passed + 1)


def test_a_loop_in_one_direction_is_ended_at_the_broker_where_it_comes_in() -> None:
    world = MqttWorld(2, REFUSE)
    outside = Outside(world)
    out, into = Connection("b1", {"t": "t"}, {}), Connection("b2", {}, {"t": "t"})
    outside.site(out, into)
    world.client("ann").publish("t", b"x", 1)
    outside.run(LONG_S)
    assert [peer.is_open for peer in bridges(outside)] == [True, False]
    assert gateway(world, "b2").status(world.now).loops_refused == 1
    assert "bridge 'site0-1' brings back what bridge 'site0-0' is sent" in world.problems[0]


def test_a_loop_that_began_outside_is_warned_about_but_no_proof() -> None:
    """It looks like two sites with a fast sensor each."""
    world, outside = ring(REFUSE)
    outside.say(0, "t", b"x")
    outside.run(LONG_S)
    assert world.problems
    assert all("probably" in text for text in world.problems)
    assert all(peer.is_open for peer in bridges(outside))


def test_a_probe_that_comes_in_unmarked_is_proof() -> None:
    for mqtt in (MqttConfig(), REFUSE):
        world = MqttWorld(2, mqtt)
        left = world.client("left", "b1", version=VERSION_3, is_bridge=True)
        left.say_nothing_back(Publish("hello", b""))
        left.subscribe("#")
        right = world.client("right", "b2", version=VERSION_3, is_bridge=True)
        world.pass_time(0.1)
        for probe in left.published():
            right.say_nothing_back(Publish(probe.topic, probe.payload))
        (text,) = world.problems
        assert "bridge 'right' brings back what bridge 'left' is sent on topic '#'" in text
        assert right.is_open == (mqtt.on_loop == "warn")
        assert gateway(world, "b2").status(world.now).loops == 1


def test_a_bridge_of_version_5_is_told_why() -> None:
    world = MqttWorld(1, REFUSE)
    right = world.client("right")
    session = gateway(world).sessions.by_name.get("mqtt:right")
    right.got.clear()
    gateway(world).loop_detector.note(session, "alice/mqtt:left", "t", world.now, is_proof=True)
    world.pass_time(0.1)
    (packet,) = [p for p in right.heard() if isinstance(p, Disconnect)]
    assert packet.reason == Reason.ADMINISTRATIVE_ACTION
    assert "'left'" in (packet.reason_text or "")
    assert not right.is_open


# --- no loops --------------------------------------------------------------------------------


def sites(mqtt: MqttConfig) -> tuple[MqttWorld, Outside, MqttPeer]:
    """Two mosquittos with a bridge each, and who hears them inside."""
    world = MqttWorld(2, mqtt)
    outside = Outside(world)
    for broker in world.brokers:
        outside.site(both(broker, "beat", "reading", says_so=True))
    hearer = world.client("hearer")
    hearer.subscribe("beat")
    hearer.subscribe("reading", packet_id=2)
    return world, outside, hearer


@pytest.mark.parametrize("is_first_inside", [False, True])
def test_a_heartbeat_beside_readings_is_neither_delayed_nor_warned_about(
    is_first_inside: bool,
) -> None:
    world, outside, hearer = sites(REFUSE)
    if is_first_inside:
        world.client("ann").publish("beat", b"on")
    said = hearer.payloads()
    begun = world.now
    for number in range(300):
        outside.say(number % 2, "beat", b"on")
        outside.say(0, "reading", b"%d" % number)
        outside.run(0.01)
        said += hearer.payloads()
        assert said.count(b"on") == number + 1 + is_first_inside
        assert said.count(b"%d" % number) == 1, "late"
        outside.run(0.19)
    assert world.now - begun > 2 * LONG_S
    assert world.problems == []
    assert total(world, "loops") == total(world, "echoes") == 0


def test_a_queue_that_is_sent_after_an_outage_is_no_loop() -> None:
    world, outside, hearer = sites(REFUSE)
    world.client("ann").publish("beat", b"on")
    for _ in range(3000):
        outside.say(0, "beat", b"on")
    outside.run(LONG_S)
    assert len(hearer.payloads()) == 3001
    assert world.problems == []


def test_a_fast_sensor_is_warned_about_at_most() -> None:
    world, outside, hearer = sites(REFUSE)
    for _ in range(1000):
        outside.say(0, "beat", b"0")
        outside.run(0.02)
    assert len(hearer.payloads()) == 1000
    assert all("probably" in text for text in world.problems)
    assert all(peer.is_open for peer in bridges(outside))


def test_a_client_that_is_no_bridge_is_no_loop() -> None:
    world, outside, _ = sites(REFUSE)
    ann, bob = world.client("ann"), world.client("bob", "b2")
    ann.publish("beat", b"0")
    for _ in range(1000):
        bob.publish("beat", b"0")
        outside.run(0.02)
    assert (world.problems, bob.is_open) == ([], True)


# --- where it is looked for ------------------------------------------------------------------


def test_nothing_is_looked_at_without_two_bridges(monkeypatch: pytest.MonkeyPatch) -> None:
    world = MqttWorld(1)
    left = world.client("left", version=VERSION_3, is_bridge=True)
    left.subscribe("#")
    probes, detector = gateway(world).loop_probes, gateway(world).loop_detector
    for part, name in ((probes, "notified"), (probes, "consume_echo"), (detector, "delivered")):
        monkeypatch.setattr(part, name, lambda *given: pytest.fail("it is looked at"))
    world.client("ann").publish("a", b"pubweave-ring [", 1)
    assert left.payloads() == [b"pubweave-ring ["]


def test_only_what_bridges_get_is_counted() -> None:
    world, outside, _ = sites(MqttConfig())
    world.client("ann").publish("elsewhere", b"x")
    assert gateway(world).loop_detector._repeated == {}
    outside.say(1, "beat", b"on")
    outside.run(0.1)
    assert [name for name, _ in gateway(world).loop_detector._repeated] == ["mqtt:site0-0"]


def test_the_log_has_what_people_are_to_hear(caplog: pytest.LogCaptureFixture) -> None:
    host = BrokerHost(settings_of("b1"))
    host._carry_out([ReportProblem("a loop")])
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "broker b1: a loop")
    ]


# --- bounds ----------------------------------------------------------------------------------


def test_the_log_hears_of_the_same_two_now_and_then() -> None:
    world = MqttWorld(1)
    world.client("right")
    detector, session = (
        gateway(world).loop_detector,
        gateway(world).sessions.by_name.get("mqtt:right"),
    )

    def problems(other: str) -> int:
        effects: list[Effect] = []
        world.brokers["b1"]._outgoing.effects = effects
        detector.note(session, other, "t", world.now, is_proof=True)
        return len(effects)

    assert [problems(name) for name in ("mqtt:a", "mqtt:a", "mqtt:b")] == [1, 0, 1]
    assert "'b'" in gateway(world).status(world.now).loop
    world.pass_time(SHOWN_S + 1.0)
    assert gateway(world).status(world.now).loop == ""
    world.pass_time(WARN_EVERY_S)
    assert problems("mqtt:a") == 1
    for number in range(PAIRS_MAX + 5):
        detector.note(session, f"mqtt:{number}", "t", world.now, is_proof=True)
    assert len(detector._warned) == PAIRS_MAX
    assert detector.noticed == PAIRS_MAX + 9


def test_only_so_much_is_remembered() -> None:
    world = MqttWorld(1)
    world.client("left", version=VERSION_3, is_bridge=True)
    detector, session = (
        gateway(world).loop_detector,
        gateway(world).sessions.by_name.get("mqtt:left"),
    )
    for number in range(REMEMBERED_MAX + 5):
        detector.delivered(
            session, Publication("mqtt:a@b1", number, f"{number}", {}, b"", 0.0), 0.0
        )
    assert len(detector._repeated) == REMEMBERED_MAX

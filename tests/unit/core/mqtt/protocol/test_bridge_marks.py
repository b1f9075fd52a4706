"""A ring through a bridge: what left the overlay does not come in again."""

from __future__ import annotations

import pytest

from pubweave.core.mqtt.protocol.bridge_marks import PROPERTY, BridgeMarks
from pubweave.model.mqtt_packets import VERSION_3, Content, PubAck, PubComp, Publish, PubRec, PubRel
from tests.mqtt_world import MqttPeer, MqttWorld

BRIDGE = {"no_local": True, "retain_as_published": True}


def bridge(world: MqttWorld, broker: str) -> MqttPeer:
    peer = world.client(f"bridge-{broker}", broker)
    peer.subscribe("#", 1, **BRIDGE)
    return peer


def passed_on(packet: Publish) -> Publish:
    """As mosquitto does it: user properties and all."""
    return Publish(packet.topic, packet.payload, 1, packet_id=9, content=packet.content)


def echoes(world: MqttWorld, broker: str) -> int:
    gateway = world.brokers[broker].mqtt
    assert gateway is not None
    return gateway.status(world.now).echoes


def test_what_a_bridge_brings_back_at_another_broker_is_answered_and_goes_nowhere() -> None:
    world = MqttWorld(2)
    left, right = bridge(world, "b1"), bridge(world, "b2")
    hearer = world.client("hearer", "b2")
    hearer.subscribe("#", 1)
    world.client("ann").publish("a", b"x", 1)
    (packet,) = left.published()
    right.heard()
    assert hearer.payloads() == [b"x"]
    assert right.say(passed_on(packet))[-1:] == [PubAck(9)], "behind a probe of the gateway"
    assert (hearer.payloads(), left.payloads()) == ([], [])
    assert echoes(world, "b2") == 1


def test_an_echo_of_qos_2_is_answered_to_its_end() -> None:
    world = MqttWorld()
    mark = world.brokers["b1"].mqtt.gossip.marks.own  # type: ignore[union-attr]
    content = Content(user_properties=((PROPERTY, f"{mark} ann 1"),))
    ann = world.client("ann")
    assert ann.publish("a", b"x", 2, content=content, retain=True) == [PubRec(7)]
    assert ann.say(PubRel(7)) == [PubComp(7)]
    assert ann.subscribe("a") == (0,)
    assert ann.heard() == [], "nor is it retained"


def test_the_mark_says_where_a_publication_comes_from() -> None:
    world = MqttWorld()
    left = bridge(world, "b1")
    world.client("ann").publish("a", b"x", content=Content(user_properties=(("k", "v"),)))
    (packet,) = left.published()
    kept, (name, value) = packet.content.user_properties
    assert (kept, name) == (("k", "v"), PROPERTY)
    gateway, publisher, sequence = value.split(" ")
    assert (gateway.split(".")[0], publisher) == ("b1", "mqtt:ann@b1")
    assert sequence.isdigit()


@pytest.mark.parametrize(
    ("version", "options"),
    [(5, {}), (5, {"no_local": True}), (5, {"retain_as_published": True}), (VERSION_3, {})],
)
def test_others_are_told_nothing(version: int, options: dict[str, bool]) -> None:
    world = MqttWorld()
    ann = world.client("ann", version=version)
    ann.subscribe("a", 1, **options)
    world.client("bob").publish("a", b"x")
    assert [p.content for p in ann.published()] == [Content()]


def test_what_another_overlay_marked_is_new_here() -> None:
    world = MqttWorld()
    hearer = world.client("hearer")
    hearer.subscribe("a", 1)
    content = Content(user_properties=((PROPERTY, "b1.77 ann 1"),))
    world.client("ann").publish("a", b"x", 1, content=content)
    assert hearer.payloads() == [b"x"]


def test_a_door_is_known_by_its_marks_of_before() -> None:
    marks = BridgeMarks("b1", 1)
    for mark in ("b2.1", "b2.2", ""):
        marks.learn(mark)
    known = [Content(user_properties=((PROPERTY, f"{m} ann 1"),)) for m in ("b2.1", "b2.2", "")]
    assert [marks.is_known(content) for content in known] == [True, True, False]

"""What an operator can set at a gateway, and the bounds that it has by itself."""

from __future__ import annotations

import pytest

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.protocol.topics import SEPARATORS_MAX
from pubweave.core.vocabulary.events import AccessChanged, LoginReceived, PasswordVerified
from pubweave.model.filters.text import parse_filter
from pubweave.model.mqtt_packets import (
    VERSION_3,
    Disconnect,
    PubAck,
    Publish,
    Reason,
    Subscribe,
    TopicFilter,
    Will,
)
from pubweave.model.records.access import AccessRules, UserRules
from tests.mqtt_world import MqttPeer, MqttWorld


def why_ended(peer: MqttPeer) -> list[int]:
    assert not peer.is_open
    return [packet.reason for packet in peer.heard() if isinstance(packet, Disconnect)]


# --- sizes -----------------------------------------------------------------------------------


def test_a_payload_beyond_the_limit_is_refused_and_counted() -> None:
    world = MqttWorld(mqtt=MqttConfig(max_payload_bytes=1))
    ann, bob = world.client("ann"), world.client("bob")
    ann.subscribe("a", 1)
    assert bob.publish("a", b"1", 1) == [PubAck(7)]
    (answer,) = bob.publish("a", b"22", 1)
    assert answer.reason == Reason.QUOTA_EXCEEDED
    assert bob.publish("a", b"333") == []
    assert bob.is_open
    assert ann.payloads() == [b"1"]
    gateway = world.brokers["b1"].mqtt
    assert gateway is not None
    assert gateway.status(world.now).too_large == 2


@pytest.mark.parametrize("version", [VERSION_3, 5])
def test_a_will_beyond_the_limit_is_refused(version: int) -> None:
    world = MqttWorld(mqtt=MqttConfig(max_payload_bytes=1))
    answer = world.peer().connect("ann", version=version, will=Will("a", b"22"))
    assert answer.reason == Reason.PACKET_TOO_LARGE
    assert world.peer().connect("ann", version=version, will=Will("a", b"1")).reason == 0


@pytest.mark.parametrize("beyond", [0, 1])
def test_topics_and_filters_have_so_many_levels(beyond: int) -> None:
    world = MqttWorld()
    ann, bob = world.client("ann"), world.client("bob")
    topic = "/" * (SEPARATORS_MAX + beyond)
    ann.say_nothing_back(Subscribe(1, (TopicFilter(topic),)))
    bob.say_nothing_back(Publish(topic, b"x"))
    if beyond:
        assert why_ended(ann) == [Reason.TOPIC_FILTER_INVALID]
        assert why_ended(bob) == [Reason.TOPIC_NAME_INVALID]
    else:
        assert ann.payloads() == [b"x"]


# --- what a gateway does not have ---------------------------------------------------------------


def test_a_door_without_client_ids_to_give_refuses_those_who_have_none() -> None:
    world = MqttWorld(mqtt=MqttConfig(assigns_client_ids=False))
    assert world.peer().connect("").reason == Reason.CLIENT_ID_NOT_VALID
    assert world.peer().connect("", version=VERSION_3).reason == Reason.CLIENT_ID_NOT_VALID
    assert world.peer().connect("ann").reason == 0


def test_a_door_that_retains_nothing_says_so_and_ends_who_tries() -> None:
    world = MqttWorld(mqtt=MqttConfig(retains=False))
    bob = world.peer()
    assert not bob.connect("bob").takes_retained
    bob.say_nothing_back(Publish("a", b"x", retain=True))
    assert why_ended(bob) == [Reason.RETAIN_NOT_SUPPORTED]
    answer = world.peer().connect("bob", will=Will("a", b"", retain=True))
    assert answer.reason == Reason.RETAIN_NOT_SUPPORTED


def test_a_quality_beyond_the_best_is_not_taken_and_not_granted() -> None:
    world = MqttWorld(mqtt=MqttConfig(qos_max=1))
    ann, bob = world.client("ann"), world.peer()
    assert ann.subscribe("a", 2) == (1,)
    assert bob.connect("bob").qos_max == 1
    bob.publish("a", b"1", 1)
    bob.say_nothing_back(Publish("a", b"2", 2, packet_id=7))
    assert why_ended(bob) == [Reason.QOS_NOT_SUPPORTED]
    assert ann.payloads() == [b"1"]
    answer = world.peer().connect("bob", will=Will("a", b"", qos=2))
    assert answer.reason == Reason.QOS_NOT_SUPPORTED


@pytest.mark.parametrize(("upgrades", "qos"), [(False, 0), (True, 1)])
def test_a_quality_may_be_raised_to_what_was_subscribed_to(upgrades: bool, qos: int) -> None:
    world = MqttWorld(mqtt=MqttConfig(upgrades_qos=upgrades))
    ann, bob = world.client("ann"), world.client("bob")
    bob.publish("a", b"retained", 0, retain=True)
    ann.subscribe("a", 1)
    bob.publish("a", b"x", 0)
    assert [(p.payload, p.qos) for p in ann.published()] == [(b"retained", qos), (b"x", qos)]


# --- bridges -----------------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [1, 2])
def test_a_bridge_that_tells_of_itself_is_heard_and_nobody_hears_of_it(qos: int) -> None:
    world = MqttWorld()
    ann, bridge = world.client("ann"), world.client("bridge", version=VERSION_3)
    ann.subscribe("$SYS/#", 2)
    topic = "$SYS/broker/connection/bridge/state"
    (answer,) = bridge.publish(topic, b"1", qos, retain=True)
    assert answer.reason == 0
    assert ann.published() == []
    ann.subscribe("$SYS/#", 2)
    assert ann.published() == []


# --- rights that are gone --------------------------------------------------------------------


def rules(publish: str) -> AccessRules:
    everything = (parse_filter("*"),)
    ann = UserRules((parse_filter(publish),), everything)
    return AccessRules({"ann": ann, "bob": UserRules(everything, everything)})


def enter(world: MqttWorld, user: str) -> MqttPeer:
    peer = world.peer()
    world.handle("b1", LoginReceived(peer.number, user))
    world.handle("b1", PasswordVerified(peer.number, user))
    assert peer.connect(user).reason == 0
    return peer


def retained(world: MqttWorld) -> list[bytes]:
    bob = enter(world, "bob")
    bob.subscribe("#")
    return [packet.payload for packet in bob.heard() if isinstance(packet, Publish)]


def test_what_is_retained_is_not_shown_when_its_publisher_lost_the_right_to_it() -> None:
    world = MqttWorld(access=rules("*"))
    ann = enter(world, "ann")
    ann.publish("a/1", b"1", retain=True)
    ann.publish("b/1", b"2", retain=True)
    assert sorted(retained(world)) == [b"1", b"2"]
    world.handle("b1", AccessChanged(rules("class prefix 'b/'")))
    assert retained(world) == [b"2"]
    world.handle("b1", AccessChanged(rules("*")))
    assert sorted(retained(world)) == [b"1", b"2"]
    others = AccessRules({"bob": rules("*").users["bob"]})
    world.handle("b1", AccessChanged(others))
    assert retained(world) == []


def test_what_anonymous_clients_retained_goes_with_their_right_to_come() -> None:
    everything = (parse_filter("*"),)
    users = {name: UserRules(everything, everything) for name in ("bob", "anonymous")}
    world = MqttWorld(access=AccessRules(users, anonymous=True))
    world.client("ann").publish("a", b"1", retain=True)
    assert retained(world) == [b"1"]
    world.handle("b1", AccessChanged(AccessRules(users, anonymous=False)))
    assert retained(world) == []

"""Sessions that go from one door to another with their client."""

from __future__ import annotations

import pytest

from pubweave.core.events import MigrationRequested
from pubweave.core.mqtt_config import MqttConfig
from pubweave.model.mqtt_packets import (
    VERSION_3,
    Connect,
    Disconnect,
    PubAck,
    Publish,
    PubRec,
    PubRel,
    Reason,
    Will,
)
from tests.mqtt_world import MqttPeer, MqttWorld

KEPT = {"session_expiry_s": 100}


def come_to(world: MqttWorld, broker: str, client_id: str = "ann") -> MqttPeer:
    peer = world.peer(broker)
    assert peer.connect(client_id, clean_start=False, **KEPT).session_present
    return peer


def is_over(world: MqttWorld, broker: str) -> bool:
    return f"mqtt:ann@{broker}" not in world.brokers[broker].sessions.clients


@pytest.mark.parametrize("kept", [{}, KEPT])
def test_the_old_connection_is_told_that_it_was_taken_over(kept: dict[str, int]) -> None:
    world = MqttWorld(3)
    old = world.client("ann", **kept)
    world.client("ann", "b3")
    (last,) = old.heard()
    assert isinstance(last, Disconnect)
    assert last.reason == Reason.SESSION_TAKEN_OVER
    assert not old.is_open
    assert is_over(world, "b1")


def test_a_session_goes_on_where_its_client_connects() -> None:
    world = MqttWorld(3)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a/#", 2, subscription_id=4)
    bob = world.client("bob", "b2")
    bob.publish("a/1", b"under way", 1)
    sent = ann.published()
    ann.cut()
    bob.publish("a/2", b"waiting", 1)
    ann = come_to(world, "b3")
    bob.publish("a/3", b"live", 1)
    got = ann.published()
    assert [(p.payload, p.is_duplicate) for p in got] == [
        (b"under way", True),
        (b"waiting", False),
        (b"live", False),
    ]
    assert got[0].packet_id == sent[0].packet_id
    assert {p.subscription_ids for p in got} == {(4,)}
    assert is_over(world, "b1")
    world.pass_time(2)
    ann = come_to(world, "b1")
    assert [p.payload for p in ann.answer()] == [b"under way", b"waiting", b"live"]


def test_a_connected_client_can_move_too() -> None:
    world = MqttWorld(2)
    old = world.client("ann", **KEPT)
    old.subscribe("a", 1)
    ann = come_to(world, "b2")
    assert not old.is_open
    world.client("bob").publish("a", b"x", 1)
    assert ann.payloads() == [b"x"]


def test_qos_2_goes_on_at_the_new_door() -> None:
    world = MqttWorld(2)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 2)
    bob = world.client("bob", **KEPT)
    assert bob.publish("a", b"once", 2) == [PubRec(7)]
    (sent,) = ann.published()
    ann.say(PubRec(sent.packet_id or 0))
    bob = come_to(world, "b2", "bob")
    assert bob.publish("a", b"once", 2, is_duplicate=True) == [PubRec(7)]
    ann = come_to(world, "b2")
    assert ann.heard() == [PubRel(sent.packet_id or 0)]


def test_what_comes_on_the_way_is_delivered_once_and_in_order() -> None:
    world = MqttWorld(3)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 1)
    ann.cut()
    bob, carl = world.client("bob"), world.client("carl", "b3")
    held: list = []
    # Words of doors are slow today: publications overtake the handover, not each other.
    door = world.brokers["b1"].door
    assert door is not None
    say, door.doors.say = door.doors.say, lambda word, now: held.append(word)  # type: ignore
    bob.publish("a", b"1", 1)
    peer = world.peer("b3")
    peer.say_nothing_back(*_connect())
    bob.publish("a", b"2", 1)
    carl.publish("a", b"3", 1)
    door.doors.say = say  # type: ignore[method-assign]
    for word in held:
        say(word, world.now)
    bob.publish("a", b"4", 1)
    carl.publish("a", b"5", 1)
    world.pass_time(0.5)
    got = [p.payload for p in peer.answer()]
    assert sorted(got) == [b"1", b"2", b"3", b"4", b"5"]
    assert [p for p in got if p in (b"1", b"2", b"4")] == [b"1", b"2", b"4"]
    assert is_over(world, "b1")


def _connect() -> tuple:
    return (Connect("ann", clean_start=False, session_expiry_s=100),)


def test_a_door_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    world = MqttWorld(2)
    world.client("ann", **KEPT).cut()
    far = world.brokers["b1"].door
    assert far is not None
    far.doors.on_move = lambda door, word, now: None
    peer = world.peer("b2")
    peer.say_nothing_back(*_connect(), Publish("a", b"early", 1, packet_id=3))
    assert peer.heard() == []
    world.pass_time(4)
    answer, acknowledged = peer.heard()
    assert not answer.session_present  # type: ignore[union-attr]
    assert acknowledged == PubAck(3)


def test_clean_start_elsewhere_ends_the_session_and_its_will_is_void() -> None:
    world = MqttWorld(2)
    seen = world.client("seen")
    seen.subscribe("w", 1)
    ann = world.client("ann", will=Will("w", b"gone", 1, delay_s=50), **KEPT)
    ann.subscribe("a", 1)
    ann.cut()
    world.client("ann", "b2")
    world.pass_time(60)
    assert is_over(world, "b1")
    assert seen.payloads() == []


# --- redirection -----------------------------------------------------------------------------


def redirect(world: MqttWorld, client: str, destination: str = "b2") -> str:
    """Ask as an operator does; what became of it."""
    world.handle("b1", MigrationRequested(f"mqtt:{client}@b1", destination))
    migrations = world.brokers["b1"].migrations
    assert migrations is not None
    return migrations.status().last


def door_at(address: str) -> MqttConfig:
    return MqttConfig(address=address)


def test_a_client_is_sent_to_another_door_and_takes_its_session_along() -> None:
    world = MqttWorld(2, door_at("10.0.0.9:1883"))
    ann = world.client("ann", will=Will("a", b"gone", 1), **KEPT)
    ann.subscribe("a", 1)
    assert "done" in redirect(world, "ann")
    (last,) = ann.heard()
    assert isinstance(last, Disconnect)
    assert (last.reason, last.server_reference) == (Reason.USE_ANOTHER_SERVER, "10.0.0.9:1883")
    bob = world.client("bob")
    bob.publish("a", b"meanwhile", 1)
    ann = come_to(world, "b2")
    bob.publish("a", b"there", 1)
    assert [p.payload for p in ann.answer()] == [b"meanwhile", b"there"]
    assert is_over(world, "b1")


def test_a_client_that_ignores_it_is_left_alone_for_a_while() -> None:
    world = MqttWorld(2, door_at("10.0.0.9:1883"))
    world.client("ann", **KEPT).subscribe("a", 1)
    redirect(world, "ann")
    ann = come_to(world, "b1")
    assert "lately" in redirect(world, "ann")
    assert ann.is_open
    world.pass_time(61)
    assert "done" in redirect(world, "ann")
    assert not ann.is_open


def test_who_cannot_be_redirected_stays() -> None:
    world = MqttWorld(2, door_at("10.0.0.9:1883"))
    old = world.client("old", version=VERSION_3)
    assert "only connected MQTT 5 clients" in redirect(world, "old")
    assert old.is_open
    world.client("ann")
    assert "no door of b7" in redirect(world, "ann", "b7")


def test_clients_are_sent_one_after_the_other() -> None:
    world = MqttWorld(2, door_at("10.0.0.9:1883"))
    peers = [world.client(f"c{n}") for n in range(5)]
    for number in range(5):
        redirect(world, f"c{number}")
    assert [peer.is_open for peer in peers] == [False, True, True, True, True]
    world.pass_time(0.12)
    assert [peer.is_open for peer in peers] == [False, False, False, True, True]
    world.pass_time(1)
    assert not any(peer.is_open for peer in peers)

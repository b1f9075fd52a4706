"""Sessions that go from one gateway to another with their client."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.relocation.relocator import Relocator
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.core.vocabulary.events import (
    ActionRequested,
    DeadlineReached,
    Event,
    MessagesReceived,
    MigrationRequested,
)
from pubweave.model.mqtt_packets import (
    VERSION_3,
    VERSION_5,
    ConnAck,
    Connect,
    Disconnect,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Reason,
    Will,
)
from pubweave.model.plans import Detach
from pubweave.model.publications import Publication
from pubweave.model.records.status import MqttStatus
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


def test_a_door_says_that_a_session_has_arrived_after_its_subscriptions() -> None:
    """Whoever publishes between the two would be heard at neither gateway."""
    world = MqttWorld(2)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 1)
    ann.cut()
    said: list[str] = []
    handle = world.brokers["b2"].handle

    def listening(event: Event, now: float) -> list[Effect]:
        effects = handle(event, now)
        for effect in effects:
            for message in effect.messages if isinstance(effect, Transmit) else ():
                is_arrived = isinstance(message, Publication) and b"arrived" in message.payload
                said.append("arrived" if is_arrived else type(message).__name__)
        return effects

    world.brokers["b2"].handle = listening  # type: ignore[method-assign]
    come_to(world, "b2")
    assert said.index("Subscribe") < said.index("arrived")


def test_what_comes_together_with_the_word_that_a_session_has_arrived_is_not_lost() -> None:
    """As after a link was down: a word about something else, the publication and the word, in one
    event of the old gateway."""
    world = MqttWorld(2)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 1)
    ann.cut()
    bob = world.client("bob", "b2")
    old = world.brokers["b1"]
    assert old.mqtt is not None
    messages: list = []
    say = old.mqtt.gossip.publish
    old.mqtt.gossip.publish = lambda message, now: messages.append(message)  # type: ignore
    peer = world.peer("b2")
    peer.say_nothing_back(*_connect())
    held: list[MessagesReceived] = []
    handle = old.handle

    def holding(event: Event, now: float) -> list[Effect]:
        if not isinstance(event, MessagesReceived):
            return handle(event, now)
        held.append(event)
        return []

    old.handle = holding  # type: ignore[method-assign]
    world.client("carl", "b2")
    bob.publish("a", b"x", 1)
    for message in messages:
        say(message, world.now)
    old.mqtt.gossip.publish = say  # type: ignore[method-assign]
    world.handle("b1", DeadlineReached())  # the handover leaves
    assert peer.heard() == []
    old.handle = handle  # type: ignore[method-assign]
    together = [m for event in held for m in event.messages]
    world.handle("b1", MessagesReceived(held[0].connection, together, world.now))
    world.pass_time(0.5)
    assert [p.payload for p in peer.answer()] == [b"x"]


def test_what_comes_on_the_way_is_delivered_once_and_in_order() -> None:
    world = MqttWorld(3)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 1)
    ann.cut()
    bob, carl = world.client("bob"), world.client("carl", "b3")
    held: list = []
    # Messages of gateways are slow today: publications overtake the handover, not each other.
    gateway = world.brokers["b1"].mqtt
    assert gateway is not None
    say, gateway.gossip.publish = gateway.gossip.publish, lambda message, now: held.append(message)  # type: ignore
    bob.publish("a", b"1", 1)
    peer = world.peer("b3")
    peer.say_nothing_back(*_connect())
    bob.publish("a", b"2", 1)
    carl.publish("a", b"3", 1)
    gateway.gossip.publish = say  # type: ignore[method-assign]
    for word in held:
        say(word, world.now)
    bob.publish("a", b"4", 1)
    carl.publish("a", b"5", 1)
    world.pass_time(0.5)
    got = [p.payload for p in peer.answer()]
    assert sorted(got) == [b"1", b"2", b"3", b"4", b"5"]
    assert [p for p in got if p in (b"1", b"2", b"4")] == [b"1", b"2", b"4"]
    assert is_over(world, "b1")


def test_on_a_tree_clocks_lose_nothing_that_is_held() -> None:
    world = MqttWorld(1)
    ann, bob = world.client("ann"), world.client("bob")
    ann.subscribe("a", 1)
    gateway = world.brokers["b1"].mqtt
    assert gateway is not None
    session = gateway.sessions.by_name["mqtt:ann"]
    # As if another gateway's clock were far ahead: all is older than the subscription.
    session.deduplicator.unknown = lambda notified, subscriptions: []  # type: ignore[method-assign]
    session.held = []
    bob.publish("a", b"x", 1)
    assert [publication.payload for publication in session.held] == [b"x"]


def _connect() -> tuple:
    return (Connect("ann", clean_start=False, session_expiry_s=100),)


def with_a_deaf_door() -> MqttWorld:
    """Ann's session is at b1, whose gateway hears of no claims."""
    world = MqttWorld(2)
    world.client("ann", **KEPT).cut()
    deaf = world.brokers["b1"].mqtt
    assert deaf is not None
    deaf.handover.receive = lambda gateway, message, now: None  # type: ignore[method-assign]
    return world


def test_who_gives_up_waiting_hears_of_the_loss_until_it_has_heard_it() -> None:
    """It was gone when its session was given up; the answer to its next Connect gets lost."""
    world = with_a_deaf_door()
    peer = world.peer("b2")
    peer.say_nothing_back(*_connect())
    peer.cut()
    world.pass_time(4)
    for _ in range(2):
        peer = world.peer("b2")
        assert not peer.connect("ann", clean_start=False, **KEPT).session_present
        peer.cut()
    peer = world.peer("b2")
    peer.connect("ann", clean_start=False, **KEPT)
    peer.subscribe("a", 1)
    peer.cut()
    assert world.peer("b2").connect("ann", clean_start=False, **KEPT).session_present


def test_a_door_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    world = with_a_deaf_door()
    peer = world.peer("b2")
    peer.say_nothing_back(*_connect(), Publish("a", b"early", 1, packet_id=3))
    assert peer.heard() == []
    world.pass_time(4)
    answer, acknowledged = peer.heard()
    assert not answer.session_present  # type: ignore[union-attr]
    assert acknowledged == PubAck(3)


def test_clean_start_elsewhere_ends_the_session_and_its_will_is_sent() -> None:
    """The will delay is over when the session is [MQTT-3.1.3.2.2]."""
    world = MqttWorld(2)
    seen = world.client("seen")
    seen.subscribe("w", 1)
    ann = world.client("ann", will=Will("w", b"gone", 1, delay_s=50), **KEPT)
    ann.subscribe("a", 1)
    ann.cut()
    world.client("ann", "b2")
    assert is_over(world, "b1")
    assert seen.payloads() == [b"gone"]


# --- redirection -----------------------------------------------------------------------------


def redirect(world: MqttWorld, client: str, destination: str = "b2") -> str:
    """Ask as an operator does; what became of it."""
    world.handle("b1", MigrationRequested(f"mqtt:{client}@b1", destination))
    migrations = world.brokers["b1"].part(MigrationCoordinator)
    assert migrations is not None
    return migrations.counted().last


def leave(world: MqttWorld, broker: str, neighbor: str) -> None:
    """As a plan has it: the neighbor leads."""
    world.handle(neighbor, ActionRequested("p/1/1", Detach(broker, neighbor)))


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


def test_a_session_that_would_be_lost_on_the_way_is_not_moved() -> None:
    world = MqttWorld(2, door_at("10.0.0.9:1883"))
    ann, carl = world.client("ann"), world.client("carl")
    ann.subscribe("a", 1)
    carl.subscribe("a", 0)
    assert "ends with its connection" in redirect(world, "ann")
    assert ann.is_open
    assert "done" in redirect(world, "carl")


def test_a_client_has_its_answers_before_it_is_sent_away() -> None:
    world = MqttWorld(2, door_at("10.0.0.9:1883"))
    ann = world.client("ann", **KEPT)
    ann.publish("a", b"half done", 2, packet_id=4)
    redirect(world, "ann")
    world.pass_time(1)
    assert ann.is_open
    assert ann.say(PubRel(4)) == [PubComp(4)]
    world.pass_time(0.1)
    assert not ann.is_open
    slow = world.client("slow", **KEPT)
    slow.publish("a", b"never released", 2, packet_id=4)
    redirect(world, "slow")
    world.pass_time(2.1)
    assert not slow.is_open


def test_clients_of_a_broker_that_leaves_go_for_good() -> None:
    world = MqttWorld(3, door_at("10.0.0.9:1883"))
    ann, old = world.client("ann", **KEPT), world.client("old", version=VERSION_3)
    ann.subscribe("a", 1)
    leave(world, "b1", "b2")
    (last,) = ann.heard()
    assert isinstance(last, Disconnect)
    assert (last.reason, last.server_reference) == (Reason.SERVER_MOVED, "10.0.0.9:1883")
    assert old.is_open, "it could not be told where to go"
    world.client("bob", "b2").publish("a", b"meanwhile", 1)
    assert [p.payload for p in come_to(world, "b3").answer()] == [b"meanwhile"]


def status_of(world: MqttWorld, broker: str) -> MqttStatus:
    gateway = world.brokers[broker].mqtt
    assert gateway is not None
    return gateway.status(world.now)


def test_sessions_of_absent_clients_go_to_another_door_when_their_broker_leaves() -> None:
    world = MqttWorld(3, door_at("10.0.0.9:1883"))
    peers = [world.client(f"c{n}", **KEPT) for n in range(50)]
    for peer in peers:
        peer.subscribe("a", 1)
        peer.cut()
    bob = world.client("bob", "b3")
    bob.publish("a", b"before", 1)
    leave(world, "b1", "b2")
    world.pass_time(5)
    bob.publish("a", b"on the way", 1)
    world.pass_time(60)
    bob.publish("a", b"after", 1)
    gone = status_of(world, "b1")
    assert (gone.sessions, gone.lost, gone.dropped) == (0, 0, 0)
    found = [status_of(world, name).sessions for name in ("b2", "b3")]
    assert sum(found) == 51
    assert min(found) > 10, "they spread"
    for number in range(50):
        peer = come_to(world, f"b{2 + number % 2}", f"c{number}")
        assert [p.payload for p in peer.answer()] == [b"before", b"on the way", b"after"]


def test_a_will_that_waits_goes_out_when_its_session_goes_without_its_client() -> None:
    world = MqttWorld(2, door_at("10.0.0.9:1883"))
    watcher = world.client("watcher", "b2")
    watcher.subscribe("w", 1)
    world.client("ann", will=Will("w", b"gone", 1, delay_s=90), **KEPT).cut()
    leave(world, "b1", "b2")
    world.pass_time(5)
    assert watcher.payloads() == [b"gone"]


@pytest.mark.parametrize("version", [VERSION_3, VERSION_5])
def test_a_client_that_is_not_let_in_any_more_finds_its_session_elsewhere(version: int) -> None:
    world = MqttWorld(2, door_at("10.0.0.9:1883"))
    ann = world.client("ann", version=version, **KEPT)
    ann.subscribe("a", 1)
    leave(world, "b1", "b2")
    world.pass_time(0.1)
    assert not ann.is_open
    refused = [world.peer().connect("ann", version=version, clean_start=False, **KEPT)]
    world.client("bob", "b2").publish("a", b"meanwhile", 1)
    world.pass_time(5)
    refused.append(world.peer().connect("ann", version=version, clean_start=False, **KEPT))
    assert [answer.reason for answer in refused] == [Reason.SERVER_BUSY] * 2
    assert status_of(world, "b2").sessions == 2, "it is there before its client is"
    assert [p.payload for p in come_to(world, "b2").answer()] == [b"meanwhile"]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_a_client_may_come_anywhere_while_its_session_goes(seed: int) -> None:
    """Links are slow, in any order: whoever comes first, the session is found once and whole."""
    chance = random.Random(seed)
    world = MqttWorld(3, door_at("10.0.0.9:1883"))
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 2)
    ann.cut()
    bob = world.client("bob", "b2")
    world.is_slow = True
    leave(world, "b1", "b2")
    steps, came_at = 60, chance.randrange(60)
    for step in range(steps):
        if world.under_way and chance.random() < 0.7:
            world.arrive(chance.choice(list(world.under_way)))
        if step % 10 == 0:
            bob.publish("a", b"%d" % (step // 10), 1)
            world.pass_time(0.02)
        if step == came_at:
            ann = world.peer(chance.choice(["b2", "b3"]))
            ann.say_nothing_back(Connect("ann", clean_start=False, **KEPT))
    for _ in range(100):
        while world.under_way:
            world.arrive(chance.choice(list(world.under_way)))
        world.pass_time(0.02)
    (answer,) = [packet for packet in ann.got if isinstance(packet, ConnAck)]
    assert answer.session_present
    assert [p.payload for p in ann.answer()] == [b"%d" % n for n in range(steps // 10)]


def test_sessions_that_nobody_takes_along_are_counted_when_their_broker_leaves() -> None:
    world = MqttWorld(2)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 1)
    ann.cut()
    world.client("bob", "b2").publish("a", b"lost with it", 1)
    leave(world, "b1", "b2")
    world.pass_time(60)
    status = status_of(world, "b1")
    assert (status.sessions, status.lost, status.dropped) == (0, 1, 1)
    assert not world.peer("b2").connect("ann", clean_start=False, **KEPT).session_present


def test_who_is_not_let_in_is_told_where_to_try_once() -> None:
    world = MqttWorld(2, door_at("10.0.0.9:1883"))
    world.brokers["b1"].sessions.closed_reason = "full"
    answer = world.peer().connect("ann")
    assert (answer.reason, answer.server_reference) == (Reason.USE_ANOTHER_SERVER, "10.0.0.9:1883")
    assert world.peer().connect("ann").reason == Reason.SERVER_BUSY
    assert world.peer().connect("old", version=VERSION_3).reason == Reason.SERVER_BUSY
    world.peer().connect("new", **KEPT)
    assert status_of(world, "b1").lost == 0, "none of them had a session"


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


def test_publishers_that_can_be_relocated_are_clients_and_not_doors() -> None:
    world = MqttWorld()
    world.client("ann").publish("a")
    relocator = world.brokers["b1"].part(Relocator)
    assert relocator is not None
    assert relocator.publishers() == ["mqtt:ann@b1"]

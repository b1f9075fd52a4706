"""SUBACK waits until everything comes here that was subscribed to; a gap ends a session."""

from __future__ import annotations

import pytest

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.session.session import Session
from pubweave.model.mqtt_packets import (
    Disconnect,
    PubAck,
    Publish,
    Reason,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)
from pubweave.model.mqtt_packets import TopicFilter as Wanted
from pubweave.model.publications import Publication
from pubweave.model.records.status import MqttStatus
from tests.mqtt_world import MqttPeer, MqttWorld

KEPT = {"session_expiry_s": 100}


def status(world: MqttWorld, broker: str) -> MqttStatus:
    gateway = world.brokers[broker].mqtt
    assert gateway is not None
    return gateway.status(world.now)


def let_all_arrive(world: MqttWorld) -> None:
    world.is_slow = False
    while world.under_way:
        world.arrive(next(iter(world.under_way)))


def heard(peer: MqttPeer, kind: type) -> int:
    return sum(isinstance(packet, kind) for packet in peer.got)


def test_a_subscribe_is_answered_when_the_whole_tree_has_it() -> None:
    world = MqttWorld(3)
    ann, bob = world.client("ann"), world.client("bob", broker="b3")
    world.pass_time(2)
    world.is_slow = True
    ann.say_nothing_back(Subscribe(1, (Wanted("a", 1),)))
    world.pass_time(1)
    assert not heard(ann, SubAck)
    assert ann.publish("elsewhere", b"", 1) == [PubAck(7)], "nobody else waits for it"
    ann.got.clear()
    let_all_arrive(world)
    assert heard(ann, SubAck) == 1
    bob.publish("a", b"first", 1)
    assert [p.payload for p in ann.answer()] == [b"first"]
    assert status(world, "b1").unconfirmed == 0


def test_a_subscribe_that_is_not_confirmed_in_time_is_answered_and_counted() -> None:
    world = MqttWorld(2, MqttConfig(suback_wait_s=3.0))
    ann = world.client("ann")
    world.pass_time(2)
    world.is_slow = True
    ann.say_nothing_back(Subscribe(1, (Wanted("a", 1),)))
    world.pass_time(2)
    assert not heard(ann, SubAck)
    world.pass_time(1.5)
    assert heard(ann, SubAck) == 1
    assert status(world, "b1").unconfirmed == 1


def test_a_single_broker_answers_at_once() -> None:
    world = MqttWorld(1)
    ann = world.client("ann")
    ann.say_nothing_back(Subscribe(1, (Wanted("a", 1),)))
    assert heard(ann, SubAck) == 1


def test_what_is_said_of_one_pattern_is_answered_in_its_order() -> None:
    world = MqttWorld(3)
    ann, bob = world.client("ann"), world.client("bob")
    world.pass_time(2)
    world.is_slow = True
    ann.say_nothing_back(Subscribe(1, (Wanted("a", 1),)))
    ann.say_nothing_back(Unsubscribe(2, ("a",)))
    ann.say_nothing_back(Subscribe(3, (Wanted("b", 1),)))
    ann.say_nothing_back(Subscribe(4, (Wanted("b", 2),)))
    assert not heard(ann, SubAck) + heard(ann, UnsubAck)
    let_all_arrive(world)
    answers = {p.packet_id: p for p in ann.heard() if isinstance(p, SubAck | UnsubAck)}
    assert sorted(answers) == [1, 2, 3, 4]
    assert [*answers].index(1) < [*answers].index(2)
    assert answers[2].reasons == (0,)
    bob.publish("a", b"too late", 1)
    bob.publish("b", b"the newer one", 2)
    assert [(p.payload, p.qos) for p in ann.answer()] == [(b"the newer one", 2)]


def test_an_answer_that_waits_is_not_sent_on_another_connection() -> None:
    world = MqttWorld(3)
    ann, bob = world.client("ann", **KEPT), world.client("bob", broker="b3")
    world.pass_time(2)
    world.is_slow = True
    ann.say_nothing_back(Subscribe(1, (Wanted("a", 1),)))
    ann.cut()
    ann = world.peer()
    assert ann.connect("ann", clean_start=False, **KEPT).session_present
    let_all_arrive(world)
    assert not heard(ann, SubAck)
    bob.publish("a", b"granted all the same", 1)
    assert ann.payloads() == [b"granted all the same"]


@pytest.mark.parametrize(("qos", "ends"), [(0, False), (1, True), (2, True)])
def test_a_gap_ends_a_session_that_was_promised_everything(
    qos: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = MqttWorld(2)
    ann, bob = world.client("ann", **KEPT), world.client("bob", broker="b2")
    ann.subscribe("a", qos)
    bob.publish("a", b"1", 1)
    broker = world.brokers["b1"]

    def nowhere(publication: Publication, origin: Session) -> tuple[Session, ...]:
        return ()

    with monkeypatch.context() as patch:
        patch.setattr(broker.routing, "route", nowhere)
        broker._services.routes.clear()
        bob.publish("a", b"2", 1)
    broker._services.routes.clear()
    bob.publish("a", b"3", 1)
    packets = ann.heard()
    payloads = [p.payload for p in packets if isinstance(p, Publish)]
    assert b"2" not in payloads
    assert status(world, "b1").gaps == 1
    reasons = [p.reason for p in packets if isinstance(p, Disconnect)]
    assert reasons == ([Reason.QUOTA_EXCEEDED] if ends else [])
    assert (b"3" in payloads) is not ends
    assert status(world, "b1").sessions == 1 - ends


def test_what_a_session_may_not_publish_is_no_gap_for_others() -> None:
    """Publications that are refused leave no hole in the numbers of those that are not."""
    world = MqttWorld(2, MqttConfig(max_payload_bytes=5))
    ann, bob = world.client("ann"), world.client("bob", broker="b2")
    ann.subscribe("a", 1)
    for payload in (b"1", b"far too long", b"2"):
        bob.publish("a", payload, 1)
    assert [p.payload for p in ann.heard() if isinstance(p, Publish)] == [b"1", b"2"]
    assert status(world, "b1").gaps == 0

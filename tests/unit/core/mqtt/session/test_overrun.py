"""Sessions that get more than they may keep: they end, and never drop a part in secret."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.session.inflight import Delivery, InflightQueue, QueueBudget
from pubweave.core.vocabulary.events import WritingPaused
from pubweave.model.mqtt_packets import (
    VERSION_3,
    Connect,
    Disconnect,
    PubComp,
    Publish,
    Reason,
    Will,
)
from pubweave.model.publications import make_publication
from pubweave.model.records.status import MqttStatus
from pubweave.runtime.net.mqtt_connection import MqttSocket
from tests.mqtt_world import MqttPeer, MqttWorld

KEPT = {"session_expiry_s": 100}
FEW = MqttConfig(queue_messages=3)


def status(world: MqttWorld, broker: str = "b1") -> MqttStatus:
    gateway = world.brokers[broker].mqtt
    assert gateway is not None
    return gateway.status(world.now)


def publish(peer: MqttPeer, count: int, qos: int = 1) -> None:
    for number in range(count):
        answers = peer.publish("a", b"%d" % number, qos, packet_id=number + 1)
        assert [a.reason for a in answers] == [0], "publishers are not held up"


def last_reasons(peer: MqttPeer) -> list[int]:
    return [p.reason for p in peer.heard() if isinstance(p, Disconnect)]


@pytest.mark.parametrize("qos", [1, 2])
def test_within_the_bound_nothing_is_lost(qos: int) -> None:
    world = MqttWorld(mqtt=FEW)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", qos)
    ann.cut()
    publish(world.client("bob"), 3, qos)
    ann = world.client("ann", clean_start=False, **KEPT)
    assert [p.payload for p in ann.answer()] == [b"0", b"1", b"2"]
    assert (status(world).overrun, status(world).dropped) == (0, 0)


@pytest.mark.parametrize("config", [FEW, MqttConfig(queue_bytes=200)])
def test_an_absent_client_hears_by_connack_that_its_session_is_over(config: MqttConfig) -> None:
    world = MqttWorld(mqtt=config)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 1)
    ann.cut()
    publish(world.client("bob"), 4)
    peer = world.peer()
    assert not peer.connect("ann", clean_start=False, **KEPT).session_present
    assert peer.answer() == []
    assert status(world).overrun == 1
    assert status(world).dropped >= 3


def test_a_connected_client_that_does_not_read_is_told_and_others_get_everything() -> None:
    world = MqttWorld(mqtt=FEW)
    ann, carl = world.client("ann", **KEPT), world.client("carl")
    ann.subscribe("a", 1)
    carl.subscribe("a", 1)
    world.handle("b1", WritingPaused(ann.number, True))
    bob = world.client("bob")
    got = []
    for number in range(6):
        bob.publish("a", b"%d" % number, 1)
        got += [p.payload for p in carl.answer()]
    assert last_reasons(ann) == [Reason.QUOTA_EXCEEDED]
    assert not ann.is_open
    assert got == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_what_is_sent_and_not_acknowledged_counts() -> None:
    """A client that reads and never answers would be kept everything for, otherwise."""
    world = MqttWorld(mqtt=FEW)
    ann = world.client("ann")
    ann.subscribe("a", 1)
    publish(world.client("bob"), 4)
    assert last_reasons(ann) == [Reason.QUOTA_EXCEEDED]


def test_an_old_client_is_hung_up_on() -> None:
    world = MqttWorld(mqtt=FEW)
    ann = world.client("ann", version=VERSION_3, **KEPT)
    ann.subscribe("a", 1)
    publish(world.client("bob"), 4)
    assert not ann.is_open
    assert last_reasons(ann) == []
    peer = world.peer()
    assert not peer.connect("ann", version=VERSION_3, clean_start=False, **KEPT).session_present


def test_qos_0_never_ends_a_session() -> None:
    world = MqttWorld(mqtt=FEW)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 1)
    world.handle("b1", WritingPaused(ann.number, True))
    bob = world.client("bob")
    for _ in range(9):
        bob.publish("a", b"x", 0)
    assert ann.is_open
    assert status(world).qos0_dropped == 9


def test_a_client_that_did_not_hear_it_hears_it_again() -> None:
    """The answer to Connect got lost. The next one must not speak of the new session as the old."""
    world = MqttWorld(mqtt=FEW)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 1)
    ann.cut()
    publish(world.client("bob"), 4)
    for _ in range(2):
        peer = world.peer()
        assert not peer.connect("ann", clean_start=False, **KEPT).session_present
        peer.cut()
    peer = world.peer()
    assert not peer.connect("ann", clean_start=False, **KEPT).session_present
    peer.subscribe("a", 1)
    peer.cut()
    assert world.peer().connect("ann", clean_start=False, **KEPT).session_present


def test_its_will_is_published_and_its_subscriptions_are_gone() -> None:
    world = MqttWorld(2, mqtt=FEW)
    watcher = world.client("watcher", "b2")
    watcher.subscribe("wills", 1)
    ann = world.client("ann", will=Will("wills", b"ann is gone", delay_s=50), **KEPT)
    ann.subscribe("a", 1)
    publish(world.client("bob", "b2"), 4)
    assert not ann.is_open
    assert watcher.payloads() == [b"ann is gone"]
    assert "mqtt:ann@b1" not in world.brokers["b1"].sessions.clients


def test_a_session_between_two_doors_that_gets_too_much_ends_at_both() -> None:
    world = MqttWorld(2, mqtt=FEW)
    ann = world.client("ann", **KEPT)
    ann.subscribe("a", 1)
    ann.cut()
    far = world.brokers["b1"].mqtt
    assert far is not None
    kept: list[tuple] = []
    say, far.gossip.publish = far.gossip.publish, lambda word, now: kept.append((word, now))  # type: ignore
    peer = world.peer("b2")
    peer.say_nothing_back(Connect("ann", clean_start=False, **KEPT))
    handover, kept[:] = list(kept), []
    for word, now in handover:
        say(word, now)
    assert peer.heard() == [], "the tail is under way"
    bob = world.client("bob", "b2")
    for number in range(4):
        bob.publish("a", b"%d" % number, 1)
    (answer,) = peer.heard()
    assert not answer.session_present  # type: ignore[union-attr]
    far.gossip.publish = say  # type: ignore[method-assign]
    for word, now in kept:
        say(word, now)
    bob.publish("a", b"later", 1)
    world.pass_time(1)
    assert peer.heard() == []
    assert len(far.sessions.by_name) == 0
    assert status(world, "b2").overrun == 1


def test_a_subscription_with_more_retained_than_fits_is_refused_and_not_made() -> None:
    """Ending the session would not help: its client would ask for the same again."""
    world = MqttWorld(mqtt=FEW)
    bob = world.client("bob")
    for number in range(4):
        bob.publish(f"kept/{number}", b"x", 1, retain=True)
    ann = world.client("ann")
    assert ann.subscribe("kept/#", 1) == (Reason.QUOTA_EXCEEDED,)
    assert ann.subscribe("kept/#", 1, retain_handling=2) == (1,)
    bob.publish("kept/1", b"live", 1)
    assert [p.payload for p in ann.answer()] == [b"live"]
    assert ann.subscribe("kept/#", 0) == (0,)
    assert len(ann.published()) == 4
    assert status(world).overrun == 0


def test_where_all_together_keep_too_much_the_largest_ends_and_is_counted() -> None:
    world = MqttWorld(mqtt=MqttConfig(queues_bytes=3000))
    for name, topic in (("large", "a"), ("small", "b")):
        peer = world.client(name, **KEPT)
        peer.subscribe(topic, 1)
        peer.cut()
    bob = world.client("bob")
    bob.publish("b", b"kept", 1)
    for number in range(3):
        assert bob.publish("a", b"x" * 900, 1, packet_id=number + 1)[0].reason == 0
    assert (status(world).overrun, status(world).dropped) == (1, 3)
    assert not world.peer().connect("large", clean_start=False, **KEPT).session_present
    small = world.peer()
    assert small.connect("small", clean_start=False, **KEPT).session_present
    assert small.payloads() == [b"kept"]
    assert bob.publish("a", b"x" * 900, 1)[0].reason == 0
    assert status(world).overrun == 1


def test_a_connected_client_is_told_when_all_together_keep_too_much() -> None:
    world = MqttWorld(mqtt=MqttConfig(queues_bytes=3000))
    ann = world.client("ann", receive_max=1, **KEPT)
    ann.subscribe("a", 1)
    bob = world.client("bob")
    for number in range(4):
        bob.publish("a", b"x" * 900, 1, packet_id=number + 1)
    assert last_reasons(ann) == [Reason.QUOTA_EXCEEDED]


# --- the outbox by itself --------------------------------------------------------------------

parcels = st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(0, 40)), max_size=12)


@settings(max_examples=60)
@given(parcels, st.integers(1, 8), st.integers(60, 400), st.data())
def test_the_outbox_counts_all_that_it_keeps(
    sizes: list[tuple[int, int]], most: int, most_bytes: int, data: st.DataObject
) -> None:
    """Against plain sums over what was put and is not through yet."""
    tally = QueueBudget()
    outbox, other = InflightQueue(most, most_bytes, tally), InflightQueue(1, 1000, tally)
    other.put(Delivery(make_publication("p", 0, "a", {}, b"other", 0.0), 1))
    kept: dict[int, Delivery] = {}
    waiting: list[Delivery] = []
    is_overrun = False
    for number, (qos, size) in enumerate(sizes):
        delivery = Delivery(make_publication("p", number, "a", {}, b"x" * size, 0.0), qos)
        held = [*waiting, *kept.values(), delivery]
        is_overrun = is_overrun or (
            len(held) > most or sum(p.publication.size_bytes for p in held) > most_bytes
        )
        assert outbox.put(delivery) is not is_overrun
        if not is_overrun:
            waiting.append(delivery)
        if data.draw(st.booleans()) and (taken := outbox.next(4)) is not None:
            assert taken.delivery is waiting.pop(0)
            kept[taken.packet_id] = taken.delivery
        if kept and data.draw(st.booleans()):
            packet_id = data.draw(st.sampled_from(sorted(kept)))
            if kept.pop(packet_id).qos == 2:
                assert outbox.received(packet_id)
                assert outbox.numbered[packet_id].expected is PubComp
            outbox.discard(packet_id)
        held = [*waiting, *kept.values()]
        assert outbox.size_bytes == sum(p.publication.size_bytes for p in held)
        assert tally.size_bytes == outbox.size_bytes + other.size_bytes
    outbox.close()
    assert tally.size_bytes == other.size_bytes


def test_a_filled_outbox_goes_on_counting() -> None:
    first = InflightQueue(3, 10_000, QueueBudget())
    delivery = Delivery(make_publication("p", 1, "a", {}, b"x", 0.0), 1)
    first.put(delivery)
    first.put(delivery)
    assert first.next(5) is not None
    second = InflightQueue(3, 10_000, QueueBudget())
    second.fill(list(first.numbered.values()), list(first.waiting), first.last_id)
    assert second.put(delivery)
    assert not second.put(delivery)
    assert second.lost == 4


def test_publish_is_the_only_thing_that_counts() -> None:
    """Answers to the client's own publications are no part of its queue."""
    world = MqttWorld(mqtt=FEW)
    ann = world.client("ann")
    for number in range(20):
        ann.say(Publish("b", b"x", 1, packet_id=number + 1))
    assert ann.is_open


# --- the socket of a client that is hung up on -------------------------------------------------


class Stuck:
    """A transport whose far end reads ``reads`` bytes between two looks."""

    def __init__(self, reads: int) -> None:
        self.unread, self.reads, self.is_aborted = 1000, reads, False

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        self.unread -= self.reads
        return self.unread

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize(("reads", "is_cut_off"), [(0, True), (10, False)])
def test_who_does_not_read_its_goodbye_is_cut_off(reads: int, is_cut_off: bool) -> None:
    """Its connection would stay for ever, otherwise."""
    stuck = Stuck(reads)
    connection = MqttSocket(Owner(), max_packet_bytes=1000, unread_bytes=1000)
    connection._transport = stuck  # type: ignore[assignment]
    for _ in range(3):
        connection.check_progress(10.0)
    assert stuck.is_aborted == is_cut_off


class Owner:
    """Nobody who cares."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None

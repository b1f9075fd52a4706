"""Doors of an overlay together: retained publications, shared subscriptions, native clients,
rights, and a broker that comes back from its journal."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.client import ClientCore
from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.journal.recovery import come_back, event_of, record_of
from pubweave.core.journal.snapshot import restore_broker, take_snapshot
from pubweave.core.mqtt.cluster.retained import RetainedStore
from pubweave.core.mqtt.protocol.topics import (
    filters_of,
    has_wildcards,
    matches_topic,
    parse_pattern,
)
from pubweave.core.mqtt.session.shared_groups import GroupMember, SharedGroups
from pubweave.core.vocabulary.effects import Notify, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    HandlingFailed,
    LoginReceived,
    MessagesReceived,
    PacketsReceived,
    PasswordVerified,
)
from pubweave.model.filters.filter import topic_filter
from pubweave.model.filters.text import parse_filter
from pubweave.model.mqtt_packets import (
    ConnAck,
    Connect,
    Content,
    PubAck,
    Publish,
    PubRec,
    PubRel,
    Reason,
    Subscribe,
    TopicFilter,
    Will,
)
from pubweave.model.publications import Publication
from pubweave.model.records.access import AccessRules, UserRules
from pubweave.wire.journal_codec import decode_records, encode_record
from tests.mqtt_world import MqttPeer, MqttWorld

# --- topics ----------------------------------------------------------------------------------

LEVELS = st.lists(st.sampled_from(["a", "b", "", "ab", "$x"]), min_size=1, max_size=4)
TOPICS = LEVELS.map("/".join).filter(bool)
PATTERNS = (
    st.lists(st.sampled_from(["a", "b", "", "ab", "+", "$x"]), min_size=1, max_size=4)
    .flatmap(lambda levels: st.sampled_from([levels, [*levels, "#"], ["#"]]))
    .map("/".join)
    .filter(bool)
)


def obviously_matches(pattern: str, topic: str) -> bool:
    """Level by level, as the standard tells it."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place >= len(levels):
            return False
        if level not in ("+", levels[place]):
            return False
        if place + 2 == len(wanted) and wanted[-1] == "#" and place + 1 == len(levels):
            return True
    return len(wanted) == len(levels)


@given(PATTERNS, TOPICS)
@settings(max_examples=100)
def test_matching_is_that_of_the_standard(pattern: str, topic: str) -> None:
    assert matches_topic(pattern, topic) == obviously_matches(pattern, topic)


@given(PATTERNS, TOPICS)
@settings(max_examples=100)
def test_the_overlay_lets_all_through_that_a_pattern_wants(pattern: str, topic: str) -> None:
    filters = filters_of(parse_pattern(pattern).pattern)
    publication = Publication("p", 1, topic, {}, b"", 0.0)
    is_let_through = any(f.matches(publication) for f in filters)
    assert is_let_through or not matches_topic(pattern, topic)
    if not has_wildcards(pattern):
        assert is_let_through == (pattern == topic)


# --- retained --------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.sampled_from([b"", b"x", b"y"])),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=100)
def test_doors_agree_in_whatever_order_they_hear(items: list, rng: object) -> None:
    news = [
        Publication("p", number, f"t/{topic}", {}, payload, float(at))
        for number, (topic, at, payload) in enumerate(items, 1)
    ]
    mixed = list(news)
    rng.shuffle(mixed)  # type: ignore[attr-defined]
    one, other = RetainedStore(100, 1000), RetainedStore(100, 1000)
    for publication in news:
        one.put(publication, 10.0)
    for publication in mixed:
        other.put(publication, 10.0)
    assert one.digest == other.digest
    newest = {p.topic: p for p in sorted(news, key=lambda p: (p.published_at, p.sequence))}
    live = {p.topic for p in newest.values() if p.payload}
    assert {p.topic for p in one.matching("#", 10.0)} == live


def test_retained_reaches_a_subscriber_at_another_broker() -> None:
    world = MqttWorld(3)
    bob = world.client("bob")
    bob.publish("a/1", b"on", 1, retain=True)
    bob.publish("a/2", b"off", 1, retain=True)
    bob.publish("a/2", b"", 1, retain=True)
    ann = world.client("ann", "b3")
    ann.subscribe("a/#", 1)
    assert [(p.payload, p.retain) for p in ann.published()] == [(b"on", True)]
    bob.publish("a/1", b"live", 1, retain=True)
    assert [(p.payload, p.retain) for p in ann.published()] == [(b"live", False)]


@pytest.mark.parametrize(("handling", "first", "second"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
def test_retain_handling(handling: int, first: int, second: int) -> None:
    world = MqttWorld()
    world.client("bob").publish("a", b"on", 1, retain=True)
    ann = world.client("ann")
    ann.subscribe("a", retain_handling=handling)
    assert len(ann.published()) == first
    ann.subscribe("a", retain_handling=handling)
    assert len(ann.published()) == second


def test_retain_as_published() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a", retain_as_published=True)
    world.client("bob").publish("a", b"on", retain=True)
    assert [p.retain for p in ann.published()] == [True]


def test_a_will_can_be_retained() -> None:
    world = MqttWorld(2)
    world.client("ann", will=Will("state/ann", b"gone", 1, retain=True)).cut()
    bob = world.client("bob", "b2")
    bob.subscribe("state/#")
    assert [(p.payload, p.retain) for p in bob.published()] == [(b"gone", True)]


def test_a_door_that_was_cut_off_learns_what_it_missed() -> None:
    world = MqttWorld(2)
    one, other = (world.brokers[b].mqtt for b in ("b1", "b2"))
    assert one is not None
    assert other is not None
    missed = Publication("mqtt:x", 5, "a", {"mqtt.qos": 0, "mqtt.retain": True}, b"on", 999.0)
    other.gossip.retained.put(missed, world.now)
    assert one.gossip.retained.digest != other.gossip.retained.digest
    world.pass_time(25)
    assert one.gossip.retained.digest == other.gossip.retained.digest
    ann = world.client("ann")
    ann.subscribe("a")
    assert ann.payloads() == [b"on"]


# --- shared subscriptions --------------------------------------------------------------------


def test_each_publication_goes_to_one_member_in_the_overlay() -> None:
    world = MqttWorld(3)
    members = [world.client(f"m{n}", f"b{1 + n % 3}") for n in range(5)]
    for member in members:
        assert member.subscribe("$share/g/jobs/+", 1) == (1,)
    own = world.client("own", "b2")
    own.subscribe("jobs/#", 1)
    bob = world.client("bob")
    sent = [b"%d" % number for number in range(200)]
    for payload in sent:
        bob.publish("jobs/1", payload, 1)
    got = [[p.payload for p in member.answer()] for member in members]
    assert Counter(p for some in got for p in some) == Counter(sent)
    assert all(len(some) > 15 for some in got)
    assert len(own.answer()) == len(sent)


def test_a_member_that_goes_leaves_its_share_to_the_others() -> None:
    world = MqttWorld(2)
    one, other = world.client("m1"), world.client("m2", "b2", session_expiry_s=100)
    for member in (one, other):
        member.subscribe("$share/g/jobs", 1)
    other.cut()
    bob = world.client("bob")
    for number in range(50):
        bob.publish("jobs", b"%d" % number, 1)
    assert len(one.answer()) == 50
    one.cut()
    bob.publish("jobs", b"waits", 1)
    other = world.client("m2", "b2", session_expiry_s=100, clean_start=False)
    assert [p.payload for p in other.answer()] == [b"waits"]


def test_a_member_that_comes_takes_over_its_share_and_nothing_else_changes() -> None:
    def choices(names: list[str]) -> list[str | None]:
        groups = SharedGroups()
        groups.replace("b1", tuple(GroupMember("g", "jobs", name, True) for name in names))
        some = (Publication("p", number, "jobs", {}, b"", 0.0) for number in range(300))
        return [groups.chosen(("g", "jobs"), publication) for publication in some]

    before, after = choices(["a", "b", "c"]), choices(["a", "b", "c", "d"])
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {"d"}
    assert 40 < len(moved) < 110


# --- native clients --------------------------------------------------------------------------


class Native:
    """A native client at a broker of the world."""

    def __init__(self, world: MqttWorld, broker: str) -> None:
        self.world, self.broker, self.got = world, broker, list[Publication]()
        self.number = world.number()
        self.client = ClientCore("native", epoch=5, now=world.now, first_sequence=5)
        self._carry_out(world.brokers[broker].handle(ConnectionOpened(self.number), world.now))
        self._carry_out(self.client.handle(ConnectionOpened(self.number), world.now))

    def _carry_out(self, effects: list) -> None:
        broker = self.world.brokers[self.broker]
        for effect in effects:
            if isinstance(effect, Notify):
                self.got += effect.publications
            elif isinstance(effect, Transmit) and effects and effect.connection == self.number:
                event = MessagesReceived(self.number, list(effect.messages), self.world.now)
                self.world._carry_out(self.broker, self._told(broker.handle(event, self.world.now)))

    def _told(self, effects: list) -> list:
        for effect in effects:
            if isinstance(effect, Transmit) and effect.connection == self.number:
                event = MessagesReceived(self.number, list(effect.messages), self.world.now)
                self._carry_out(self.client.handle(event, self.world.now))
        return effects

    def flush(self) -> None:
        self._carry_out(self.client.flush())


def test_native_and_mqtt_clients_share_topics() -> None:
    world = MqttWorld()
    native = Native(world, "b1")
    native.client.advertise(topic_filter("STOCK"))
    native.flush()
    ann = world.client("ann")
    ann.subscribe("STOCK", 2)
    native.client.publish("STOCK", {"symbol": "YHOO", "volume": 7}, b"", world.now)
    native.flush()
    (got,) = ann.published()
    assert (got.topic, got.qos) == ("STOCK", 2)
    assert got.content.user_properties == (("symbol", "YHOO"), ("volume", "7"))


# --- rights ----------------------------------------------------------------------------------


def secured(**users: UserRules) -> MqttWorld:
    return MqttWorld(access=AccessRules(users=users))


def rules(publish: str, subscribe: str) -> UserRules:
    return UserRules((parse_filter(publish),), (parse_filter(subscribe),))


def log_in(world: MqttWorld, user: str | None) -> tuple[MqttPeer, int]:
    """A client whose password was compared, and what it was told."""
    peer = world.peer()
    world.handle("b1", LoginReceived(peer.number, "ann"))
    assert peer.say(Connect("c1", username="ann", has_password=True)) == []
    world.handle("b1", PasswordVerified(peer.number, user))
    answers = [p for p in peer.heard() if isinstance(p, ConnAck)]
    return peer, answers[0].reason


def test_connect_waits_for_the_password() -> None:
    world = secured(ann=rules("class prefix 'a/'", "class prefix 'a/'"))
    _, reason = log_in(world, "ann")
    assert reason == 0
    assert "ann/mqtt:c1@b1" in world.brokers["b1"].sessions.clients
    _, reason = log_in(world, None)
    assert reason == Reason.BAD_USER_NAME_OR_PASSWORD


def test_without_a_proven_name_nobody_gets_in() -> None:
    world = secured(ann=rules("*", "*"))
    assert world.peer().connect("c1").reason == Reason.NOT_AUTHORIZED


def test_rights_hold_for_topics() -> None:
    world = secured(ann=rules("class prefix 'a/'", "class prefix 'a/'"))
    peer, _ = log_in(world, "ann")
    assert peer.subscribe("a/#", 1) == (Reason.NOT_AUTHORIZED,)  # 'a' itself is not a right
    assert peer.subscribe("a/+", 1) == (1,)
    assert peer.subscribe("b", 1) == (Reason.NOT_AUTHORIZED,)
    assert peer.publish("a/x", b"mine", 1)[-1] == PubAck(7)
    (refused,) = [p for p in peer.publish("b", b"x", 1) if isinstance(p, PubAck)]
    assert refused.reason == Reason.NOT_AUTHORIZED
    (refused,) = [p for p in peer.publish("b", b"x", 2) if isinstance(p, PubRec)]
    assert refused.reason == Reason.NOT_AUTHORIZED


# --- coming back -----------------------------------------------------------------------------


def come_back_to(world: MqttWorld) -> None:
    """The broker dies and is made again from its snapshot, as a journal would."""
    broker = world.brokers["b1"]
    data = take_snapshot(broker)
    for peer in list(world.clients.values()):
        peer.is_open = False
    world.clients.clear()
    world.brokers["b1"] = restored = restore_broker(data, broker.config, epoch=1, now=world.now)
    come_back(restored, epoch=10**9, now=world.now)


def test_a_broker_that_comes_back_knows_its_sessions() -> None:
    world = MqttWorld()
    ann = world.client("ann", session_expiry_s=100, will=Will("w", b"gone", 1, delay_s=20))
    ann.subscribe("a/#", 2)
    watcher = world.client("watcher", session_expiry_s=100)
    watcher.subscribe("w", 1)
    bob = world.client("bob", session_expiry_s=100)
    bob.publish("a/r", b"kept", 1, retain=True)
    sent = [p.packet_id for p in ann.published()]
    assert bob.publish("a/2", b"once", 2) == [PubRec(7)]
    ann.heard()
    come_back_to(world)
    bob = world.client("bob", session_expiry_s=100, clean_start=False)
    assert bob.publish("a/2", b"once", 2, is_duplicate=True) == [PubRec(7)]
    bob.say(PubRel(7))
    world.pass_time(10)
    ann = world.peer()
    assert ann.connect("ann", clean_start=False, session_expiry_s=100).session_present
    again = ann.published()
    assert [(p.payload, p.is_duplicate) for p in again] == [(b"kept", True), (b"once", True)]
    assert again[0].packet_id == sent[0]
    ann.subscribe("a/+", 0)
    assert ann.payloads() == [b"kept"]
    world.client("eve").publish("a/new", b"live", 1)
    assert ann.payloads() == [b"live"]
    ann.cut()
    world.pass_time(120)
    watcher = world.peer()
    watcher.connect("watcher", clean_start=False)


def test_a_will_is_published_although_the_broker_was_away() -> None:
    world = MqttWorld()
    watcher = world.client("watcher", session_expiry_s=100)
    watcher.subscribe("w", 1)
    world.client("ann", session_expiry_s=100, will=Will("w", b"gone", 1, delay_s=5))
    come_back_to(world)
    watcher = world.client("watcher", session_expiry_s=100, clean_start=False)
    world.pass_time(6)
    assert watcher.payloads() == [b"gone"]


def test_packets_are_written_down_and_read_again() -> None:
    said = Content(user_properties=(("a", "b"),))
    event = PacketsReceived(
        7,
        [
            Connect("ann", will=Will("w", b"\xff", 1, content=said)),
            Publish("t", b"\x00", 2, packet_id=3),
            Subscribe(1, (TopicFilter("a/#", 1),), 5),
            PubRel(3),
        ],
    )
    (record,) = decode_records(encode_record(record_of(event, 1.0)))
    assert event_of(record) == event


def test_after_a_failure_inner_messages_are_not_lost() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a", 1)
    bob = world.client("bob")
    broker = world.brokers["b1"]
    gateway = broker.mqtt
    assert gateway is not None
    settle, gateway.settle = gateway.settle, None  # type: ignore[assignment, method-assign]
    with pytest.raises(TypeError):
        bob.publish("a", b"x", 1)
    gateway.settle = settle  # type: ignore[method-assign]
    world.handle("b1", HandlingFailed())
    assert ann.payloads() == [b"x"]


def test_a_congested_overlay_stops_reading_from_the_publisher() -> None:
    world = MqttWorld(2, MqttConfig(max_packet_bytes=1 << 22))
    world.client("ann", "b2").subscribe("a", 0)
    # The link is gone: its queue fills up.
    (near,) = [c for (b, c) in world._links if b == "b1"]
    world._links.clear()
    world.handle("b1", ConnectionClosed(near))
    bob = world.client("bob")
    for _ in range(60):
        bob.publish("a", b"x" * 100_000)
        if bob.is_paused:
            break
    assert bob.is_paused


def test_doors_that_find_each_other_late_know_each_other_at_the_first_word() -> None:
    """Their first announcements were lost; a client's coming is enough, not the next round."""
    world = MqttWorld(2, MqttConfig(address="10.0.0.9:1883", announce_every_s=1000.0))
    gateways = [world.brokers[name].mqtt for name in ("b1", "b2")]
    for gateway in gateways:
        assert gateway is not None
        gateway.gossip.addresses.clear()
        gateway.gossip._heard_at.clear()
    world.client("ann")
    assert [gateway.gossip.addresses for gateway in gateways if gateway is not None] == [
        {"b2": "10.0.0.9:1883"},
        {"b1": "10.0.0.9:1883"},
    ]

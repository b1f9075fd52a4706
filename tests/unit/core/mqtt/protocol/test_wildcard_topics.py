"""Wildcards where the overlay routes by whole topics: across brokers, in order, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.journal.recovery import come_back
from pubweave.core.journal.snapshot import restore_broker, take_snapshot
from pubweave.core.mqtt.cluster.wildcard_interests import ABSENT_S, WildcardInterestTable
from pubweave.core.mqtt.cluster.wildcard_replicator import KEEP_S, LINGER_S
from pubweave.core.mqtt.protocol.topics import matches_topic, parse_pattern
from pubweave.core.mqtt.protocol.wildcard_topics import (
    REPLICATOR_CLIENT,
    copied_attributes,
    original_of,
    overlay_topic_of,
    replicator_client,
    wildcard_topics_of,
)
from pubweave.core.mqtt.session.cluster_messages import WildcardInterests
from pubweave.core.session.access import GATEWAY_CLIENT
from pubweave.core.vocabulary.events import AccessChanged, LoginReceived, PasswordVerified
from pubweave.core.vocabulary.reserved_topics import WILDCARD_TOPIC, is_wildcard
from pubweave.model.filters.filter import topic_filter
from pubweave.model.filters.text import parse_filter
from pubweave.model.mqtt_packets import (
    ConnAck,
    Connect,
    PubAck,
    Publish,
    Reason,
    SubAck,
    Subscribe,
    TopicFilter,
    Unsubscribe,
    Will,
)
from pubweave.model.publications import Publication
from pubweave.model.records.access import AccessRules, UserRules
from tests.mqtt_world import MqttPeer, MqttWorld
from tests.unit.core.mqtt.test_overlay import PATTERNS, TOPICS, Native

STRATEGIES = pytest.mark.parametrize("strategy", ["topic_connected", "rendezvous"])
KEPT = {"session_expiry_s": 1000}


def overlay(strategy: str, brokers: int = 3, **options: Any) -> MqttWorld:
    world = MqttWorld(brokers, strategy=strategy, **options)
    world.pass_time(2)  # rings and maps
    return world


def connect(world: MqttWorld, name: str, broker: str, **fields: Any) -> MqttPeer:
    """A client that was let in, however long that takes."""
    peer = world.peer(broker)
    peer.say_nothing_back(Connect(name, **fields))
    answer = first(peer, ConnAck)
    assert answer.reason == 0
    return peer


def first(peer: MqttPeer, kind: type) -> Any:
    """The first packet of a kind, however long it takes."""
    for _ in range(100):
        found = [packet for packet in peer.got if isinstance(packet, kind)]
        if found:
            peer.got.remove(found[0])
            return found[0]
        peer.world.pass_time(0.1)
    raise AssertionError(f"no {kind.__name__}")


def subscribe(peer: MqttPeer, pattern: str, qos: int = 1, **fields: Any) -> int:
    """The reason, however long it takes; what is retained stays in `got`."""
    options = {k: fields.pop(k) for k in ("subscription_id", "user_properties") if k in fields}
    peer.say_nothing_back(Subscribe(1, (TopicFilter(pattern, qos, **fields),), **options))
    reasons: tuple[int, ...] = first(peer, SubAck).reasons
    return reasons[0]


def got(peer: MqttPeer) -> list[bytes]:
    """What comes within a while."""
    peer.world.pass_time(1)
    return [packet.payload for packet in peer.answer()]


# --- names -----------------------------------------------------------------------------------


@given(PATTERNS, TOPICS)
@settings(max_examples=200)
def test_whatever_a_pattern_wants_is_copied_to_where_it_is_looked_for(
    pattern: str, topic: str
) -> None:
    way = overlay_topic_of(parse_pattern(pattern).pattern)
    if matches_topic(pattern, topic) and not topic.startswith(("$mqtt", "$share", "$SYS")):
        assert way in (topic, *wildcard_topics_of(topic))


def test_names_of_wild_topics_are_short() -> None:
    topic = "x" * 5000 + "/y"
    way = overlay_topic_of("x" * 5000 + "/+")
    assert way in wildcard_topics_of(topic)
    assert len(way) < 100


def test_a_copy_has_all_that_its_original_has() -> None:
    original = Publication("mqtt:ann@b1", 7, "a/b", {"mqtt.qos": 1, "x": 5}, b"p", 3.0)
    attributes = copied_attributes(original)
    copy = Publication(replicator_client("b1"), 1, f"{WILDCARD_TOPIC}/a", attributes, b"p", 3.0)
    found = original_of(copy)
    assert found is not None
    assert (found.key, found.topic, found.attributes) == (original.key, "a/b", original.attributes)
    assert original_of(original) is original
    forged = Publication("eve", 1, f"{WILDCARD_TOPIC}/a", attributes, b"p", 3.0)
    assert original_of(forged) is None
    assert REPLICATOR_CLIENT.startswith(GATEWAY_CLIENT), "nobody else can have such a name"


@pytest.mark.parametrize("attributes", [{}, {"mqtt.wild.topic": 5}, {"mqtt.wild.topic": ""}])
def test_what_is_no_copy_is_passed_over(attributes: dict[str, Any]) -> None:
    assert (
        original_of(Publication(replicator_client("b1"), 1, WILDCARD_TOPIC, attributes, b"", 0.0))
        is None
    )


# --- across brokers --------------------------------------------------------------------------


@STRATEGIES
def test_wildcards_reach_across_brokers(strategy: str) -> None:
    world = overlay(strategy)
    ann, eve = connect(world, "ann", "b3"), connect(world, "eve", "b1")
    assert subscribe(ann, "a/+", 2) == 2
    assert subscribe(eve, "#", 1) == 1
    bob = connect(world, "bob", "b1")
    assert bob.publish("a/b", b"1", 1) == [PubAck(7)]
    assert bob.publish("a/b/c", b"2", 1) == [PubAck(7)]
    bob.publish("c", b"3")
    bob.publish("$own/x", b"4")
    assert got(ann) == [b"1"]
    assert got(eve) == [b"1", b"2", b"3"]


@STRATEGIES
def test_one_publisher_is_heard_in_order_and_once(strategy: str) -> None:
    world = overlay(strategy)
    ann = connect(world, "ann", "b3")
    subscribe(ann, "a/#", 2)
    bob = connect(world, "bob", "b1")
    sent = [b"%d" % number for number in range(60)]
    for number, payload in enumerate(sent):
        bob.publish(f"a/{number % 7}", payload, 1, packet_id=1 + number)
    assert got(ann) == sent
    assert got(ann) == []


@STRATEGIES
def test_what_is_wanted_for_several_reasons_comes_once(strategy: str) -> None:
    world = overlay(strategy)
    ann = connect(world, "ann", "b3")
    for number, pattern in enumerate(("a/b", "a/#", "#", "a/+"), 1):
        subscribe(ann, pattern, number % 3, subscription_id=number)
    bob = connect(world, "bob", "b1")
    for number in range(20):
        bob.publish("a/b", b"%d" % number, 2, packet_id=1 + number)
    world.pass_time(1)
    packets = ann.answer()
    assert [p.payload for p in packets] == [b"%d" % number for number in range(20)]
    assert {(p.qos, p.subscription_ids) for p in packets} == {(2, (1, 2, 3, 4))}


@STRATEGIES
def test_what_comes_late_on_another_way_is_not_given_again(strategy: str) -> None:
    """A broker that is new to a topic is sent what is kept of it."""
    world = overlay(strategy)
    ann = connect(world, "ann", "b3")
    subscribe(ann, "a/#", 2)
    bob = connect(world, "bob", "b1")
    bob.publish("a/b", b"1", 1)
    assert got(ann) == [b"1"]
    subscribe(ann, "a/b", 2)
    subscribe(ann, "#", 2)
    assert got(ann) == []


@STRATEGIES
def test_what_was_published_before_a_subscription_is_not_for_it(strategy: str) -> None:
    """Though brokers keep it for others that are new to the topic."""
    world = overlay(strategy)
    bob = connect(world, "bob", "b1")
    subscribe(connect(world, "eve", "b1"), "#", 1)
    bob.publish("a/b", b"before", 1)
    world.pass_time(3)
    ann = connect(world, "ann", "b3", **KEPT)
    subscribe(ann, "a/#", 1)
    subscribe(ann, "a/b", 1)
    bob.publish("a/b", b"after", 1)
    world.pass_time(2)  # or both claims cross
    ann = connect(world, "ann", "b2", clean_start=False, **KEPT)
    assert got(ann) == [b"after"]


@STRATEGIES
def test_content_filters_no_local_and_retain_as_published(strategy: str) -> None:
    world = overlay(strategy)
    ann = connect(world, "ann", "b3")
    wanted = (("filter", "volume > 100"),)
    assert subscribe(ann, "stock/+", 1, user_properties=wanted) == 1
    subscribe(ann, "own/+", 1, no_local=True, retain_as_published=True)
    bob = connect(world, "bob", "b1")
    bob.publish("stock/1", b'{"volume": 50}')
    bob.publish("stock/1", b'{"volume": 150}')
    ann.say_nothing_back(Publish("own/1", b"mine"))
    bob.publish("own/1", b"his", 1, retain=True)
    world.pass_time(1)
    assert {(p.payload, p.retain) for p in ann.answer()} == {
        (b'{"volume": 150}', False),
        (b"his", True),
    }


@STRATEGIES
def test_retained_publications_greet_a_wildcard_subscription(strategy: str) -> None:
    world = overlay(strategy)
    connect(world, "bob", "b1").publish("a/1", b"on", 1, retain=True)
    world.pass_time(KEEP_S + 5)
    ann = connect(world, "ann", "b3")
    subscribe(ann, "a/#", 1)
    assert [(p.payload, p.retain) for p in ann.answer()] == [(b"on", True)]


@STRATEGIES
def test_who_was_greeted_with_what_is_retained_does_not_get_it_again(strategy: str) -> None:
    """The broker is new to the topic, and is sent what is kept of it."""
    world = overlay(strategy)
    bob = connect(world, "bob", "b1")
    for payload in (b"old", b"new"):
        bob.publish("a/1", payload, 1, retain=True)
    ann = connect(world, "ann", "b3")
    subscribe(ann, "a/1", 1)
    bob.publish("a/1", b"now", 1, retain=True)
    world.pass_time(1)
    assert [(p.payload, p.retain) for p in ann.answer()] == [(b"new", True), (b"now", False)]


@STRATEGIES
def test_each_goes_to_one_member_of_a_group_in_the_overlay(strategy: str) -> None:
    world = overlay(strategy)
    members = [connect(world, f"m{n}", f"b{1 + n}") for n in range(3)]
    for member in members:
        assert subscribe(member, "$share/g/jobs/#", 1) == 1
    world.pass_time(1)
    bob = connect(world, "bob", "b1")
    sent = [b"%d" % number for number in range(90)]
    for number, payload in enumerate(sent):
        bob.publish(f"jobs/{number % 5}", payload, 1, packet_id=1 + number)
    found = [got(member) for member in members]
    assert Counter(p for some in found for p in some) == Counter(sent)
    assert all(len(some) > 10 for some in found)


@STRATEGIES
def test_unsubscribed_means_no_more(strategy: str) -> None:
    world = overlay(strategy)
    ann = connect(world, "ann", "b3")
    subscribe(ann, "a/#", 1)
    subscribe(ann, "a/+", 0)
    ann.say(Unsubscribe(4, ("a/#",)))
    bob = connect(world, "bob", "b1")
    bob.publish("a/b/c", b"deep", 1)
    bob.publish("a/b", b"flat", 1)
    assert got(ann) == [b"flat"]
    ann.say(Unsubscribe(4, ("a/+",)))
    bob.publish("a/b", b"late", 1)
    assert got(ann) == []


@STRATEGIES
def test_wills_and_native_clients_are_heard_too(strategy: str) -> None:
    world = overlay(strategy)
    ann = connect(world, "ann", "b3")
    subscribe(ann, "#", 1)
    connect(world, "bob", "b1", will=Will("state/bob", b"gone", 1)).cut()
    native = Native(world, "b2")
    native.client.advertise(topic_filter("STOCK"))
    native.client.publish("STOCK", {"volume": 7}, b"native", world.now)
    native.flush()
    world.pass_time(1)
    packets = ann.answer()
    assert sorted(p.payload for p in packets) == [b"gone", b"native"]
    (stock,) = [p for p in packets if p.topic == "STOCK"]
    assert stock.content.user_properties == (("volume", "7"),)


# --- nobody is copied for in vain ------------------------------------------------------------


def copies(world: MqttWorld) -> int:
    return sum(b.mqtt.replicator.copied for b in world.brokers.values() if b.mqtt is not None)


@STRATEGIES
def test_copies_are_made_only_where_somebody_wants_them(strategy: str) -> None:
    world = overlay(strategy)
    bob = connect(world, "bob", "b1")
    bob.publish("a/b", b"1", 1)
    assert copies(world) == 0
    ann = connect(world, "ann", "b3")
    subscribe(ann, "b/#", 1)
    world.pass_time(1)
    bob.publish("a/b", b"2", 1)
    assert copies(world) == 0
    bob.publish("b/b", b"3", 1)
    assert got(ann) == [b"3"]
    assert copies(world) == 1
    ann.say(Unsubscribe(4, ("b/#",)))
    world.pass_time(LINGER_S + 10)
    bob.publish("b/b", b"4", 1)
    assert copies(world) == 1
    taken = {claim.topic for claim in world.brokers["b1"].routing.advertisements.values()}  # type: ignore[attr-defined]
    assert not any(map(is_wildcard, taken)), "the topic is given up with it"
    subscribe(ann, "b/#", 1)
    bob.publish("b/b", b"5", 1)
    assert got(ann)[-1:] == [b"5"]


@STRATEGIES
def test_what_is_published_before_a_door_hears_of_a_subscription_is_not_lost(strategy: str) -> None:
    """The subscriber has its answer, and what was said of it is still under way."""
    world = overlay(strategy, 2)
    ann, bob = connect(world, "ann", "b2"), connect(world, "bob", "b1")
    bob.publish("a/1", b"long before", 1)
    world.pass_time(10)
    world.is_slow = True
    assert subscribe(ann, "a/#", 1) == 1
    assert bob.publish("a/1", b"first", 1) == [PubAck(7)]
    assert copies(world) == 0
    world.is_slow = False
    while world.under_way:
        world.arrive(next(iter(world.under_way)))
    bob.publish("a/1", b"second", 1)
    assert got(ann) == [b"first", b"second"]


@STRATEGIES
def test_a_client_on_many_topics_is_not_refused(strategy: str) -> None:
    """Where each topic is advertised there is no word for all of them."""
    world = overlay(strategy, 1)
    ann, bob = connect(world, "ann", "b1"), connect(world, "bob", "b1")
    subscribe(ann, "a/#", 1)
    for number in range(40):
        assert bob.publish(f"a/{number}", b"%d" % number, 1) == [PubAck(7)]
    assert len(got(ann)) == 40


# --- rights ----------------------------------------------------------------------------------


def log_in(world: MqttWorld, user: str, broker: str) -> MqttPeer:
    peer = world.peer(broker)
    world.handle(broker, LoginReceived(peer.number, user))
    peer.say_nothing_back(Connect(f"c-{user}", username=user, has_password=True, **KEPT))
    world.handle(broker, PasswordVerified(peer.number, user))
    assert first(peer, ConnAck).reason == 0
    return peer


def rules(**users: tuple[str, str]) -> AccessRules:
    return AccessRules(
        users={
            name: UserRules((parse_filter(publish),), (parse_filter(subscribe_),))
            for name, (publish, subscribe_) in users.items()
        }
    )


@STRATEGIES
def test_rights_hold_for_wildcards(strategy: str) -> None:
    given_ = rules(ann=("class prefix 'a/'", "class prefix 'a/'"), root=("*", "*"))
    world = overlay(strategy, 2, access=given_)
    ann, root = log_in(world, "ann", "b1"), log_in(world, "root", "b2")
    assert subscribe(ann, "secret/#") == Reason.NOT_AUTHORIZED
    assert subscribe(ann, "#") == Reason.NOT_AUTHORIZED
    assert subscribe(ann, "a/#") == Reason.NOT_AUTHORIZED  # 'a' itself is not a right
    assert subscribe(ann, "a/+") == 1
    assert subscribe(root, "#") == 1
    ann.heard()
    (refused,) = [p for p in ann.publish("secret/x", b"no", 1) if isinstance(p, PubAck)]
    assert refused.reason == Reason.NOT_AUTHORIZED
    for peer, topic, payload in ((ann, "a/x", b"yes"), (root, "secret/x", b"hidden")):
        peer.say_nothing_back(Publish(topic, payload, 1, packet_id=8))
    assert got(ann) == [b"yes"]
    assert sorted(got(root)) == [b"hidden", b"yes"]


@STRATEGIES
def test_wild_topics_are_not_for_clients(strategy: str) -> None:
    world = overlay(strategy, 1, access=rules(root=("*", "*")))
    root = log_in(world, "root", "b1")
    for pattern in ("$mqtt/wild", "$mqtt/wild/a", "$mqtt/#", "$mqtt/+", "$share/g/$mqtt/wild"):
        assert subscribe(root, pattern) == Reason.NOT_AUTHORIZED
    (refused,) = [p for p in root.publish("$mqtt/wild/a", b"x", 1) if isinstance(p, PubAck)]
    assert refused.reason == Reason.NOT_AUTHORIZED


@STRATEGIES
def test_a_right_that_is_taken_away_ends_the_session(strategy: str) -> None:
    world = overlay(strategy, 1, access=rules(ann=("*", "*"), bob=("*", "*")))
    ann, bob = log_in(world, "ann", "b1"), log_in(world, "bob", "b1")
    subscribe(ann, "a/+")
    subscribe(bob, "b/+")
    less = rules(ann=("*", "class prefix 'b/'"), bob=("*", "class prefix 'b/'"))
    world.handle("b1", AccessChanged(less))
    assert not ann.is_open
    assert bob.is_open


# --- sessions that move, and brokers that come back ------------------------------------------


@STRATEGIES
def test_a_session_moves_while_publications_flow(strategy: str) -> None:
    world = overlay(strategy)
    ann = connect(world, "ann", "b1", **KEPT)
    subscribe(ann, "a/#", 2)
    subscribe(ann, "a/1", 2)
    bob = connect(world, "bob", "b2")
    sent: list[bytes] = []
    taken: list[bytes] = []

    def publish(count: int) -> None:
        for _ in range(count):
            sent.append(b"%d" % len(sent))
            bob.publish(f"a/{len(sent) % 3}", sent[-1], 2, packet_id=len(sent))
            world.pass_time(0.02)

    publish(10)
    taken += got(ann)
    for broker in ("b3", "b2", "b1", "b3"):
        peer = world.peer(broker)
        peer.say_nothing_back(Connect("ann", clean_start=False, **KEPT))
        publish(30)
        answer = first(peer, ConnAck)
        assert answer.session_present
        taken += [p.payload for p in ann.answer()]  # what came before it was taken over
        ann = peer
        taken += [p.payload for p in ann.answer()]
    publish(10)
    taken += got(ann)
    assert Counter(taken) == Counter(sent)
    by_topic = [[p for p in taken if (int(p) + 1) % 3 == topic] for topic in range(3)]
    assert all(some == sorted(some, key=int) for some in by_topic)


@STRATEGIES
def test_what_its_new_broker_had_already_comes_to_a_session_that_moves(strategy: str) -> None:
    """It is on its way to the old gateway, which lets go of the session before it comes."""
    world = overlay(strategy, 2)
    ann, bob = connect(world, "ann", "b1", **KEPT), connect(world, "bob", "b2")
    subscribe(ann, "a/#", 2)
    subscribe(ann, "b", 2)
    for topic in ("a/1", "b"):
        bob.publish(topic, b"before", 1)
    assert got(ann) == [b"before", b"before"]
    ann.cut()
    gateway = world.brokers["b1"].mqtt
    assert gateway is not None
    notified, gateway.notified = (  # type: ignore[method-assign]
        gateway.notified,
        lambda end, publications, now: notified(end, publications, now) if not end.owner else None,
    )
    for topic in ("a/1", "b"):
        bob.publish(topic, b"on the way", 1)
    world.pass_time(1)
    ann = connect(world, "ann", "b2", clean_start=False, **KEPT)
    assert got(ann) == [b"on the way", b"on the way"]
    gateway.notified = notified  # type: ignore[method-assign]


@STRATEGIES
def test_a_broker_that_comes_back_goes_on_copying(strategy: str) -> None:
    world = overlay(strategy, 1)
    ann = connect(world, "ann", "b1", **KEPT)
    subscribe(ann, "a/#", 2)
    bob = connect(world, "bob", "b1", **KEPT)
    bob.publish("a/1", b"1", 1)
    assert got(ann) == [b"1"]
    ann.cut()
    bob.publish("a/1", b"2", 1)
    broker = world.brokers["b1"]
    data = take_snapshot(broker)
    world.clients.clear()
    world.brokers["b1"] = restored = restore_broker(data, broker.config, epoch=1, now=world.now)
    come_back(restored, epoch=10**9, now=world.now)
    bob = connect(world, "bob", "b1", clean_start=False, **KEPT)
    bob.publish("a/2", b"3", 1)
    ann = connect(world, "ann", "b1", clean_start=False, **KEPT)
    assert got(ann) == [b"2", b"3"]


def test_a_congested_overlay_slows_publishers_of_copies() -> None:
    world = overlay("topic_connected", 2, mqtt=MqttConfig(max_packet_bytes=1 << 22))
    subscribe(connect(world, "ann", "b2"), "a/#", 0)
    bob = connect(world, "bob", "b1")
    bob.publish("a/1", b"connects the topic")
    world.pass_time(2)
    world._links.clear()  # nothing gets there, and nobody notices yet
    for _ in range(80):
        bob.publish("a/1", b"x" * 100_000)
        if bob.is_paused:
            break
    assert bob.is_paused


def test_a_door_that_is_silent_still_counts_for_a_while() -> None:
    """It may come back with its sessions, and what is kept for it must have been published."""
    interests = WildcardInterestTable("b1")
    interests.heard("b2", WildcardInterests((("$mqtt/wild/a", 5.0),)))
    interests.silent("b2", 50.0)
    interests.silent("b2", 60.0)
    assert not interests.discard_absent(50.0 + ABSENT_S)
    assert interests.wanted() == {"$mqtt/wild/a": 5.0}
    assert interests.discard_absent(51.0 + ABSENT_S)
    assert not interests.wanted()


def test_a_publication_is_found_by_its_packet() -> None:
    """Of what a wildcard subscriber gets nothing shows that it was a copy."""
    world = overlay("topic_connected", 1)
    ann, bob = connect(world, "ann", "b1"), connect(world, "bob", "b1")
    subscribe(ann, "#", 0)
    bob.publish("a/b", b"x", 1)
    world.pass_time(1)
    (packet,) = ann.answer()
    assert packet == Publish("a/b", b"x", 0)

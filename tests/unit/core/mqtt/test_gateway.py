"""A broker's gateway by packets: connecting, publishing, subscribing, sessions, wills."""

from __future__ import annotations

import pytest

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.vocabulary.events import WritingPaused
from pubweave.model.mqtt_packets import (
    VERSION_3,
    Auth,
    ConnAck,
    Connect,
    Content,
    Disconnect,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Reason,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    Will,
)
from tests.mqtt_world import MqttPeer, MqttWorld


def reasons(peer: MqttPeer) -> list[int]:
    """Why a gateway hung up."""
    return [p.reason for p in peer.heard() if isinstance(p, Disconnect | ConnAck)]


# --- connecting ------------------------------------------------------------------------------


def test_connack_says_what_the_door_can() -> None:
    answer = MqttWorld().peer().connect("", keep_alive_s=60)
    assert not answer.session_present
    assert answer.assigned_client_id is not None
    assert (answer.receive_max, answer.topic_alias_max) == (1024, 64)


def test_a_packet_before_connect_ends_the_connection() -> None:
    peer = MqttWorld().peer()
    peer.say(PingReq())
    assert not peer.is_open


def test_a_second_connect_ends_the_connection() -> None:
    peer = MqttWorld().client("ann")
    peer.say_nothing_back(Connect("ann"))
    assert reasons(peer) == [Reason.PROTOCOL_ERROR]
    assert not peer.is_open


def test_enhanced_authentication_is_refused() -> None:
    peer = MqttWorld().peer()
    answer = peer.connect("ann", authentication_method="SCRAM-SHA-1")
    assert answer.reason == Reason.BAD_AUTHENTICATION_METHOD
    assert not peer.is_open


def test_auth_in_a_session_is_a_protocol_error() -> None:
    peer = MqttWorld().client("ann")
    peer.say_nothing_back(Auth())
    assert reasons(peer) == [Reason.PROTOCOL_ERROR]


def test_a_client_that_never_connects_is_closed() -> None:
    world = MqttWorld()
    peer = world.peer()
    world.pass_time(11)
    assert not peer.is_open


def test_the_newest_connection_takes_the_session_over() -> None:
    world = MqttWorld()
    first = world.client("ann", session_expiry_s=100)
    first.subscribe("a", 1)
    second = world.peer()
    assert second.connect("ann", clean_start=False, session_expiry_s=100).session_present
    assert reasons(first) == [Reason.SESSION_TAKEN_OVER]
    world.client("bob").publish("a")
    assert second.payloads() == [b"x"]


def test_a_3_1_1_client_is_closed_without_a_disconnect() -> None:
    world = MqttWorld()
    first = world.client("ann", version=VERSION_3)
    world.client("ann", version=VERSION_3)
    assert not first.is_open
    assert first.heard() == []


def test_keep_alive_is_watched_for_half_as_long_again() -> None:
    world = MqttWorld()
    peer = world.client("ann", keep_alive_s=10)
    world.pass_time(14)
    assert peer.say(PingReq()) == [PingResp()]
    world.pass_time(14.5)
    assert peer.is_open
    world.pass_time(1)
    assert reasons(peer) == [Reason.KEEP_ALIVE_TIMEOUT]


def test_the_door_may_ask_for_a_shorter_keep_alive() -> None:
    world = MqttWorld(mqtt=MqttConfig(keep_alive_max_s=30))
    assert world.peer().connect("ann", keep_alive_s=100).server_keep_alive_s == 30
    assert world.peer().connect("bob").server_keep_alive_s == 30


# --- publishing ------------------------------------------------------------------------------


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("version", [VERSION_3, 5])
def test_each_quality_reaches_a_subscriber_at_any_broker(brokers: int, version: int) -> None:
    world = MqttWorld(brokers)
    ann = world.client("ann", f"b{brokers}", version=version)
    assert ann.subscribe("a/+", 2) == (2,)
    bob = world.client("bob", version=version)
    assert bob.publish("a/1", b"0") == []
    assert bob.publish("a/2", b"1", 1) == [PubAck(7)]
    assert bob.publish("a/3", b"2", 2) == [PubRec(7)]
    assert bob.say(PubRel(7)) == [PubComp(7)]
    assert [(p.payload, p.qos) for p in ann.answer()] == [(b"0", 0), (b"1", 1), (b"2", 2)]


def test_the_quality_is_the_smaller_of_both() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a", 1)
    bob = world.client("bob")
    bob.publish("a", b"0", 0)
    bob.publish("a", b"2", 2)
    assert [p.qos for p in ann.answer()] == [0, 1]


def test_a_qos_2_publication_that_comes_again_is_taken_once() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a", 2)
    bob = world.client("bob", session_expiry_s=100)
    assert bob.publish("a", b"x", 2) == [PubRec(7)]
    bob.cut()
    bob = world.client("bob", session_expiry_s=100, clean_start=False)
    assert bob.publish("a", b"x", 2, is_duplicate=True) == [PubRec(7)]
    assert bob.say(PubRel(7), PubRel(7)) == [PubComp(7), PubComp(7, Reason.PACKET_ID_NOT_FOUND)]
    assert len(ann.answer()) == 1


def test_what_was_not_acknowledged_comes_again_in_order() -> None:
    world = MqttWorld()
    ann = world.client("ann", session_expiry_s=100)
    ann.subscribe("a", 2)
    bob = world.client("bob")
    for number in range(4):
        bob.publish("a", b"%d" % number, 1 + number % 2, packet_id=10 + number)
    sent = ann.published()
    ann.say(PubAck(sent[0].packet_id or 0), PubRec(sent[1].packet_id or 0))
    ann.cut()
    bob.publish("a", b"4", 1)
    ann = world.client("ann", session_expiry_s=100, clean_start=False)
    got = ann.heard()
    assert got[0] == PubRel(sent[1].packet_id or 0)
    again = [p for p in got if isinstance(p, Publish)]
    assert [(p.payload, p.is_duplicate) for p in again] == [
        (b"2", True),
        (b"3", True),
        (b"4", False),
    ]
    assert [p.packet_id for p in again[:2]] == [sent[2].packet_id, sent[3].packet_id]


def test_no_more_are_under_way_than_the_client_takes() -> None:
    world = MqttWorld()
    ann = world.client("ann", receive_max=2)
    ann.subscribe("a", 1)
    bob = world.client("bob")
    for number in range(5):
        bob.publish("a", b"%d" % number, 1)
    assert [p.payload for p in ann.got if isinstance(p, Publish)] == [b"0", b"1"]
    assert [p.payload for p in ann.answer()] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_slow_subscriber_loses_qos_0_only() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a", 1)
    world.handle("b1", WritingPaused(ann.number, True))
    bob = world.client("bob")
    bob.publish("a", b"lost", 0)
    bob.publish("a", b"kept", 1)
    assert ann.heard() == []
    world.handle("b1", WritingPaused(ann.number, False))
    assert ann.payloads() == [b"kept"]


def test_topic_aliases_stand_for_topics_both_ways() -> None:
    world = MqttWorld()
    ann = world.client("ann", topic_alias_max=1)
    ann.subscribe("#")
    bob = world.client("bob")
    bob.publish("a", b"1", topic_alias=3)
    bob.publish("", b"2", topic_alias=3)
    bob.publish("b", b"3")
    assert [(p.topic, p.topic_alias) for p in ann.published()] == [("a", 1), ("", 1), ("b", None)]


@pytest.mark.parametrize(
    ("alias", "reason"), [(65, Reason.TOPIC_ALIAS_INVALID), (5, Reason.PROTOCOL_ERROR)]
)
def test_an_alias_without_a_meaning_ends_the_connection(alias: int, reason: Reason) -> None:
    bob = MqttWorld().client("bob")
    bob.say_nothing_back(Publish("", b"", topic_alias=alias))
    assert reasons(bob) == [reason]


def test_a_topic_of_the_doors_is_not_for_clients() -> None:
    world = MqttWorld(2)
    bob = world.client("bob", will=Will("$SYS/broker/connection/bob/state", b"0"))
    assert bob.publish("$mqtt/doors") == []
    (answer,) = bob.publish("$SYS/broker/uptime", b"1", 1, retain=True)
    assert answer.reason == Reason.NOT_AUTHORIZED
    (answer,) = bob.publish("$share/x", b"1", 2)
    assert answer.reason == Reason.NOT_AUTHORIZED
    assert bob.is_open


def test_the_wrong_answer_ends_the_connection() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a", 1)
    world.client("bob").publish("a", b"x", 1)
    (sent,) = ann.published()
    ann.say_nothing_back(PubRec(sent.packet_id or 0))
    assert reasons(ann) == [Reason.PROTOCOL_ERROR]


def test_a_client_without_room_for_the_answer_is_told_nothing() -> None:
    world = MqttWorld()
    assert world.peer().connect("bob", max_packet_bytes=20).reason == 0
    peer = world.peer()
    assert peer.say(Connect("ann", max_packet_bytes=10)) == []
    assert not peer.is_open


def test_more_than_the_client_takes_is_left_out() -> None:
    world = MqttWorld()
    ann = world.client("ann", max_packet_bytes=100)
    ann.subscribe("a", 1)
    bob = world.client("bob")
    bob.publish("a", b"x" * 200, 1)
    bob.publish("a", b"small", 1)
    assert [p.payload for p in ann.answer()] == [b"small"]


def test_what_is_said_about_a_payload_arrives() -> None:
    world = MqttWorld(2)
    ann = world.client("ann", "b2")
    ann.subscribe("a")
    said = Content(True, 60, "text/plain", "re", b"\x00\xff", (("k", "1"), ("k", "2")))
    world.client("bob").publish("a", content=said)
    assert [p.content for p in ann.published()] == [said]


def test_what_has_expired_is_not_delivered_but_has_had_its_number() -> None:
    world = MqttWorld()
    ann = world.client("ann", session_expiry_s=100)
    ann.subscribe("a", 1)
    ann.cut()
    bob = world.client("bob")
    bob.publish("a", b"short", 1, content=Content(expiry_s=5))
    bob.publish("a", b"long", 1, content=Content(expiry_s=50))
    world.pass_time(10)
    ann = world.client("ann", session_expiry_s=100, clean_start=False)
    (packet,) = ann.published()
    assert (packet.payload, packet.content.expiry_s, packet.packet_id) == (b"long", 40, 2)


# --- subscribing -----------------------------------------------------------------------------


def test_overlapping_subscriptions_are_served_once_with_all_their_numbers() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a/#", 1, subscription_id=5)
    ann.subscribe("a/+", 2, subscription_id=6)
    world.client("bob").publish("a/b", b"x", 2)
    (only,) = ann.published()
    assert (only.qos, set(only.subscription_ids)) == (2, {5, 6})


def test_no_local_keeps_the_own_publications_away() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a", no_local=True)
    ann.publish("a", b"own")
    world.client("bob").publish("a", b"other")
    assert ann.payloads() == [b"other"]


def test_a_bridge_gets_nothing_back_that_it_sent() -> None:
    world = MqttWorld()
    bridge = world.client("bridge", version=VERSION_3, is_bridge=True)
    bridge.subscribe("#", 1)
    assert bridge.publish("a", b"own", 1) == [PubAck(7)]
    world.client("bob").publish("a", b"other", 1, retain=True)
    assert [(p.payload, p.retain) for p in bridge.published()] == [(b"other", True)]


@pytest.mark.parametrize("pattern", ["a#", "a/#/b", "+a", "", "$share/g", "$share//a"])
def test_a_filter_that_is_none_is_refused(pattern: str) -> None:
    assert MqttWorld().client("ann").subscribe(pattern) == (Reason.TOPIC_FILTER_INVALID,)


def test_one_bad_filter_does_not_harm_the_others() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    (answer,) = ann.say(Subscribe(3, (TopicFilter("a", 1), TopicFilter("b#"))))
    assert isinstance(answer, SubAck)
    assert answer.reasons == (1, Reason.TOPIC_FILTER_INVALID)
    assert answer.reason_text is not None
    world.client("bob").publish("a")
    assert ann.payloads() == [b"x"]


def test_unsubscribed_means_no_more() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a")
    answer = ann.say(Unsubscribe(4, ("a", "b")))
    assert answer == [UnsubAck(4, (0, Reason.NO_SUBSCRIPTION_EXISTED))]
    world.client("bob").publish("a")
    assert ann.payloads() == []


def test_wildcards_do_not_reach_dollar_topics() -> None:
    world = MqttWorld(2)
    ann = world.client("ann")
    ann.subscribe("#")
    ann.subscribe("+/x", packet_id=2)
    world.client("bob", "b2").publish("$own/x")
    world.pass_time(30)  # gateways talk under $mqtt/ meanwhile
    assert ann.payloads() == []


def test_a_strategy_by_topic_takes_topics_and_patterns() -> None:
    world = MqttWorld(strategy="topic_connected")
    peer = world.peer()
    peer.connect("ann")
    peer.say(Subscribe(2, (TopicFilter("a"), TopicFilter("a/#"))))
    world.pass_time(2)
    assert peer.heard() == [SubAck(2, (0, 0))]
    world.client("bob").publish("a")
    world.pass_time(2)
    assert peer.payloads() == [b"x"]


# --- contents --------------------------------------------------------------------------------


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_content_filter_sees_user_properties_and_json(brokers: int) -> None:
    world = MqttWorld(brokers)
    ann = world.client("ann")
    wanted = (("filter", "volume > 100 and symbol = 'YHOO'"),)
    assert ann.subscribe("stock/+", 1, user_properties=wanted) == (1,)
    bob = world.client("bob", f"b{brokers}")
    bob.publish("stock/1", b'{"volume": 50, "symbol": "YHOO"}')
    bob.publish("stock/1", b'{"volume": 150, "symbol": "YHOO", "open": [1]}')
    bob.publish("stock/1", b'{"volume": 150, "symbol": "IBM"}')
    said = Content(user_properties=(("volume", "1000"), ("symbol", "YHOO")))
    bob.publish("stock/2", b"raw", content=said)
    bob.publish("stock/2", b"{not json", content=said)
    bob.publish("other/2", b"raw", content=said)
    assert [p.payload[:12] for p in ann.published()] == [b'{"volume": 1', b"raw", b"{not json"]


def test_a_content_filter_that_cannot_be_read_is_refused_in_words() -> None:
    ann = MqttWorld().client("ann")
    (answer,) = ann.say(
        Subscribe(1, (TopicFilter("a"),), user_properties=(("filter", "volume >"),))
    )
    assert isinstance(answer, SubAck)
    assert answer.reasons == (Reason.IMPLEMENTATION_SPECIFIC,)
    assert "filter" in (answer.reason_text or "")


# --- sessions --------------------------------------------------------------------------------


def test_a_session_is_kept_for_as_long_as_it_was_asked_for() -> None:
    world = MqttWorld()
    ann = world.client("ann", session_expiry_s=30)
    ann.subscribe("a", 1)
    ann.say(Disconnect())
    world.pass_time(29)
    world.client("bob").publish("a", b"x", 1)
    ann = world.peer()
    assert ann.connect("ann", clean_start=False, session_expiry_s=30).session_present
    assert ann.payloads() == [b"x"]
    ann.cut()
    world.pass_time(31)
    assert not world.peer().connect("ann", clean_start=False).session_present
    assert "mqtt:ann@b1" in world.brokers["b1"].sessions.clients


def test_an_expired_session_is_not_present_until_its_client_knows_the_new_one() -> None:
    """The answer that says so can get lost."""
    world = MqttWorld()
    ann = world.client("ann", session_expiry_s=30)
    ann.subscribe("a", 1)
    ann.cut()
    world.pass_time(31)
    for _ in range(2):
        ann = world.peer()
        assert not ann.connect("ann", clean_start=False, session_expiry_s=30).session_present
        ann.cut()
    ann = world.peer()
    ann.connect("ann", clean_start=False, session_expiry_s=30)
    ann.subscribe("a", 1)
    ann.cut()
    ann = world.peer()
    assert ann.connect("ann", clean_start=False, session_expiry_s=30).session_present


def test_clean_start_forgets_what_was_before() -> None:
    world = MqttWorld()
    ann = world.client("ann", session_expiry_s=30)
    ann.subscribe("a", 1)
    ann.cut()
    world.client("bob").publish("a", b"x", 1)
    ann = world.peer()
    assert not ann.connect("ann", clean_start=True).session_present
    world.client("bob").publish("a", b"y", 1)
    assert ann.payloads() == []


def test_a_client_that_leaves_is_forgotten_by_the_broker() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a/#", 1)
    ann.publish("b")
    ann.say(Disconnect())
    assert list(world.brokers["b1"].sessions.clients) == ["mqtt-door:b1"]


def test_what_was_published_in_the_last_breath_arrives() -> None:
    world = MqttWorld(2)
    ann = world.client("ann", "b2")
    ann.subscribe("a")
    world.client("bob").say(Publish("a", b"last"), Disconnect())
    assert ann.payloads() == [b"last"]


def test_disconnect_cannot_keep_a_session_that_was_to_end() -> None:
    ann = MqttWorld().client("ann")
    ann.say_nothing_back(Disconnect(session_expiry_s=10))
    assert reasons(ann) == [Reason.PROTOCOL_ERROR]


# --- wills -----------------------------------------------------------------------------------


WILL = Will("will/ann", b"gone", 1)


def watcher(world: MqttWorld) -> MqttPeer:
    peer = world.client("watcher")
    peer.subscribe("will/#", 1)
    return peer


def test_a_will_is_published_when_the_connection_is_lost() -> None:
    world = MqttWorld(2)
    seen = watcher(world)
    world.client("ann", "b2", will=WILL).cut()
    assert seen.payloads() == [b"gone"]


@pytest.mark.parametrize(("reason", "expected"), [(0, []), (4, [b"gone"])])
def test_a_goodbye_makes_the_will_void_unless_it_says_otherwise(
    reason: int, expected: list[bytes]
) -> None:
    world = MqttWorld()
    seen = watcher(world)
    world.client("ann", will=WILL).say(Disconnect(reason))
    assert seen.payloads() == expected


def test_a_will_waits_for_its_delay_and_is_void_when_the_client_returns() -> None:
    world = MqttWorld()
    seen = watcher(world)
    late = Will("will/ann", b"gone", 1, delay_s=10)
    world.client("ann", will=late, session_expiry_s=100).cut()
    world.pass_time(9)
    assert seen.payloads() == []
    ann = world.client("ann", clean_start=False, will=late, session_expiry_s=100)
    world.pass_time(20)
    assert seen.payloads() == []
    ann.cut()
    world.pass_time(11)
    assert seen.payloads() == [b"gone"]


def test_a_will_does_not_wait_longer_than_its_session() -> None:
    world = MqttWorld()
    seen = watcher(world)
    late = Will("will/ann", b"gone", 1, delay_s=100)
    world.client("ann", will=late, session_expiry_s=5).cut()
    world.pass_time(6)
    assert seen.payloads() == [b"gone"]


def test_a_clean_client_that_takes_its_own_session_over_does_not_lose_its_will() -> None:
    world = MqttWorld()
    seen = watcher(world)
    world.client("ann", will=WILL)
    world.client("ann")
    assert seen.payloads() == [b"gone"]


def test_a_will_is_published_when_another_takes_the_session_over() -> None:
    world = MqttWorld()
    seen = watcher(world)
    world.client("ann", will=WILL, session_expiry_s=10)
    world.client("ann", clean_start=False, session_expiry_s=10)
    assert seen.payloads() == [b"gone"]


def test_what_no_link_could_carry_is_refused() -> None:
    world = MqttWorld(2)
    ann = world.client("ann", "b2")
    ann.subscribe("a", 1)
    bob = world.client("bob")
    heavy = Content(user_properties=tuple((f"n{n}", "v" * 60_000) for n in range(12)))
    (answer,) = bob.publish("a", b"x", 1, content=heavy, packet_id=1)
    assert answer.reason == Reason.QUOTA_EXCEEDED
    fields = b'{"a": "%s"}' % (b"x" * 60_000)
    assert bob.publish("a", fields, 1, packet_id=2) == [PubAck(2)]
    assert len(ann.published()) == 1

"""The standard's rules for publications and subscriptions, held against two doors of an overlay.

Written from the text of MQTT 5.0 and 3.1.1; the numbers in brackets are its statements."""

from __future__ import annotations

import time
from collections import Counter
from itertools import count

import mqtt5
import pytest
from mqtt5 import RetainHandling

from pubweave.wire.mqtt.codec import V3, V5, encode
from tests.interop.raw_mqtt import QUALITIES, RawClient

pytestmark = [pytest.mark.slow, pytest.mark.sockets]
BOTH = pytest.mark.parametrize("version", [V3, V5])
NEAR_AND_FAR = pytest.mark.parametrize("far", [0, 1], ids=["near", "far"])
SPREAD_S = 0.5
"""A subscription is known at the neighboring broker after this."""
Doors = tuple[int, int]
_numbers = count()


def name(what: str = "c") -> str:
    """A client identifier that no other test has."""
    return f"{what}-{next(_numbers)}"


def subscriber(door: int, *patterns: str, version: int = V5, **fields: object) -> RawClient:
    client = RawClient(door, version)
    client.connect(name("s"))
    codes = client.subscribe(*patterns, **fields).reason_codes  # type: ignore[arg-type]
    assert all(int(code) < 0x80 for code in codes), codes
    return client


def publisher(door: int, version: int = V5, **fields: object) -> RawClient:
    client = RawClient(door, version)
    client.connect(name("p"), **fields)  # type: ignore[arg-type]
    return client


# --- quality of service --------------------------------------------------------------------------


@NEAR_AND_FAR
@pytest.mark.parametrize(("ours", "theirs"), [(V3, V5), (V5, V3)])
def test_a_publication_comes_with_the_lower_of_both_qualities(
    doors: Doors, far: int, ours: int, theirs: int
) -> None:
    """[MQTT-3.8.4-8]"""
    for granted in range(3):
        topic = f"quality/{far}/{ours}/{granted}"
        with subscriber(doors[far], topic, version=theirs, qos=granted) as s:
            time.sleep(SPREAD_S * far)
            with publisher(doors[0], ours) as p:
                for published in range(3):
                    p.publish(topic, b"%d" % published, published)
                got = {packet.payload: int(packet.qos) for packet in s.take_all()}
        assert got == {b"%d" % q: min(q, granted) for q in range(3)}


@NEAR_AND_FAR
def test_publications_of_one_publisher_come_in_order(doors: Doors, far: int) -> None:
    """[MQTT-4.6.0-6]"""
    topic = f"order/{far}"
    with subscriber(doors[far], topic, qos=1) as s, publisher(doors[0]) as p:
        time.sleep(SPREAD_S * far)
        packets = [
            mqtt5.PublishPacket(topic, b"%d" % n, qos=QUALITIES[1], packet_id=n)
            for n in range(1, 301)
        ]
        p.send(*packets)
        assert [int(s.take().payload) for _ in packets] == list(range(1, 301))
        acknowledged = [p.expect(mqtt5.PubAckPacket).packet_id for _ in packets]
        assert acknowledged == list(range(1, 301))


@NEAR_AND_FAR
def test_what_a_publisher_says_of_its_publication_arrives_unchanged(doors: Doors, far: int) -> None:
    """3.3.2.3: format, type, response topic, correlation data, the user's properties in order."""
    topic = f"properties/{far}"
    fields = {
        "payload_format_indicator": 1,
        "content_type": "text/plain",
        "response_topic": "answers/here",
        "correlation_data": b"\0\xff",
        "user_properties": [("b", "1"), ("a", "2"), ("b", "ü")],
    }
    with subscriber(doors[far], topic) as s, publisher(doors[0]) as p:
        time.sleep(SPREAD_S * far)
        p.publish(topic, "Grüße".encode(), 1, **fields)
        packet = s.take()
        assert {field: getattr(packet, field) for field in fields} == fields
        assert packet.payload.decode() == "Grüße"


@NEAR_AND_FAR
def test_a_payload_can_be_anything(doors: Doors, far: int) -> None:
    topic = f"payload/{far}"
    with subscriber(doors[far], topic) as s, publisher(doors[0]) as p:
        time.sleep(SPREAD_S * far)
        for payload in (b"", bytes(range(256)), b"x" * 500_000):
            p.publish(topic, payload, 1)
            assert s.take().payload == payload


# --- subscriptions -------------------------------------------------------------------------------

TOPICS = ["w/a", "w/a/b", "w/b", "w/", "w", "/w", "w/a/b/c", "w//b", "$w/a"]
MATCHES = {
    "w/a": ["w/a"],
    "w/+": ["w/a", "w/b", "w/"],
    "w/#": ["w/a", "w/a/b", "w/b", "w/", "w", "w/a/b/c", "w//b"],
    "w/+/b": ["w/a/b", "w//b"],
    "+/w": ["/w"],
    "w/a/#": ["w/a", "w/a/b", "w/a/b/c"],
    "+/a/b": ["w/a/b"],
    "w/+/+/c": ["w/a/b/c"],
    "$w/#": ["$w/a"],
    "+/a": ["w/a"],
}


@NEAR_AND_FAR
def test_wildcards_match_as_the_standard_says(doors: Doors, far: int) -> None:
    """4.7: also that those at the beginning do not match topics that begin with $."""
    clients = {pattern: subscriber(doors[far], pattern) for pattern in MATCHES}
    time.sleep(SPREAD_S * far)
    with publisher(doors[0]) as p:
        for topic in TOPICS:
            p.publish(topic, b"", 1)
    got = {pattern: [x.topic for x in client.take_all()] for pattern, client in clients.items()}
    for client in clients.values():
        client.sock.close()
    assert got == MATCHES


@BOTH
def test_a_suback_has_one_answer_for_each_filter(doors: Doors, version: int) -> None:
    """[MQTT-3.8.4-6]"""
    with RawClient(doors[0], version) as client:
        client.connect(name())
        filters = [mqtt5.TopicFilter(f"f/{q}", max_qos=QUALITIES[q]) for q in (2, 0, 1)]
        client.send(mqtt5.SubscribePacket(5, filters))
        answer = client.expect(mqtt5.SubAckPacket)
        assert (answer.packet_id, [int(c) for c in answer.reason_codes]) == (5, [2, 0, 1])


@BOTH
def test_unsubscribing_ends_it_and_says_whether_there_was_any(doors: Doors, version: int) -> None:
    """[MQTT-3.10.4-1], 3.11.3"""
    topic = f"end/{version}"
    with subscriber(doors[0], topic, version=version) as s, publisher(doors[0], version) as p:
        s.send(mqtt5.UnsubscribePacket(9, [topic, "never/asked"]))
        answer = s.expect(mqtt5.UnsubAckPacket)
        if version == V5:
            assert [int(code) for code in answer.reason_codes] == [0, 0x11]
        p.publish(topic, b"", 1)
        s.expect_nothing()


def test_subscribing_again_replaces(doors: Doors) -> None:
    """[MQTT-3.8.4-3]"""
    with subscriber(doors[0], "replace", qos=2) as s, publisher(doors[0]) as p:
        s.subscribe("replace", qos=0)
        p.publish("replace", b"", 2)
        assert [int(packet.qos) for packet in s.take_all()] == [0]


@NEAR_AND_FAR
def test_subscription_identifiers_tell_which_matched(doors: Doors, far: int) -> None:
    """[MQTT-3.3.4-3], [MQTT-3.3.4-4]"""
    with subscriber(doors[far], f"id/{far}/#", subscription_id=7) as s:
        s.subscribe(f"id/{far}/+", subscription_id=300_000)
        time.sleep(SPREAD_S * far)
        with publisher(doors[0]) as p:
            p.publish(f"id/{far}/x", b"", 1)
            packets = s.take_all()
        found = [identifier for packet in packets for identifier in packet.subscription_ids]
        assert sorted(found) == [7, 300_000]


def test_no_local_keeps_ones_own_away(doors: Doors) -> None:
    """[MQTT-3.8.3-3]"""
    with subscriber(doors[0], "local", options={"no_local": True}) as s:
        s.publish("local", b"mine", 1)
        with publisher(doors[0]) as p:
            p.publish("local", b"other's", 1)
        assert [packet.payload for packet in s.take_all()] == [b"other's"]


def test_a_shared_subscription_gives_each_publication_to_one(doors: Doors) -> None:
    """[MQTT-4.8.2-4], with members at both brokers."""
    members = [subscriber(doors[n % 2], "$share/crew/job/#", qos=1) for n in range(4)]
    watcher = subscriber(doors[1], "job/#", qos=1)
    time.sleep(2 * SPREAD_S)
    with publisher(doors[0]) as p:
        for number in range(60):
            p.publish(f"job/{number}", b"%d" % number, 1)
    got = [[packet.payload for packet in member.take_all()] for member in members]
    assert len(watcher.take_all()) == 60
    for client in (*members, watcher):
        client.sock.close()
    counted = Counter(payload for payloads in got for payload in payloads)
    assert counted == {b"%d" % number: 1 for number in range(60)}
    assert sum(1 for payloads in got if payloads) > 1, "one member got everything"


# --- retained ------------------------------------------------------------------------------------


@BOTH
@NEAR_AND_FAR
def test_the_last_retained_publication_greets_who_comes_later(
    doors: Doors, version: int, far: int
) -> None:
    """[MQTT-3.3.1-5], [MQTT-3.3.1-6]"""
    topic = f"kept/{version}/{far}"
    with publisher(doors[0], version) as p:
        for payload in (b"old", b"new"):
            p.publish(topic, payload, 1, retain=True)
        time.sleep(0.2 + SPREAD_S * far)
        with subscriber(doors[far], topic, version=version) as s:
            packet = s.take()
            assert (packet.payload, packet.retain) == (b"new", True)
            p.publish(topic, b"now", 1, retain=True)
            packet = s.take()
            assert (packet.payload, packet.retain) == (b"now", False)
            p.publish(topic, b"", 1, retain=True)
            assert s.take().payload == b""
        time.sleep(0.2 + SPREAD_S * far)
        with subscriber(doors[far], topic, version=version) as s:
            s.expect_nothing()


def test_a_subscriber_can_choose_what_greets_it(doors: Doors) -> None:
    """[MQTT-3.3.1-9] to [MQTT-3.3.1-11]"""
    with publisher(doors[0]) as p:
        p.publish("choice", b"kept", 1, retain=True)
        time.sleep(0.2)
        with RawClient(doors[0]) as s:
            s.connect(name())
            s.subscribe("choice", options={"retain_handling": RetainHandling.SEND_NEVER})
            s.expect_nothing()
            if_new = {"retain_handling": RetainHandling.SEND_IF_SUBSCRIPTION_NOT_EXISTS}
            s.subscribe("choice", options=if_new)
            s.expect_nothing()
            s.subscribe("choice")
            assert s.take().payload == b"kept"
        with RawClient(doors[0]) as s:
            s.connect(name())
            s.subscribe("choice", options=if_new)
            assert s.take().payload == b"kept"
        p.publish("choice", b"", 1, retain=True)


def test_retain_as_published_keeps_the_flag(doors: Doors) -> None:
    """[MQTT-3.3.1-13]"""
    as_published = {"retain_as_published": True}
    with subscriber(doors[0], "flag", options=as_published) as s, publisher(doors[0]) as p:
        p.publish("flag", b"1", 1, retain=True)
        p.publish("flag", b"2", 1)
        assert [packet.retain for packet in s.take_all()] == [True, False]
        p.publish("flag", b"", 1, retain=True)


def test_shared_subscriptions_are_not_greeted(doors: Doors) -> None:
    """4.8.2"""
    with publisher(doors[0]) as p:
        p.publish("greet", b"kept", 1, retain=True)
        time.sleep(0.2)
        with subscriber(doors[0], "$share/g/greet") as s:
            s.expect_nothing()
        p.publish("greet", b"", 1, retain=True)


# --- limits --------------------------------------------------------------------------------------


def test_no_more_is_under_way_than_a_client_can_take(doors: Doors) -> None:
    """[MQTT-3.3.4-9]: receive maximum."""
    with RawClient(doors[0]) as s, publisher(doors[0]) as p:
        s.connect(name(), receive_max=3)
        s.subscribe("narrow", qos=1)
        for number in range(8):
            p.publish("narrow", b"%d" % number, 1)
        under_way = [s.expect(mqtt5.PublishPacket) for _ in range(3)]
        with pytest.raises(AssertionError, match="nothing came"):
            s.receive(0.5)
        s.send(mqtt5.PubAckPacket(under_way[0].packet_id))
        assert s.expect(mqtt5.PublishPacket).payload == b"3"
        with pytest.raises(AssertionError, match="nothing came"):
            s.receive(0.5)


def test_a_client_that_has_too_much_under_way_is_stopped(doors: Doors) -> None:
    """[MQTT-3.3.4-8]"""
    with RawClient(doors[0]) as p:
        bound = p.connect(name()).receive_max
        for packet_id in range(1, bound + 2):
            p.send(mqtt5.PublishPacket("flood", b"", qos=QUALITIES[2], packet_id=packet_id))
        while isinstance(packet := p.receive(), mqtt5.PubRecPacket):
            pass
        assert isinstance(packet, mqtt5.DisconnectPacket)
        assert int(packet.reason_code) == 0x93


def test_what_is_larger_than_a_client_takes_is_not_sent(doors: Doors) -> None:
    """[MQTT-3.1.2-24], [MQTT-3.1.2-25]: left out, and the rest goes on."""
    with RawClient(doors[0]) as s, publisher(doors[0]) as p:
        s.connect(name(), max_packet_size=100)
        s.subscribe("size", qos=1)
        for length in (10, 200, 20):
            p.publish("size", b"x" * length, 1)
        assert [len(packet.payload) for packet in s.take_all()] == [10, 20]


def test_what_is_larger_than_the_server_takes_ends_the_connection(doors: Doors) -> None:
    """[MQTT-3.2.2-15]"""
    with RawClient(doors[0]) as p:
        bound = p.connect(name()).max_packet_size
        assert bound is not None
        packet = mqtt5.PublishPacket("large", b"x" * bound)
        p.send_bytes(encode(packet, V5)[:100])
        p.expect_closed(0x95)


def test_a_topic_can_be_named_once_and_then_by_its_alias(doors: Doors) -> None:
    """3.3.2.3.4"""
    with subscriber(doors[0], "alias/#") as s, RawClient(doors[0]) as p:
        assert p.connect(name()).topic_alias_max >= 2
        p.publish("alias/a", b"1", 1, topic_alias=1)
        p.publish("alias/b", b"2", 1, topic_alias=2)
        p.publish("", b"3", 1, topic_alias=1)
        p.publish("alias/c", b"4", 1, topic_alias=1)
        p.publish("", b"5", 1, topic_alias=1)
        got = [(packet.topic, packet.payload) for packet in s.take_all()]
    topics = ["alias/a", "alias/b", "alias/a", "alias/c", "alias/c"]
    assert got == [(topic, b"%d" % n) for n, topic in enumerate(topics, 1)]


def test_an_alias_that_nobody_named_ends_the_connection(doors: Doors) -> None:
    """[MQTT-3.3.2-9] and 3.3.4"""
    with publisher(doors[0]) as p:
        p.send(mqtt5.PublishPacket("", b"", topic_alias=1))
        p.expect_closed(0x82)
    with RawClient(doors[0]) as p:
        above = p.connect(name()).topic_alias_max + 1
        p.send(mqtt5.PublishPacket("alias/x", b"", topic_alias=above))
        p.expect_closed(0x94)


def test_the_server_uses_no_more_aliases_than_a_client_has(doors: Doors) -> None:
    """[MQTT-3.1.2-26], [MQTT-3.1.2-27]"""
    with RawClient(doors[0]) as s, publisher(doors[0]) as p:
        s.connect(name(), topic_alias_max=2)
        s.subscribe("many/#")
        for number in range(6):
            for _ in range(2):
                p.publish(f"many/{number}", b"", 1)
        known: dict[int, str] = {}
        for packet in s.take_all():
            if packet.topic_alias is not None:
                assert packet.topic_alias <= 2
                known[packet.topic_alias] = packet.topic or known[packet.topic_alias]
            else:
                assert packet.topic


@NEAR_AND_FAR
def test_a_publication_can_grow_old(doors: Doors, far: int) -> None:
    """[MQTT-3.3.2-5], [MQTT-3.3.2-6]"""
    topic, client = f"old/{far}", name("sleeper")
    session = {"clean": False, "session_expiry_interval": 60}
    with RawClient(doors[far]) as s:
        s.connect(client, **session)  # type: ignore[arg-type]
        s.subscribe(topic, qos=1)
        s.send(mqtt5.DisconnectPacket())
    time.sleep(SPREAD_S * far)
    with publisher(doors[0]) as p:
        p.publish(topic, b"milk", 1, message_expiry_interval=1)
        p.publish(topic, b"honey", 1, message_expiry_interval=100)
        p.publish(topic, b"salt", 1)
    time.sleep(2.2)
    with RawClient(doors[far]) as s:
        s.connect(client, **session)  # type: ignore[arg-type]
        honey, salt = s.take_all()
        assert (honey.payload, salt.payload) == (b"honey", b"salt")
        assert 90 <= honey.message_expiry_interval <= 98
        assert salt.message_expiry_interval is None


# --- what MQTT does not have ---------------------------------------------------------------------


@NEAR_AND_FAR
@pytest.mark.parametrize("place", ["properties", "json"])
def test_a_subscriber_can_ask_for_content(doors: Doors, far: int, place: str) -> None:
    topic = f"quotes/{place}/{far}"
    wanted = [("filter", "volume > 1000 and symbol = 'YHOO'")]
    with subscriber(doors[far], topic, user_properties=wanted) as s, publisher(doors[0]) as p:
        time.sleep(SPREAD_S * far)
        for symbol, volume in (("YHOO", 2000), ("YHOO", 10), ("IBM", 5000), ("YHOO", 1001)):
            if place == "json":
                p.publish(topic, b'{"symbol": "%s", "volume": %d}' % (symbol.encode(), volume), 1)
            else:
                told = [("symbol", symbol), ("volume", str(volume))]
                p.publish(topic, str(volume).encode(), 1, user_properties=told)
        got = [packet.payload for packet in s.take_all()]
        assert [b"2000" in got[0], b"1001" in got[1], len(got)] == [True, True, 2]


def test_a_filter_that_is_none_is_refused_by_name(doors: Doors) -> None:
    with RawClient(doors[0]) as s:
        s.connect(name())
        answer = s.subscribe("quotes", user_properties=[("filter", "volume >")])
        assert int(answer.reason_codes[0]) >= 0x80
        assert answer.reason_str

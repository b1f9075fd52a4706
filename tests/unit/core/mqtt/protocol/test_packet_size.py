"""Sizes of packets against the bytes that the wire makes of them, and what does not fit."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pubweave.core.mqtt.protocol.packet_size import fitting, size_of
from pubweave.model import mqtt_packets as model
from pubweave.runtime.net.mqtt_packets import to_send
from pubweave.wire.mqtt.codec import V5, encode
from tests.mqtt_packets import longs, maybe, packet_ids, pairs, payloads, shorts, texts, topics
from tests.mqtt_world import MqttWorld

reasons = st.sampled_from([0, 0x97, 0x9C])
contents = st.builds(
    model.Content, st.integers(0, 1), maybe(longs), maybe(texts), maybe(topics), maybe(payloads),
    st.lists(pairs, max_size=1).map(lambda some: tuple(p for one in some for p in one)),
)  # fmt: skip


@st.composite
def publishes(draw: st.DrawFn) -> model.Publish:
    qos = draw(st.integers(0, 2))
    topic, alias = draw(topics), draw(maybe(packet_ids))
    return model.Publish(
        "" if alias else topic, draw(payloads), qos, draw(st.booleans()),
        draw(packet_ids) if qos else None, False, draw(contents),
        draw(st.lists(st.integers(1, 0xFFFFFFF), max_size=3).map(tuple)), alias,
    )  # fmt: skip


packets: st.SearchStrategy[model.ToClient] = st.one_of(
    publishes(),
    st.builds(
        model.ConnAck, st.sampled_from([0, 0x87, 0x9C]), st.booleans(), maybe(longs), maybe(texts),
        maybe(shorts), packet_ids, shorts, maybe(st.integers(1, 0xFFFFFFFF)), maybe(texts),
        maybe(texts), st.booleans(), st.sampled_from([0, 1, 2]),
        maybe(texts), maybe(payloads),
    ),
    st.builds(model.PubAck, packet_ids, st.sampled_from([0]), st.none()),
    st.builds(model.PubRec, packet_ids, st.sampled_from([0x87, 0x97]), maybe(texts)),
    st.builds(model.PubRel, packet_ids, st.sampled_from([0, 0x92]), st.none()),
    st.builds(model.PubComp, packet_ids, st.sampled_from([0, 0x92]), st.none()),
    st.builds(model.SubAck, packet_ids, st.sampled_from([(0,), (1, 2) * 70]), maybe(texts)),
    st.builds(model.UnsubAck, packet_ids, st.lists(st.just(0x11), min_size=1).map(tuple)),
    st.builds(model.Disconnect, reasons, st.none(), maybe(texts), maybe(texts)),
    st.just(model.PingResp()),
)  # fmt: skip


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(packets)
def test_a_size_is_that_of_the_bytes(packet: model.ToClient) -> None:
    assert size_of(packet) == len(encode(to_send(packet), V5))


def test_words_are_left_out_before_anything_is_not_sent() -> None:
    answer = model.SubAck(1, (0x87,), "no right to it")
    assert fitting(answer, 100) is answer
    assert fitting(answer, 10) == model.SubAck(1, (0x87,))
    assert fitting(answer, 5) is None


def test_a_client_that_takes_only_short_packets_gets_just_those() -> None:
    world = MqttWorld()
    ann = world.client("ann", max_packet_bytes=20, topic_alias_max=5)
    ann.subscribe("#")
    bob = world.client("bob")
    bob.publish("topic", b"x" * 10)  # 20 bytes, 23 with the alias
    bob.publish("topic", b"x" * 11)
    bob.publish("topic", b"x" * 7)  # 20 with the alias, which it sets
    bob.publish("topic", b"x" * 12)  # 20 with the alias alone
    got = ann.published()
    assert [len(p.payload) for p in got] == [10, 7, 12]
    assert [(p.topic, p.topic_alias) for p in got] == [("topic", None), ("topic", 1), ("", 1)]
    assert all(size_of(p) == 20 for p in got)


def test_a_payload_format_is_passed_on_as_it_was_said() -> None:
    world = MqttWorld()
    ann = world.client("ann")
    ann.subscribe("a")
    bob = world.client("bob")
    for number in (0, 1, 0xED):
        bob.publish("a", content=model.Content(payload_format=number))
    assert [p.content.payload_format for p in ann.published()] == [0, 1, 0xED]

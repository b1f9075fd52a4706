from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import mqtt5
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pubweave.wire.mqtt.codec import V3, V3_1, V5, MqttDecoder, MqttProtocolError, encode
from tests.mqtt_packets import broken_streams, client_packets, connects, server_packets
from tests.naive.mqtt_v3 import naive_client_stream

# Whole packets are slow to draw on a busy machine; the bound is for the code, not for that.
A_FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
BOTH = pytest.mark.parametrize("version", [V3, V5])
MALFORMED, PROTOCOL_ERROR, TOO_LARGE = 0x81, 0x82, 0x95


def feed_in_pieces(decoder: MqttDecoder, data: bytes, cuts: list[int]) -> list[Any]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    pieces = [data[a:b] for a, b in pairwise(places)]
    return [packet for piece in pieces for packet in decoder.feed(piece)]


def frame(first: int, body: bytes) -> bytes:
    assert len(body) < 128
    return bytes([first, len(body)]) + body


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(data)) + data


def connected(version: int) -> MqttDecoder:
    decoder = MqttDecoder(10_000)
    decoder.feed(encode(mqtt5.ConnectPacket("me", clean_start=True), version))
    return decoder


def refusal(decoder: MqttDecoder, data: bytes) -> int:
    with pytest.raises(MqttProtocolError) as caught:
        decoder.feed(data)
    return caught.value.reason_code


@BOTH
@A_FEW
@given(data=st.data())
def test_what_a_client_sends_comes_back_whatever_the_pieces(
    version: int, data: st.DataObject
) -> None:
    packets = [data.draw(connects(version))]
    packets += data.draw(st.lists(client_packets(version), max_size=4))
    wire = b"".join(encode(packet, version) for packet in packets)
    decoder = MqttDecoder(len(wire))
    cuts = data.draw(st.lists(st.integers(0, 1 << 16), max_size=8))
    assert feed_in_pieces(decoder, wire, cuts) == packets
    assert (decoder.version, decoder.packets) == (version, len(packets))
    assert not decoder.is_unfinished


@BOTH
@A_FEW
@given(data=st.data())
def test_what_a_server_sends_comes_back_whatever_the_pieces(
    version: int, data: st.DataObject
) -> None:
    packets = data.draw(st.lists(server_packets(version), max_size=4))
    wire = b"".join(encode(packet, version) for packet in packets)
    decoder = MqttDecoder(len(wire), version=version)
    cuts = data.draw(st.lists(st.integers(0, 1 << 16), max_size=8))
    assert feed_in_pieces(decoder, wire, cuts) == packets


@BOTH
@A_FEW
@given(data=st.data())
def test_broken_bytes_are_a_protocol_error_and_nothing_else(
    version: int, data: st.DataObject
) -> None:
    stream = data.draw(broken_streams(version))
    at_once, in_bytes = (outcome(stream, pieces) for pieces in ([], list(range(len(stream)))))
    assert at_once == in_bytes
    assert at_once == 0 or at_once >= 0x80


def outcome(stream: bytes, pieces: list[int]) -> int:
    """The reason for a refusal; 0: none."""
    try:
        feed_in_pieces(MqttDecoder(1000), stream, pieces)
    except MqttProtocolError as error:
        return error.reason_code
    return 0


@settings(A_FEW, max_examples=100)
@given(broken_streams(V3))
def test_a_31_stream_is_read_as_its_naive_twin_reads_it(stream: bytes) -> None:
    decoder = MqttDecoder(1 << 29)
    try:
        packets, is_bad = decoder.feed(stream), False
    except MqttProtocolError as error:
        packets, is_bad = error.packets, True
    if decoder.version == V5:
        return  # a changed level: not this twin's
    assert ([told(packet) for packet in packets], is_bad) == naive_client_stream(stream)


def told(packet: Any) -> dict[str, Any]:
    """A packet in the words of the twin."""
    name = type(packet).__name__.removesuffix("Packet").lower()
    fields: dict[str, Any] = {"name": name}
    match packet:
        case mqtt5.ConnectPacket():
            fields |= {"clean": packet.clean_start, "keep_alive": packet.keep_alive}
            fields["client_id"] = packet.client_id
            will = packet.will
            if will is not None:
                fields["will"] = (will.topic, will.payload, int(will.qos), will.retain)
            if packet.username is not None:
                fields["username"] = packet.username
            if packet.password is not None:
                fields["password"] = packet.password
        case mqtt5.PublishPacket():
            fields |= {"topic": packet.topic, "qos": int(packet.qos), "retain": packet.retain}
            fields |= {"duplicate": packet.duplicate, "payload": packet.payload}
            if packet.packet_id is not None:
                fields["packet_id"] = packet.packet_id
        case mqtt5.SubscribePacket():
            fields["packet_id"] = packet.packet_id
            fields["filters"] = [(f.pattern, int(f.max_qos)) for f in packet.topic_filters]
        case mqtt5.UnsubscribePacket():
            fields |= {"packet_id": packet.packet_id, "filters": [(p, 0) for p in packet.patterns]}
        case mqtt5.PingReqPacket() | mqtt5.DisconnectPacket():
            pass
        case _:
            fields["packet_id"] = packet.packet_id
    return fields


# --- bounds ----------------------------------------------------------------------------------


@BOTH
def test_a_packet_that_is_too_large_is_refused_by_its_header(version: int) -> None:
    decoder = connected(version)
    decoder.max_packet_bytes = 100
    assert decoder.feed(bytes([0x30, 98])) == []
    decoder = connected(version)
    decoder.max_packet_bytes = 100
    assert refusal(decoder, bytes([0x30, 99])) == TOO_LARGE


def test_a_wrong_length_is_refused_whatever_follows_it() -> None:
    """Found by atheris: the byte behind it was taken for one of its own."""
    assert refusal(connected(V5), b"\xe0\xe0\x00\xe0") == MALFORMED


def test_a_stranger_is_refused_at_its_first_byte() -> None:
    assert refusal(MqttDecoder(), b"G") == PROTOCOL_ERROR
    assert refusal(MqttDecoder(), b"\x16\x03\x01") == PROTOCOL_ERROR


@BOTH
def test_packets_before_a_bad_one_count(version: int) -> None:
    decoder = connected(version)
    with pytest.raises(MqttProtocolError) as caught:
        decoder.feed(b"\xc0\x00" * 3 + b"\xc1")
    assert caught.value.packets == [mqtt5.PingReqPacket()] * 3


def test_a_sender_of_single_bytes_costs_one_join() -> None:
    wire = encode(mqtt5.PublishPacket("a", b"x" * 3000), V5)
    decoder = connected(V5)
    for byte in wire[:-1]:
        assert decoder.feed(bytes([byte])) == []
    assert [packet.payload for packet in decoder.feed(wire[-1:])] == [b"x" * 3000]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "level", "version"),
    [("MQTT", 3, V3), ("MQTT", 6, V5), ("MQIsdp", 4, V3), ("mqtt", 4, V3)],
)
def test_other_protocols_are_refused_so_that_they_can_be_told(
    name: str, level: int, version: int
) -> None:
    decoder = MqttDecoder()
    body = text(name) + bytes([level, 2, 0, 10]) + text("me")
    assert refusal(decoder, frame(0x10, body)) == 0x84
    assert decoder.version == version
    connack = mqtt5.ConnAckPacket(reason_code=mqtt5.ConnAckReasonCode(0x84))
    assert encode(connack, decoder.version)[3] == (1 if version == V3 else 0x84)


@pytest.mark.parametrize("bridge", [0, 0x80])
def test_31_is_311_but_for_the_beginning(bridge: int) -> None:
    decoder = MqttDecoder()
    (packet,) = decoder.feed(
        frame(0x10, text("MQIsdp") + bytes([3 | bridge, 0, 0, 10]) + text("me"))
    )
    assert isinstance(packet, mqtt5.ConnectPacket)
    assert (packet.client_id, decoder.version, decoder.is_bridge) == ("me", V3_1, bool(bridge))
    assert encode(mqtt5.ConnAckPacket(session_present=True), V3_1) == b"\x20\x02\x00\x00"
    publish = mqtt5.PublishPacket("a", b"x")
    assert encode(publish, V3_1) == encode(publish, V3)
    assert decoder.feed(encode(publish, V3)) == [publish]
    assert decoder.feed(b"\x6a\x02\x00\x07") == [mqtt5.PubRelPacket(7)], "said again"


def test_31_gives_nobody_a_name() -> None:
    decoder = MqttDecoder()
    assert refusal(decoder, frame(0x10, text("MQIsdp") + bytes([3, 2, 0, 10]) + text(""))) == 0x85
    connack = mqtt5.ConnAckPacket(reason_code=mqtt5.ConnAckReasonCode(0x85))
    assert encode(connack, decoder.version) == b"\x20\x02\x00\x02"


@BOTH
def test_a_bridge_of_mosquitto_is_recognised(version: int) -> None:
    wire = bytearray(encode(mqtt5.ConnectPacket("bridge"), version))
    wire[8] |= 0x80
    decoder = MqttDecoder()
    (packet,) = decoder.feed(bytes(wire))
    assert isinstance(packet, mqtt5.ConnectPacket)
    assert (packet.client_id, decoder.version, decoder.is_bridge) == ("bridge", version, True)


# --- the standard's rules ----------------------------------------------------------------------


def connect(flags: int, payload: bytes, properties: bytes = b"") -> bytes:
    head = text("MQTT") + bytes([5, flags, 0, 60, len(properties)]) + properties
    return frame(0x10, head + payload)


def old_connect(flags: int, payload: bytes) -> bytes:
    return frame(0x10, text("MQTT") + bytes([4, flags, 0, 60]) + payload)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (connect(3, text("me")), MALFORMED),  # reserved flag
        (connect(0x0A, text("me")), MALFORMED),  # QoS of no will
        (connect(0x22, text("me")), MALFORMED),  # retain of no will
        (connect(0x1E, text("me") + b"\0" + text("w") + text("")), MALFORMED),  # will of QoS 3
        (connect(6, text("me") + b"\0" + text("w/#") + text("")), 0x90),
        (connect(2, text("m\0e")), MALFORMED),
        (connect(2, text(b"\xed\xa0\x80")), MALFORMED),  # a surrogate
        (connect(2, text(b"\xc0\x80")), MALFORMED),  # an overlong NUL
        (connect(2, text("me") + b"x"), MALFORMED),
        (connect(0x82, text("me")), MALFORMED),  # no user name where one is announced
        (connect(2, text("me"), b"\x21\0\0"), PROTOCOL_ERROR),  # receive maximum 0
        (connect(2, text("me"), b"\x27\0\0\0\0"), PROTOCOL_ERROR),  # maximum packet size 0
        (connect(2, text("me"), b"\x17\2"), PROTOCOL_ERROR),
        (connect(2, text("me"), b"\x21\0\1\x21\0\1"), PROTOCOL_ERROR),  # twice
        (connect(2, text("me"), b"\x16" + text("data")), PROTOCOL_ERROR),  # no method
        (connect(2, text("me"), b"\x23\0\1"), MALFORMED),  # a property of PUBLISH
        (connect(2, text("me"), b"\x7f"), MALFORMED),
        (connect(2, text("me"), b"\x21\0"), MALFORMED),  # cut off
        (old_connect(0x42, text("me") + text("secret")), MALFORMED),  # no user name
        (old_connect(0, text("")), 0x85),
    ],
)
def test_a_connect_that_breaks_a_rule_is_refused(data: bytes, reason: int) -> None:
    assert refusal(MqttDecoder(), data) == reason


def publish(first: int, topic: str | bytes, properties: bytes = b"", more: bytes = b"") -> bytes:
    return frame(first, text(topic) + more + bytes([len(properties)]) + properties)


def subscribe(pattern: str | bytes, options: int, properties: bytes = b"") -> bytes:
    body = b"\0\1" + bytes([len(properties)]) + properties + text(pattern) + bytes([options])
    return frame(0x82, body)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x36", MALFORMED),  # QoS 3
        (b"\x38", MALFORMED),  # repeated at QoS 0
        (b"\x10", PROTOCOL_ERROR),  # CONNECT again
        (b"\x20", PROTOCOL_ERROR),  # a server's packet
        (b"\x00", PROTOCOL_ERROR),
        (b"\xc0\x80\x00", MALFORMED),  # a length with too many bytes
        (b"\x30\xff\xff\xff\xff", MALFORMED),
        (b"\x30\x01\x00", MALFORMED),
        (b"\xc0\x01\x00", MALFORMED),
        (publish(0x32, "a", more=b"\0\0"), PROTOCOL_ERROR),  # packet identifier 0
        (publish(0x30, ""), PROTOCOL_ERROR),
        (publish(0x30, "", b"\x23\0\0"), 0x94),
        (publish(0x30, "a/#"), 0x90),
        (publish(0x30, "a/+"), 0x90),
        (publish(0x30, "a\0"), MALFORMED),
        (publish(0x30, b"\xff"), MALFORMED),
        (publish(0x30, "a", b"\x0b\1"), PROTOCOL_ERROR),  # a client's subscription identifier
        (publish(0x30, "a", b"\x08" + text("b/#")), 0x90),
        (publish(0x30, "a", b"\x26" + text("k") + text(b"\xff")), MALFORMED),
        (publish(0x30, "a", b"\x26" + text("k") + text("\0")), MALFORMED),
        (publish(0x30, "a", b"\x03" + text("t") + b"\x03" + text("t")), PROTOCOL_ERROR),
        (frame(0x30, text("a") + b"\x7f"), MALFORMED),
        (subscribe("a", 0x40), MALFORMED),
        (subscribe("a", 3), PROTOCOL_ERROR),
        (subscribe("a", 0x30), PROTOCOL_ERROR),
        (subscribe("", 0), 0x8F),
        (subscribe("a#", 0), 0x8F),
        (subscribe("#/a", 0), 0x8F),
        (subscribe("a+", 0), 0x8F),
        (subscribe("$share/g", 0), 0x8F),
        (subscribe("$share//a", 0), 0x8F),
        (subscribe("$share/+/a", 0), 0x8F),
        (subscribe("$share/g/", 0), 0x8F),
        (subscribe("$share/g/a", 4), PROTOCOL_ERROR),  # no local
        (subscribe("a", 0, b"\x0b\0"), PROTOCOL_ERROR),
        (subscribe("a", 0, b"\x0b\1\x0b\2"), PROTOCOL_ERROR),
        (b"\x82\x03\0\1\0", PROTOCOL_ERROR),  # to nothing
        (b"\xa2\x03\0\1\0", PROTOCOL_ERROR),
        (b"\x40\x02\0\0", PROTOCOL_ERROR),
        (b"\x40\x03\0\1\x77", MALFORMED),  # no such reason
        (b"\x62\x06\0\1\0\0\0\0", MALFORMED),
        (b"\x60", MALFORMED),
        (b"\xe0\x01\x77", MALFORMED),
        (b"\xf0\x01\x18", MALFORMED),
    ],
)
def test_a_packet_that_breaks_a_rule_of_50_is_refused(data: bytes, reason: int) -> None:
    assert refusal(connected(V5), data) == reason


def test_rules_of_311_where_the_versions_differ() -> None:
    assert refusal(connected(V3), b"\xf0\x00") == PROTOCOL_ERROR  # AUTH
    assert refusal(connected(V3), frame(0x82, b"\0\1" + text("a") + b"\x04")) == MALFORMED
    assert refusal(connected(V3), b"\x82\x02\0\1") == MALFORMED
    assert refusal(connected(V3), b"\xe0\x01\0") == MALFORMED


def test_what_311_cannot_say_is_left_out() -> None:
    refused = mqtt5.SubAckReasonCode(151)
    assert encode(mqtt5.SubAckPacket(1, [refused]), V3) == b"\x90\x03\0\1\x80"
    leaving = mqtt5.DisconnectPacket(reason_code=mqtt5.DisconnectReasonCode(0x8E))
    assert encode(leaving, V3) == b""
    assert encode(mqtt5.AuthPacket(), V3) == b""
    busy = mqtt5.ConnAckPacket(reason_code=mqtt5.ConnAckReasonCode(0x89))
    assert encode(busy, V3) == b"\x20\x02\0\x03"
    with pytest.raises(ValueError, match="topic"):
        encode(mqtt5.PublishPacket("", b"", topic_alias=1), V3)
    with pytest.raises(ValueError, match="65535"):
        encode(mqtt5.PublishPacket("a" * 70_000, b""), V3)


def test_an_auth_without_a_reason_is_success() -> None:
    assert connected(V5).feed(b"\xf0\x00") == [mqtt5.AuthPacket()]

"""MQTT 3.1.1 (and 3.1) packets to bytes and back, as the classes of MQTT 5.0 without properties.

What the older version says otherwise is said in the newer one's words: "clean session 0" is a
session that never expires, a refused subscription is 0x80, and so on. A packet that 3.1.1 does not
have (AUTH; DISCONNECT with a reason, for only clients send one, and it says nothing) becomes no
bytes at all.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import mqtt5
from mqtt5 import QoS

from pubweave.wire.mqtt.fields import (
    CLIENT_ID_NOT_VALID,
    FieldReader,
    MqttProtocolError,
    PacketType,
    is_plain_topic,
    malformed,
    validate_filter,
    validate_topic,
)

NEVER_EXPIRES = 0xFFFFFFFF
QUALITIES = (QoS.AT_MOST_ONCE, QoS.AT_LEAST_ONCE, QoS.EXACTLY_ONCE)
_LEVEL = 4
_REFUSED_SUBSCRIPTION = 0x80
_SERVER_UNAVAILABLE = 3
# Return codes of 3.2.2.3 (3.1.1). What a server never takes (a will that is too large, retained or
# of a better quality than it has) is not allowed. For all else it says no for, it is not available.
_RETURN_CODES = {0x00: 0, 0x84: 1, 0x85: 2, 0x86: 4, 0x87: 5, 0x95: 5, 0x9A: 5, 0x9B: 5}
_REASONS = (0x00, 0x84, 0x85, 0x88, 0x86, 0x87)
_two_bytes = struct.Struct(">H").pack


def decode_v3(first: int, body: bytes) -> mqtt5.Packet:
    """One packet by its first byte, whose flags are known to be right, and what follows its
    length. O(bytes). Raises MqttProtocolError."""
    kind = first >> 4
    if kind == PacketType.PUBLISH:
        return _decode_publish(first, body)
    reader = FieldReader(body)
    packet = _DECODERS[kind](reader)
    if not reader.is_done:
        raise malformed("bytes behind the end of a packet")
    return packet


def _decode_publish(first: int, body: bytes) -> mqtt5.PublishPacket:
    if len(body) < 2:
        raise malformed("a PUBLISH without a topic")
    at = 2 + (body[0] << 8 | body[1])
    topic_bytes = body[2:at]
    if is_plain_topic(topic_bytes):
        topic = topic_bytes.decode()
    else:
        topic = validate_topic(FieldReader(body).text())
    quality = first >> 1 & 3
    packet_id = None
    if quality:
        packet_id = FieldReader(body, at).packet_id()
        at += 2
    elif at > len(body):
        raise malformed("a topic that is longer than its packet")
    return mqtt5.PublishPacket(
        topic,
        body[at:],
        qos=QUALITIES[quality],
        retain=bool(first & 1),
        packet_id=packet_id,
        duplicate=bool(first & 8),
    )


def _decode_connect(reader: FieldReader) -> mqtt5.ConnectPacket:
    """Name and level of the protocol are checked already."""
    reader.text()
    needs_id = reader.byte() & 0x7F < _LEVEL  # 3.1: nobody is given one
    flags = validate_connect_flags(reader.byte())
    if flags & 0xC0 == 0x40:
        raise malformed("a password without a user name")  # [MQTT-3.1.2-22] of 3.1.1
    keep_alive = reader.two_bytes()
    client_id = reader.text()
    is_clean = bool(flags & 2)
    will = None
    if flags & 4:
        will = mqtt5.Will(
            validate_topic(reader.text()),
            payload=reader.binary(),
            qos=QUALITIES[flags >> 3 & 3],
            retain=bool(flags & 0x20),
        )
    username = reader.text() if flags & 0x80 else None
    password = reader.binary() if flags & 0x40 else None
    if not client_id and (needs_id or not is_clean):
        raise MqttProtocolError(CLIENT_ID_NOT_VALID, "this session needs a client identifier")
    return mqtt5.ConnectPacket(
        client_id,
        username=username,
        password=password,
        clean_start=is_clean,
        will=will,
        keep_alive=keep_alive,
        session_expiry_interval=0 if is_clean else NEVER_EXPIRES,
    )


def validate_connect_flags(flags: int) -> int:
    """3.1.2.3, alike in both versions. Raises MqttProtocolError."""
    if flags & 1:
        raise malformed("CONNECT's reserved flag is set")
    if not flags & 4 and flags & 0x38:
        raise malformed("a will's flags without a will")
    if flags & 0x18 == 0x18:
        raise malformed("a will of QoS 3")
    return flags


def _decode_connack(reader: FieldReader) -> mqtt5.ConnAckPacket:
    flags, code = reader.byte(), reader.byte()
    if flags > 1 or code >= len(_REASONS):
        raise malformed("a CONNACK that 3.1.1 does not have")
    reason = mqtt5.ConnAckReasonCode(_REASONS[code])
    return mqtt5.ConnAckPacket(session_present=bool(flags), reason_code=reason)


def _decode_subscribe(reader: FieldReader) -> mqtt5.SubscribePacket:
    packet_id = reader.packet_id()
    filters: list[mqtt5.TopicFilter] = []
    while not reader.is_done or not filters:
        pattern = validate_filter(reader.text())
        quality = reader.byte()
        if quality > 2:
            raise malformed("a subscription of no QoS")
        # The defaults of mqtt5 are not those of 3.1.1.
        filters.append(
            mqtt5.TopicFilter(pattern, max_qos=QUALITIES[quality], retain_as_published=False)
        )
    return mqtt5.SubscribePacket(packet_id, filters)


def _decode_suback(reader: FieldReader) -> mqtt5.SubAckPacket:
    packet_id = reader.packet_id()
    codes = reader.take(reader.end - reader.at)
    if not set(codes) <= {0, 1, 2, _REFUSED_SUBSCRIPTION}:
        raise malformed("a SUBACK with an unknown return code")
    return mqtt5.SubAckPacket(packet_id, [mqtt5.SubAckReasonCode(code) for code in codes])


def _decode_unsubscribe(reader: FieldReader) -> mqtt5.UnsubscribePacket:
    packet_id = reader.packet_id()
    patterns: list[str] = []
    while not reader.is_done or not patterns:
        patterns.append(validate_filter(reader.text()))
    return mqtt5.UnsubscribePacket(packet_id, patterns)


_DECODERS: dict[int, Callable[[FieldReader], mqtt5.Packet]] = {
    PacketType.CONNECT: _decode_connect,
    PacketType.CONNACK: _decode_connack,
    PacketType.PUBACK: lambda reader: mqtt5.PubAckPacket(reader.packet_id()),
    PacketType.PUBREC: lambda reader: mqtt5.PubRecPacket(reader.packet_id()),
    PacketType.PUBREL: lambda reader: mqtt5.PubRelPacket(reader.packet_id()),
    PacketType.PUBCOMP: lambda reader: mqtt5.PubCompPacket(reader.packet_id()),
    PacketType.SUBSCRIBE: _decode_subscribe,
    PacketType.SUBACK: _decode_suback,
    PacketType.UNSUBSCRIBE: _decode_unsubscribe,
    PacketType.UNSUBACK: lambda reader: mqtt5.UnsubAckPacket(reader.packet_id(), []),
    PacketType.PINGREQ: lambda reader: mqtt5.PingReqPacket(),
    PacketType.PINGRESP: lambda reader: mqtt5.PingRespPacket(),
    PacketType.DISCONNECT: lambda reader: mqtt5.DisconnectPacket(),
}


def encode_v3(packet: mqtt5.Packet) -> bytes:
    """One packet; properties are left out. b"" if 3.1.1 has no such packet. O(bytes).
    ValueError: a field that no packet has room for.

    >>> encode_v3(mqtt5.PublishPacket("a", b"x", qos=QoS.AT_LEAST_ONCE, packet_id=7)).hex(" ")
    '32 06 00 01 61 00 07 78'
    """
    encode = _ENCODERS.get(type(packet))
    return encode(packet) if encode else b""


def _frame(first: int, body: bytes) -> bytes:
    length = len(body)
    if length < 0x80:
        return bytes((first, length)) + body
    head = bytearray((first,))
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    if len(head) > 5:
        raise ValueError(f"a packet of {len(body)} bytes; MQTT has room for 268435455")
    return bytes(head) + body


def _text(text: str) -> bytes:
    return _binary(text.encode())


def _binary(data: bytes) -> bytes:
    if len(data) > 0xFFFF:
        raise ValueError(f"a field of {len(data)} bytes; MQTT has room for 65535")
    return _two_bytes(len(data)) + data


def _encode_publish(packet: mqtt5.PublishPacket) -> bytes:
    if not packet.topic:
        raise ValueError("3.1.1 has no topic aliases: a topic is needed")
    quality = int(packet.qos)
    first = PacketType.PUBLISH << 4 | packet.duplicate << 3 | quality << 1 | packet.retain
    packet_id = b""
    if quality:
        if not packet.packet_id:
            raise ValueError("QoS 1 and 2 need a packet identifier")
        packet_id = _two_bytes(packet.packet_id)
    return _frame(first, _text(packet.topic) + packet_id + packet.payload)


def _encode_connect(packet: mqtt5.ConnectPacket) -> bytes:
    flags = packet.clean_start << 1
    fields = [_text(packet.client_id)]
    if packet.will is not None:
        will = packet.will
        flags |= 4 | int(will.qos) << 3 | will.retain << 5
        fields += [_text(will.topic), _binary(will.payload or b"")]
    if packet.username is not None:
        flags |= 0x80
        fields.append(_text(packet.username))
    if packet.password is not None:
        flags |= 0x40
        fields.append(_binary(packet.password))
    head = _text("MQTT") + bytes((_LEVEL, flags)) + _two_bytes(packet.keep_alive)
    return _frame(PacketType.CONNECT << 4, head + b"".join(fields))


def _encode_connack(packet: mqtt5.ConnAckPacket) -> bytes:
    code = _RETURN_CODES.get(int(packet.reason_code), _SERVER_UNAVAILABLE)
    return bytes((PacketType.CONNACK << 4, 2, packet.session_present, code))


def _encode_subscribe(packet: mqtt5.SubscribePacket) -> bytes:
    filters = [_text(f.pattern) + bytes((int(f.max_qos),)) for f in packet.topic_filters]
    return _frame(PacketType.SUBSCRIBE << 4 | 2, _two_bytes(packet.packet_id) + b"".join(filters))


def _encode_suback(packet: mqtt5.SubAckPacket) -> bytes:
    codes = bytes(min(int(code), _REFUSED_SUBSCRIPTION) for code in packet.reason_codes)
    return _frame(PacketType.SUBACK << 4, _two_bytes(packet.packet_id) + codes)


def _encode_unsubscribe(packet: mqtt5.UnsubscribePacket) -> bytes:
    patterns = b"".join([_text(pattern) for pattern in packet.patterns])
    return _frame(PacketType.UNSUBSCRIBE << 4 | 2, _two_bytes(packet.packet_id) + patterns)


def _encode_disconnect(packet: mqtt5.DisconnectPacket) -> bytes:
    return b"" if int(packet.reason_code) else bytes((PacketType.DISCONNECT << 4, 0))


def _encode_id_only(first: int) -> Callable[[Any], bytes]:
    return lambda packet: bytes((first, 2)) + _two_bytes(packet.packet_id)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    mqtt5.ConnectPacket: _encode_connect,
    mqtt5.ConnAckPacket: _encode_connack,
    mqtt5.PublishPacket: _encode_publish,
    mqtt5.PubAckPacket: _encode_id_only(PacketType.PUBACK << 4),
    mqtt5.PubRecPacket: _encode_id_only(PacketType.PUBREC << 4),
    mqtt5.PubRelPacket: _encode_id_only(PacketType.PUBREL << 4 | 2),
    mqtt5.PubCompPacket: _encode_id_only(PacketType.PUBCOMP << 4),
    mqtt5.SubscribePacket: _encode_subscribe,
    mqtt5.SubAckPacket: _encode_suback,
    mqtt5.UnsubscribePacket: _encode_unsubscribe,
    mqtt5.UnsubAckPacket: _encode_id_only(PacketType.UNSUBACK << 4),
    mqtt5.PingReqPacket: lambda packet: b"\xc0\x00",
    mqtt5.PingRespPacket: lambda packet: b"\xd0\x00",
    mqtt5.DisconnectPacket: _encode_disconnect,
}

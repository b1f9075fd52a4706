"""What MQTT 5.0 demands of a packet and the package `mqtt5` does not look at.

`mqtt5` turns bytes into packets quickly, checks lengths, flags of the fixed header and which
property belongs where. It panics (a message of Rust's on stderr, and no ordinary exception) over
text that is not UTF-8, and lets NUL, packet identifier 0, wildcards in a topic and reserved bits
pass. So all text is looked at here before; `mqtt5` gets bytes that can at worst be misplaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import mqtt5

from pubweave.wire.mqtt.fields import (
    PROTOCOL_ERROR,
    TOPIC_ALIAS_INVALID,
    FieldReader,
    MqttProtocolError,
    PacketType,
    is_plain_topic,
    malformed,
    validate_filter,
    validate_topic,
)
from pubweave.wire.mqtt.v3 import validate_connect_flags

_RESPONSE_TOPIC, _SUBSCRIPTION_ID, _TOPIC_ALIAS = 0x08, 0x0B, 0x23
_AUTHENTICATION_METHOD, _AUTHENTICATION_DATA, _USER_PROPERTY = 0x15, 0x16, 0x26
_RECEIVE_MAXIMUM, _MAXIMUM_PACKET_SIZE, _MAXIMUM_QOS = 0x21, 0x27, 0x24
_REQUEST_PROBLEM, _REQUEST_RESPONSE = 0x17, 0x19
_NEVER_ZERO = {_SUBSCRIPTION_ID, _RECEIVE_MAXIMUM, _MAXIMUM_PACKET_SIZE}
# A payload's format is 0 or 1, too, but no rule says that another is an error: it is passed on.
_ZERO_OR_ONE = {_REQUEST_PROBLEM, _REQUEST_RESPONSE, _MAXIMUM_QOS}
_ZERO_OR_ONE |= {0x25, 0x28, 0x29, 0x2A}  # what a server has: retain, wildcards, ids, sharing


def _read_pair(reader: FieldReader) -> tuple[str, str]:
    return reader.text(), reader.text()


Value = int | str | bytes | tuple[str, str]
# Table 2-4: how the value of each property is written.
_VALUE_READERS: dict[int, Callable[[FieldReader], Value]] = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), FieldReader.byte),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), FieldReader.two_bytes),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), FieldReader.four_bytes),
    **dict.fromkeys((0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F), FieldReader.text),
    **dict.fromkeys((0x09, 0x16), FieldReader.binary),
    _SUBSCRIPTION_ID: FieldReader.variable_integer,
    _USER_PROPERTY: _read_pair,
}


def decode_v5(first: int, body: bytes, packet: memoryview, *, is_from_client: bool) -> mqtt5.Packet:
    """One packet: its first byte, whose flags are known to be right, what follows its length, and
    all its bytes. O(bytes). Raises MqttProtocolError."""
    kind = first >> 4
    if kind == PacketType.PUBLISH:
        _check_publish(first, body, is_from_client=is_from_client)
    elif kind == PacketType.AUTH and not body:
        return mqtt5.AuthPacket()  # 3.15.2.1: success may be left out; mqtt5 does not know
    else:
        _CHECKS[kind](FieldReader(body))
    try:
        return mqtt5.read(packet)[0]
    except (ValueError, IndexError, OverflowError) as error:
        raise malformed(f"a packet that does not decode: {error}") from error


def _check_publish(first: int, body: bytes, *, is_from_client: bool) -> None:
    if len(body) < 2:
        raise malformed("a PUBLISH without a topic")
    at = 2 + (body[0] << 8 | body[1])
    is_named = at > 2
    if is_named and not is_plain_topic(body[2:at]):
        validate_topic(FieldReader(body).text())
    reader = FieldReader(body, at)
    if first & 6:
        reader.packet_id()
    if is_named and body[reader.at : reader.at + 1] == b"\0":
        return  # no properties: most publications
    # A server's PUBLISH names every subscription that it is for.
    properties = _read_properties(reader, {_USER_PROPERTY, _SUBSCRIPTION_ID})
    if not is_named and _TOPIC_ALIAS not in properties:
        raise MqttProtocolError(PROTOCOL_ERROR, "neither a topic nor an alias of one")
    if is_from_client and _SUBSCRIPTION_ID in properties:
        # [MQTT-3.3.4-6]
        raise MqttProtocolError(PROTOCOL_ERROR, "a client's PUBLISH with a subscription identifier")


def _read_properties(
    reader: FieldReader, repeatable: Collection[int] = (_USER_PROPERTY,)
) -> dict[int, Value]:
    """2.2.2: every property once at most, but those named, with a value that it can have."""
    properties = FieldReader(reader.take(reader.variable_integer()))
    found: dict[int, Value] = {}
    while not properties.is_done:
        identifier = properties.variable_integer()
        read = _VALUE_READERS.get(identifier)
        if read is None:
            raise malformed(f"unknown property {identifier:#04x}")
        value = read(properties)
        if identifier in found and identifier not in repeatable:
            raise MqttProtocolError(PROTOCOL_ERROR, f"property {identifier:#04x} twice")
        _check_value(identifier, value)
        found[identifier] = value
    return found


def _check_value(identifier: int, value: Value) -> None:
    if identifier == _TOPIC_ALIAS and value == 0:
        raise MqttProtocolError(TOPIC_ALIAS_INVALID, "topic alias 0")
    if identifier == _RESPONSE_TOPIC:
        validate_topic(str(value))
    wrong = (identifier in _NEVER_ZERO and value == 0) or (
        identifier in _ZERO_OR_ONE and value not in (0, 1)
    )
    if wrong:
        raise MqttProtocolError(PROTOCOL_ERROR, f"property {identifier:#04x} cannot be {value!r}")


def _check_connect(reader: FieldReader) -> None:
    reader.text()
    reader.byte()
    flags = validate_connect_flags(reader.byte())
    reader.two_bytes()
    _check_authentication(_read_properties(reader))
    reader.text()
    if flags & 4:
        _read_properties(reader)
        validate_topic(reader.text())
        reader.binary()
    if flags & 0x80:
        reader.text()


def _check_authentication(properties: dict[int, Value]) -> None:
    if _AUTHENTICATION_DATA in properties and _AUTHENTICATION_METHOD not in properties:
        raise MqttProtocolError(PROTOCOL_ERROR, "authentication data without a method")


def _check_connack(reader: FieldReader) -> None:
    reader.two_bytes()
    _read_properties(reader)


def _check_acknowledgement(reader: FieldReader) -> None:
    """3.4.2: reason and properties may be left out."""
    reader.packet_id()
    if reader.end > 3:
        reader.byte()
        _read_properties(reader)


def _check_subscribe(reader: FieldReader) -> None:
    reader.packet_id()
    _read_properties(reader)
    if reader.is_done:
        raise MqttProtocolError(PROTOCOL_ERROR, "a SUBSCRIBE to nothing")
    while not reader.is_done:
        pattern = validate_filter(reader.text())
        options = reader.byte()
        if options & 0xC0:
            raise malformed("a subscription's reserved options are set")
        if options & 3 == 3 or options & 0x30 == 0x30:
            raise MqttProtocolError(PROTOCOL_ERROR, "subscription options that there are not")
        if options & 4 and pattern.startswith("$share/"):
            # [MQTT-3.8.3-4]
            raise MqttProtocolError(PROTOCOL_ERROR, "no local on a shared subscription")


def _check_unsubscribe(reader: FieldReader) -> None:
    reader.packet_id()
    _read_properties(reader)
    if reader.is_done:
        raise MqttProtocolError(PROTOCOL_ERROR, "an UNSUBSCRIBE from nothing")
    while not reader.is_done:
        validate_filter(reader.text())


def _check_subscription_answer(reader: FieldReader) -> None:
    reader.packet_id()
    _read_properties(reader)


def _check_leaving(reader: FieldReader) -> None:
    """DISCONNECT and AUTH: a reason, and properties if there are more bytes."""
    if reader.end > 1:
        reader.byte()
        _check_authentication(_read_properties(reader))


def _check_nothing(reader: FieldReader) -> None:
    if not reader.is_done:
        raise malformed("a ping with a body")


_CHECKS: dict[int, Callable[[FieldReader], None]] = {
    PacketType.CONNECT: _check_connect,
    PacketType.CONNACK: _check_connack,
    **dict.fromkeys(
        (PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP),
        _check_acknowledgement,
    ),
    PacketType.SUBSCRIBE: _check_subscribe,
    PacketType.UNSUBSCRIBE: _check_unsubscribe,
    **dict.fromkeys((PacketType.SUBACK, PacketType.UNSUBACK), _check_subscription_answer),
    **dict.fromkeys((PacketType.PINGREQ, PacketType.PINGRESP), _check_nothing),
    **dict.fromkeys((PacketType.DISCONNECT, PacketType.AUTH), _check_leaving),
}

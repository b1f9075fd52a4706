"""How long packets to a version 5 client are on the wire, to the byte.

Nothing longer than the client's maximum may be sent [MQTT-3.1.2-24]. Reasons in words are left out
first; what is too long without them is not sent.
"""

from __future__ import annotations

import msgspec

from pubweave.model import mqtt_packets as model

RECEIVE_MAX_DEFAULT = 65_535


def fitting(packet: model.ToClient, limit: int | None) -> model.ToClient | None:
    """A packet as the client can take it; None: it cannot.

    >>> fitting(model.PubAck(1, 0x87, "no right to it"), 20)
    PubAck(packet_id=1, reason=135, reason_text=None)
    >>> fitting(model.PingResp(), 1) is None
    True
    """
    if limit is None or size_of(packet) <= limit:
        return packet
    if getattr(packet, "reason_text", None) is None:
        return None
    packet = msgspec.structs.replace(packet, reason_text=None)
    return packet if size_of(packet) <= limit else None


def size_of(packet: model.ToClient) -> int:
    """The bytes of a packet. O(user properties), but for letters beyond ASCII."""
    match packet:
        case model.Publish():
            rest = _publish_bytes(packet)
        case model.ConnAck():
            rest = 2 + _with_length(_connack_properties(packet))
        case model.PubAck() | model.PubRec() | model.PubRel() | model.PubComp():
            rest = 2 + _reason_bytes(packet.reason, _text_bytes(packet.reason_text))
        case model.SubAck():
            rest = 2 + _with_length(_text_bytes(packet.reason_text)) + len(packet.reasons)
        case model.UnsubAck():
            rest = 3 + len(packet.reasons)
        case model.Disconnect():
            properties = _text_bytes(packet.reason_text) + _text_bytes(packet.server_reference)
            rest = _reason_bytes(packet.reason, properties)
        case model.PingResp():
            rest = 0
    return 1 + _with_length(rest)


def _publish_bytes(packet: model.Publish) -> int:
    properties = _content_bytes(packet.content) + (3 if packet.topic_alias is not None else 0)
    properties += sum(1 + _length_bytes(number) for number in packet.subscription_ids)
    rest = 2 + _utf8(packet.topic) + (2 if packet.qos else 0) + len(packet.payload)
    return rest + _with_length(properties)


def _content_bytes(content: model.Content) -> int:
    size = 2 * bool(content.payload_format) + 5 * (content.expiry_s is not None)
    size += _text_bytes(content.content_type) + _text_bytes(content.response_topic)
    size += 0 if content.correlation is None else 3 + len(content.correlation)
    return size + sum(5 + _utf8(name) + _utf8(value) for name, value in content.user_properties)


def _connack_properties(answer: model.ConnAck) -> int:
    size = 5 * (answer.session_expiry_s is not None) + 5 * (answer.max_packet_bytes is not None)
    size += 3 * (answer.server_keep_alive_s is not None)
    size += 3 * (answer.receive_max != RECEIVE_MAX_DEFAULT) + 3 * bool(answer.topic_alias_max)
    size += 2 * (not answer.takes_retained) + 2 * (answer.qos_max < 2)
    data = answer.authentication_data
    size += 0 if data is None else 3 + len(data)
    for text in (answer.assigned_client_id, answer.reason_text, answer.server_reference):
        size += _text_bytes(text)
    size += _text_bytes(answer.authentication_method)
    return size


def _reason_bytes(reason: int, properties: int) -> int:
    """A reason and its properties, each left out where it says nothing."""
    if properties:
        return 1 + _with_length(properties)
    return 1 if reason else 0


def _text_bytes(text: str | None) -> int:
    return 0 if text is None else 3 + _utf8(text)


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _with_length(size: int) -> int:
    return _length_bytes(size) + size


def _length_bytes(length: int) -> int:
    return 1 + (length > 127) + (length > 16_383) + (length > 2_097_151)

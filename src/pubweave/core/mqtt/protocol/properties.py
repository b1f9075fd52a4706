"""MQTT properties as attributes of publications, and back.

All properties travel as attributes under ``mqtt.``, so the overlay needs to know nothing of MQTT.
User properties and the top-level fields of a JSON payload become attributes of their own, too, for
filters. Native publications have none of these: MQTT clients see their attributes as user
properties, and receive them with the subscribed QoS.
"""

from __future__ import annotations

import re
from math import isfinite

import msgspec

from pubweave.core.mqtt.protocol.topics import TOPIC_LETTERS_MAX, is_topic
from pubweave.model.mqtt_packets import NO_CONTENT, Content, Publish, UserProperties, Will
from pubweave.model.publications import (
    TOPIC_ATTRIBUTE,
    WHOLE_NUMBER_MAX,
    WHOLE_NUMBER_MIN,
    Publication,
    Value,
)

PREFIX = "mqtt."
QOS = "mqtt.qos"
RETAIN = "mqtt.retain"
EXPIRY_S = "mqtt.expiry_s"
_FORMAT = "mqtt.payload_format"
_TYPE = "mqtt.content_type"
_RESPONSE = "mqtt.response_topic"
_CORRELATION = "mqtt.correlation"
_USER = "mqtt.user"
EXPIRY_MAX_S = 0xFFFFFFFF
STRING_BYTES_MAX = 0xFFFF
JSON_BYTES_MAX = 64 << 10
"""Larger payloads are not parsed."""
FIELDS_MAX = 64
_NUMBER = re.compile(r"-?(?:\d{1,20}|\d{1,20}\.\d{1,20}(?:[eE][+-]?\d{1,3})?)")
_decode_pairs = msgspec.json.Decoder(UserProperties).decode
_decode_json = msgspec.json.Decoder().decode


def attributes_of(packet: Publish | Will, *, reads_json: bool) -> dict[str, Value]:
    """The attributes of the publication that a packet becomes. O(bytes) for JSON."""
    attributes: dict[str, Value] = {QOS: packet.qos}
    if packet.retain:
        attributes[RETAIN] = True
    if reads_json and packet.payload[:1] == b"{" and len(packet.payload) <= JSON_BYTES_MAX:
        _add_fields(attributes, packet.payload)
    if packet.content != NO_CONTENT:
        _add_content(attributes, packet.content)
    return attributes


def _add_fields(attributes: dict[str, Value], payload: bytes) -> None:
    try:
        document = _decode_json(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return
    for name, value in list(document.items())[:FIELDS_MAX]:
        if _is_free(name) and (known := _value(value)) is not None:
            attributes[name] = known


def _add_content(attributes: dict[str, Value], content: Content) -> None:
    for name, text in content.user_properties[:FIELDS_MAX]:
        if _is_free(name):
            attributes[name] = _parsed(text)
    if content.payload_format:
        attributes[_FORMAT] = content.payload_format
    if content.expiry_s is not None:
        attributes[EXPIRY_S] = content.expiry_s
    if content.content_type is not None:
        attributes[_TYPE] = content.content_type
    if content.response_topic is not None:
        attributes[_RESPONSE] = content.response_topic
    if content.correlation is not None:
        attributes[_CORRELATION] = content.correlation.hex()
    if content.user_properties:
        attributes[_USER] = msgspec.json.encode(content.user_properties).decode()


def attribute_bytes(attributes: dict[str, Value]) -> int:
    """The bytes that attributes take on the wire, at most."""
    return sum(
        len(name.encode()) + (len(value.encode()) if isinstance(value, str) else 0) + 16
        for name, value in attributes.items()
    )


def _is_free(name: object) -> bool:
    return bool(name) and name != TOPIC_ATTRIBUTE and not str(name).startswith(PREFIX)


def _value(value: object) -> Value | None:
    """A JSON value as an attribute value; None if it cannot be one."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if WHOLE_NUMBER_MIN <= value <= WHOLE_NUMBER_MAX else float(value)
    return value if isinstance(value, float) and isfinite(value) else None


def _parsed(text: str) -> Value:
    """A number if the text is one, else the text."""
    if not _NUMBER.fullmatch(text):
        return text
    value = float(text) if "." in text else int(text)
    known = _value(value)
    return text if known is None else known


def qos_of(publication: Publication) -> int:
    """The highest QoS with which a publication may be delivered."""
    qos = publication.attributes.get(QOS, 2)
    return qos if qos in (0, 1, 2) else 0  # type: ignore[return-value]


def is_retained(publication: Publication) -> bool:
    return publication.attributes.get(RETAIN) is True


def is_expired(publication: Publication, now: float) -> bool:
    expiry_s = publication.attributes.get(EXPIRY_S)
    return isinstance(expiry_s, int) and now - publication.published_at >= expiry_s


def content_of(publication: Publication, now: float) -> Content:
    """The properties of a packet for a subscriber; expiry is the time left."""
    attributes = publication.attributes
    if QOS not in attributes:
        if not attributes:
            return NO_CONTENT
        shown = ((name, _text(value)) for name, value in attributes.items())
        return Content(user_properties=tuple(pair for pair in shown if _fits_mqtt(*pair)))
    if len(attributes) == 1:
        return NO_CONTENT
    expiry_s = attributes.get(EXPIRY_S)
    left_s = None
    if isinstance(expiry_s, int):
        left_s = max(1, expiry_s - int(max(0.0, now - publication.published_at)))
        left_s = min(left_s, EXPIRY_MAX_S)
    return Content(
        payload_format=_octet(attributes.get(_FORMAT)),
        expiry_s=left_s,
        content_type=_string(attributes.get(_TYPE)),
        response_topic=_topic(attributes.get(_RESPONSE)),
        correlation=_bytes(attributes.get(_CORRELATION)),
        user_properties=_pairs(attributes.get(_USER)),
    )


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _fits_mqtt(name: str, text: str) -> bool:
    """Whether an attribute of a native publication fits into a user property."""
    return max(len(name), len(text)) <= TOPIC_LETTERS_MAX and "\0" not in name + text


def _octet(value: Value | None) -> int:
    return int(value) if isinstance(value, int) and 0 <= value <= 255 else 0


# Native clients may publish attributes under ``mqtt.``, too, with any values: those that are not
# valid in MQTT are left out.


def _string(value: Value | None) -> str | None:
    return value if isinstance(value, str) and _is_string(value) else None


def _topic(value: Value | None) -> str | None:
    return value if isinstance(value, str) and _is_string(value) and is_topic(value) else None


def _is_string(text: str) -> bool:
    return "\0" not in text and len(text.encode()) <= STRING_BYTES_MAX


def _bytes(value: Value | None) -> bytes | None:
    try:
        found = bytes.fromhex(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and len(found) <= STRING_BYTES_MAX else None


def _pairs(value: Value | None) -> UserProperties:
    try:
        found = _decode_pairs(value) if isinstance(value, str) else ()
    except msgspec.DecodeError:
        return ()
    return tuple((name, text) for name, text in found if _is_string(name) and _is_string(text))

"""The fields that MQTT packets are made of, read with bounds; the error that all of it raises.

Section numbers are those of the OASIS standards MQTT 5.0 and, where it says so, 3.1.1.
"""

from __future__ import annotations

import re
from typing import Any

MALFORMED_PACKET = 0x81
PROTOCOL_ERROR = 0x82
UNSUPPORTED_PROTOCOL_VERSION = 0x84
CLIENT_ID_NOT_VALID = 0x85
TOPIC_ALIAS_INVALID = 0x94
PACKET_TOO_LARGE = 0x95


class PacketType:
    """Table 2-1: the upper half of a packet's first byte."""

    CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
    SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)


class MqttProtocolError(ValueError):
    """Bytes that no MQTT peer may send.

    ``reason_code`` is one of MQTT 5.0's, for a CONNACK or a DISCONNECT. ``packets`` are those
    that the same bytes completed before the bad one: they count."""

    def __init__(self, reason_code: int, text: str) -> None:
        super().__init__(text)
        self.reason_code = reason_code
        self.packets: list[Any] = []


def malformed(text: str) -> MqttProtocolError:
    """Bytes that cannot be read as the packet they claim to be."""
    return MqttProtocolError(MALFORMED_PACKET, text)


class FieldReader:
    """Reads field after field of one packet's body; never beyond its end.

    >>> reader = FieldReader(bytes.fromhex("0001 61 c102"))
    >>> reader.text(), reader.variable_integer(), reader.is_done
    ('a', 321, True)
    """

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.end = len(data)

    @property
    def is_done(self) -> bool:
        return self.at >= self.end

    def take(self, count: int) -> bytes:
        start, self.at = self.at, self.at + count
        if self.at > self.end:
            raise malformed("a field that is longer than its packet")
        return self.data[start : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def two_bytes(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def four_bytes(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def variable_integer(self) -> int:
        """1.5.5: at most four bytes, and no more than the number needs."""
        value = 0
        for shift in (0, 7, 14, 21):
            digit = self.byte()
            value |= (digit & 0x7F) << shift
            if digit < 0x80:
                if digit == 0 and shift:
                    break
                return value
        raise malformed("a variable byte integer that is none")

    def binary(self) -> bytes:
        return self.take(self.two_bytes())

    def text(self) -> str:
        """1.5.4: UTF-8 without surrogates (Python's decoder refuses them) and without NUL."""
        try:
            text = self.binary().decode()
        except UnicodeDecodeError as error:
            raise malformed("a string that is not UTF-8") from error
        if "\0" in text:
            raise malformed("a string with a NUL character")
        return text

    def packet_id(self) -> int:
        """2.2.1: never 0."""
        packet_id = self.two_bytes()
        if not packet_id:
            raise MqttProtocolError(PROTOCOL_ERROR, "packet identifier 0")
        return packet_id


TOPIC_FILTER_INVALID = 0x8F
TOPIC_NAME_INVALID = 0x90

# Almost every topic: text without NUL, wildcards or anything that UTF-8 must be asked about.
is_plain_topic = re.compile(rb"[^\x00#+\x80-\xff]+").fullmatch


def validate_topic(topic: str) -> str:
    """4.7: a topic that can be published to. MqttProtocolError otherwise."""
    if not topic or "#" in topic or "+" in topic:
        raise MqttProtocolError(TOPIC_NAME_INVALID, f"no topic to publish to: {topic!r}")
    return topic


def validate_filter(pattern: str) -> str:
    """4.7.1, 4.8.2: a topic filter, or one of a shared subscription. MqttProtocolError otherwise.

    >>> validate_filter("$share/group/a/+/#")
    '$share/group/a/+/#'
    """
    levels = pattern.split("/")
    if levels[0] == "$share":
        group, levels = levels[1:2], levels[2:]
        if not levels or group == [""] or "+" in group[0] or "#" in group[0]:
            raise MqttProtocolError(TOPIC_FILTER_INVALID, f"no shared subscription: {pattern!r}")
    is_empty = levels == [""]
    if is_empty or any(
        ("+" in level and level != "+")
        or ("#" in level and (level != "#" or place != len(levels) - 1))
        for place, level in enumerate(levels)
    ):
        raise MqttProtocolError(TOPIC_FILTER_INVALID, f"no topic filter: {pattern!r}")
    return pattern

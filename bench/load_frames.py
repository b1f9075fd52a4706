"""The bytes that load generators send and expect: pubweave frames and MQTT 3.1.1 packets.

Everything that is sent under the clock is encoded here before the clock starts. A payload of 100
bytes begins with the message's number and the instant it was sent, so that a subscriber can check
order and completeness, and tell the latency, whatever the broker in between.

No sockets and no clock here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pubweave.generate.workloads import ipitt
from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.messages.session import PROTOCOL_VERSION, Ack, Advertise, Hello, Role, Subscribe
from pubweave.model.publications import TOPIC_ATTRIBUTE, Publication, Value
from pubweave.wire.codec import FrameDecoder, encode

PAYLOAD_BYTES = 100
TOPIC = "bench"
PROBE = (1 << 64) - 1
"""The number of messages that only find out whether the way to the subscribers stands."""
STAMP = struct.Struct(">QQ")
NUMBER = struct.Struct(">Q")
WINDOW_BYTES = 4 << 20
"""What clients grant and ask for; brokers without a journal grant a quarter of it."""
FIRST_SEQUENCE = 1 << 48
"""Sequences from here on are all encoded in the same number of bytes, as those of the library."""
_AFTER_PAYLOAD_BYTES = 9  # pubweave: published_at, a float


@dataclass(frozen=True)
class Run:
    """Messages ready to be sent: their bytes one after the other, and where each ends."""

    data: bytes
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)


def payload(number: int, stamp_ns: int = 0) -> bytes:
    return STAMP.pack(number, stamp_ns).ljust(PAYLOAD_BYTES, b".")


class MqttDialect:
    """MQTT 3.1.1 at QoS 0: no acknowledgements, the subscriber side tells what has arrived."""

    name = "mqtt"
    stamp_from_end = PAYLOAD_BYTES
    acknowledges = False

    def connect(self, client: str) -> bytes:
        body = b"\x00\x04MQTT\x04\x02\x00\x00" + _mqtt_string(client)
        return _mqtt_packet(0x10, body)

    def advertise(self, client: str, content: bool) -> list[bytes]:
        return []

    def subscribe(self, client: str, filters: list[Filter]) -> list[bytes]:
        return [_mqtt_packet(0x82, b"\x00\x01" + _mqtt_string(TOPIC) + b"\x00")]

    def publication(self, client: str, number: int, sequence: int, stamp_ns: int = 0) -> bytes:
        return _mqtt_packet(0x30, _mqtt_string(TOPIC) + payload(number, stamp_ns))

    def frame_end(self, data: bytearray, start: int, end: int) -> int | None:
        """Where the packet at ``start`` ends; None if not all of it is there."""
        length = shift = 0
        offset = start + 1
        while offset < end:
            byte = data[offset]
            offset += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return offset + length if offset + length <= end else None
        return None

    def is_publication(self, data: bytearray, start: int) -> bool:
        return data[start] & 0xF0 == 0x30

    def confirmed(self, data: bytearray, start: int, end: int) -> int:
        """1 for the packet that confirms our last request (SUBACK), else 0."""
        if data[start] == 0x20 and data[start + 3] != 0:
            raise ConnectionError(f"the broker refused the connection: code {data[start + 3]}")
        return 1 if data[start] == 0x90 else 0

    def ack(self, received: int) -> bytes:
        return b""


class PubweaveDialect:
    """The frames of a pubweave client session, with its acknowledgements."""

    name = "pubweave"
    stamp_from_end = PAYLOAD_BYTES + _AFTER_PAYLOAD_BYTES
    acknowledges = True

    def connect(self, client: str) -> bytes:
        return encode(Hello(PROTOCOL_VERSION, Role.CLIENT, client, 1, 0, 0, WINDOW_BYTES))

    def advertise(self, client: str, content: bool) -> list[bytes]:
        filters = ipitt.advertisement_filters() if content else (topic_filter(),)
        return [encode(Advertise(f"{client}:a{i}", each)) for i, each in enumerate(filters)]

    def subscribe(self, client: str, filters: list[Filter]) -> list[bytes]:
        wanted = filters or [topic_filter()]
        return [encode(Subscribe(f"{client}:s{i}", each)) for i, each in enumerate(wanted)]

    def publication(
        self,
        client: str,
        number: int,
        sequence: int,
        stamp_ns: int = 0,
        topic: str = TOPIC,
        attributes: dict[str, Value] | None = None,
    ) -> bytes:
        content = payload(number, stamp_ns)
        return encode(
            Publication(client, FIRST_SEQUENCE + sequence, topic, attributes or {}, content, 0.0)
        )

    def frame_end(self, data: bytearray, start: int, end: int) -> int | None:
        if end - start < 5:
            return None
        stop = start + 4 + int.from_bytes(data[start : start + 4], "little")
        return stop if stop <= end else None

    def is_publication(self, data: bytearray, start: int) -> bool:
        return data[start + 4] == 0

    def confirmed(self, data: bytearray, start: int, end: int) -> int:
        """How many sequenced messages of ours an Ack confirms in all; 0 for other messages."""
        total = 0
        for message in FrameDecoder().feed(bytes(data[start:end])):
            if isinstance(message, Ack):
                total = message.received
        return total

    def ack(self, received: int) -> bytes:
        return encode(Ack(received))


Dialect = MqttDialect | PubweaveDialect


def dialect_of(name: str) -> Dialect:
    return MqttDialect() if name == "mqtt" else PubweaveDialect()


def topic_filter() -> Filter:
    return Filter((Predicate(TOPIC_ATTRIBUTE, Operator.EQ, TOPIC),))


def exact_run(dialect: Dialect, client: str, count: int, first_sequence: int) -> Run:
    """``count`` messages on the one topic, numbered from 0."""
    return _run(dialect.publication(client, n, first_sequence + n) for n in range(count))


def content_run(client: str, count: int, seed: int, first_sequence: int) -> Run:
    """``count`` publications drawn uniformly from IPITT's content space, numbered from 0."""
    drawn = ipitt.publications(np.random.default_rng(seed))
    encode_one = PubweaveDialect().publication
    return _run(encode_one(client, n, first_sequence + n, 0, *next(drawn)) for n in range(count))


def content_filters(count: int, seed: int, subscribers: int) -> list[list[Filter]]:
    """IPITT's subscriptions, dealt out in turn to so many subscribers."""
    filters = ipitt.subscription_filters(count, np.random.default_rng(seed))
    return [filters[first::subscribers] for first in range(subscribers)]


def expected_deliveries(
    filters: list[list[Filter]], seed: int, warm: int, total: int
) -> tuple[list[int], list[int]]:
    """How many of the first ``warm`` and of all publications each subscriber must get.

    Computed from the bounds of the filters with numpy, not with the index under test.
    """
    drawn = ipitt.publications(np.random.default_rng(seed))
    contents = [next(drawn) for _ in range(total)]
    classes = np.array([topic for topic, _ in contents])
    values = np.array([[attributes[a] for a in ipitt.ATTRIBUTES] for _, attributes in contents])
    warmed, wanted = [], []
    for subscriber in filters:
        hit = np.zeros(total, np.bool_)
        for each in subscriber:
            topic, *bounds = (predicate.value for predicate in each.predicates)
            low, high = np.array(bounds[0::2]), np.array(bounds[1::2])
            hit |= (classes == topic) & ((values >= low) & (values <= high)).all(axis=1)
        warmed.append(int(hit[:warm].sum()))
        wanted.append(int(hit.sum()))
    return warmed, wanted


def _run(frames: Iterator[bytes]) -> Run:
    kept = list(frames)
    return Run(b"".join(kept), np.cumsum([len(frame) for frame in kept], dtype=np.int64))


def _mqtt_string(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(2, "big") + encoded


def _mqtt_packet(kind: int, body: bytes) -> bytes:
    length = len(body)
    header = bytearray((kind,))
    while True:
        length, low = divmod(length, 128)
        header.append(low | (0x80 if length else 0))
        if not length:
            return bytes(header) + body

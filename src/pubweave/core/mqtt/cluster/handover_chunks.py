"""A session as handover messages, in chunks that fit into a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from pubweave.core.mqtt.session.cluster_messages import (
    Handover,
    HandoverTail,
    Mark,
    SessionHeader,
    bare,
    with_size,
)
from pubweave.core.mqtt.session.inflight import Delivery, InflightDelivery
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.model.ids import BrokerId

CHUNK_BYTES = 128 << 10
T = TypeVar("T")
CHUNK_MARKS = 500


def handovers(session: MqttSession, gateway: BrokerId, since: float) -> Iterator[Handover]:
    """All that belongs to a session now, for ``gateway``."""
    name = session.name
    yield Handover(gateway, name, since, _head(session), is_last=False)
    for some in packed_chunks(list(session.inflight.waiting)):
        yield Handover(gateway, name, since, None, (), some, is_last=False)
    for one in list(session.inflight.numbered.values()):
        packed = msgspec.structs.replace(one, delivery=_packed(one.delivery))
        yield Handover(gateway, name, since, None, (packed,), is_last=False)
    for marks in _marks(session):
        yield Handover(gateway, name, since, None, is_last=False, given=marks)
    yield Handover(gateway, name, since, None)


def _head(session: MqttSession) -> SessionHeader:
    return SessionHeader(
        session.client_id,
        session.user,
        session.expiry_s,
        tuple(msgspec.structs.replace(s, native=()) for s in session.subscriptions.all()),
        session.incoming(),
        session.inflight.last_id,
    )


def unpacked(chunks: Iterable[Handover]) -> tuple[list[InflightDelivery], list[Delivery]]:
    """The in-flight and the waiting deliveries of a session, as its queue had them."""
    chunks = list(chunks)
    numbered = [
        msgspec.structs.replace(one, delivery=sized_delivery(one.delivery))
        for chunk in chunks
        for one in chunk.numbered
    ]
    return numbered, [sized_delivery(delivery) for chunk in chunks for delivery in chunk.waiting]


def tails(session: MqttSession, gateway: BrokerId, sent: int) -> Iterator[HandoverTail]:
    """What waits in a session beyond the first ``sent``, and its marks; the last one ends it."""
    waiting = list(session.inflight.waiting)
    for some in packed_chunks(waiting[sent:]):
        yield HandoverTail(gateway, session.name, some, is_last=False)
    for marks in _marks(session):
        yield HandoverTail(gateway, session.name, (), is_last=False, given=marks)
    yield HandoverTail(gateway, session.name, ())


def _marks(session: MqttSession) -> Iterator[tuple[Mark, ...]]:
    """What was given to a session, where that is known (`session/deduplicator`)."""
    marks = session.deduplicator.marks()
    for start in range(0, len(marks), CHUNK_MARKS):
        yield tuple(marks[start : start + CHUNK_MARKS])


def chunks(items: Iterable[T], bytes_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Items in order, in lists that fit into a frame."""
    chunk: list[T] = []
    size_bytes = 0
    for item in items:
        chunk.append(item)
        size_bytes += bytes_of(item)
        if size_bytes > CHUNK_BYTES:
            yield chunk
            chunk, size_bytes = [], 0
    if chunk:
        yield chunk


def packed_chunks(deliveries: list[Delivery]) -> Iterator[tuple[Delivery, ...]]:
    for chunk in chunks(deliveries, lambda delivery: delivery.publication.size_bytes):
        yield tuple(map(_packed, chunk))


def _packed(delivery: Delivery) -> Delivery:
    return msgspec.structs.replace(delivery, publication=bare(delivery.publication))


def sized_delivery(delivery: Delivery) -> Delivery:
    """A delivery with its size, as it was before it was packed."""
    return msgspec.structs.replace(delivery, publication=with_size(delivery.publication))

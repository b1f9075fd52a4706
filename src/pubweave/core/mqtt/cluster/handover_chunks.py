"""A session as words that travel from one door to another, in pieces that fit into a frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from pubweave.core.mqtt.session.cluster_messages import (
    Handover,
    HandoverTail,
    Mark,
    SessionHeader,
    bare,
    weighed,
)
from pubweave.core.mqtt.session.inflight import Delivery, InflightDelivery
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.model.ids import BrokerId

TOLD_AT_ONCE_BYTES = 128 << 10
MARKS_AT_ONCE = 500


def handovers(session: MqttSession, door: BrokerId, since: float) -> Iterator[Handover]:
    """All that belongs to a session now, for ``door``."""
    name = session.name
    numbered, waiting = session.outbox.contents()
    yield Handover(door, name, since, _head(session), is_last=False)
    for some in pieces(waiting):
        yield Handover(door, name, since, None, (), some, is_last=False)
    for one in numbered:
        packed = msgspec.structs.replace(one, parcel=_packed(one.parcel))
        yield Handover(door, name, since, None, (packed,), is_last=False)
    for marks in _marks(session):
        yield Handover(door, name, since, None, is_last=False, given=marks)
    yield Handover(door, name, since, None)


def _head(session: MqttSession) -> SessionHeader:
    return SessionHeader(
        session.client_id,
        session.user,
        session.expiry_s,
        tuple(msgspec.structs.replace(s, native=()) for s in session.subscriptions.all()),
        session.incoming(),
        session.outbox.last_id,
    )


def unpacked(parts: Iterable[Handover]) -> tuple[list[InflightDelivery], list[Delivery]]:
    """What was under way in a session and what waited, as its outbox had it."""
    parts = list(parts)
    numbered = [
        msgspec.structs.replace(one, parcel=weighed_parcel(one.parcel))
        for part in parts
        for one in part.numbered
    ]
    return numbered, [weighed_parcel(parcel) for part in parts for parcel in part.waiting]


def tails(session: MqttSession, door: BrokerId, already: int) -> Iterator[HandoverTail]:
    """What waits in a session beyond so much, and what it has got; the last one ends it."""
    _, waiting = session.outbox.contents()
    for some in pieces(waiting[already:]):
        yield HandoverTail(door, session.name, some, is_last=False)
    for marks in _marks(session):
        yield HandoverTail(door, session.name, (), is_last=False, given=marks)
    yield HandoverTail(door, session.name, ())


def _marks(session: MqttSession) -> Iterator[tuple[Mark, ...]]:
    """What a session has got, where that is known (`session/deduplicator`)."""
    marks = session.ways.marks()
    for start in range(0, len(marks), MARKS_AT_ONCE):
        yield tuple(marks[start : start + MARKS_AT_ONCE])


def pieces(parcels: list[Delivery]) -> Iterator[tuple[Delivery, ...]]:
    gathered: list[Delivery] = []
    size_bytes = 0
    for parcel in parcels:
        gathered.append(_packed(parcel))
        size_bytes += parcel.publication.size_bytes
        if size_bytes > TOLD_AT_ONCE_BYTES:
            yield tuple(gathered)
            gathered, size_bytes = [], 0
    if gathered:
        yield tuple(gathered)


def _packed(parcel: Delivery) -> Delivery:
    return msgspec.structs.replace(parcel, publication=bare(parcel.publication))


def weighed_parcel(parcel: Delivery) -> Delivery:
    """As it was before it went through a word."""
    return msgspec.structs.replace(parcel, publication=weighed(parcel.publication))

"""Records and batches: what is written comes back, and a torn tail is told from damage."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.events import (
    AccessChanged,
    ActionDecided,
    ActionRequested,
    BrokerProbed,
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    DialRefused,
    Event,
    ExchangeEnded,
    LeaveRequested,
    LinkAdded,
    LinkExpected,
    LinkRemoved,
    LocalPauseEnded,
    LoginReceived,
    MessagesReceived,
    MigrationRequested,
    MqttOpened,
    PacketsReceived,
    PasswordVerified,
    RemapAnnounced,
    WritingPaused,
)
from pubweave.core.journal_events import event_of, record_of
from pubweave.model.access_files import parse_access
from pubweave.model.journal_records import EventRecord
from pubweave.model.messages import Ack, Ping, Unsubscribe
from pubweave.model.mqtt_packets import Connect, Publish
from pubweave.model.plans import Shift
from pubweave.model.publications import make_publication
from pubweave.model.remaps import RemapStep
from pubweave.model.rendezvous_messages import Occupant
from pubweave.wire.codec import FrameDecoder, encode_all
from pubweave.wire.journal_codec import (
    JournalDamagedError,
    decode_records,
    encode_batch,
    encode_record,
    find_batches,
)
from tests.naive.journal import naive_batches

RULES = parse_access("[users.al]\npublish = ['*']\nsubscribe = [\"class = 'x' and n > 2\"]")[0]
MESSAGES = FrameDecoder().feed(
    encode_all(
        [
            make_publication("p", 3, "t", {"x": 1}, b"abc", 0.5),
            Ack(7),
            Unsubscribe("k:1"),
            Ping(2.0),
        ]
    )
)
EVENTS: list[Event] = [
    MessagesReceived(5, MESSAGES, 1.25),
    ConnectionOpened(6, "b2"),
    ConnectionClosed(6),
    LoginReceived(6, "ada"),
    AccessChanged(RULES),
    AccessChanged(None),
    PasswordVerified(6, None),
    MqttOpened(7, ""),
    PacketsReceived(7, [Connect("ann"), Publish("t", b"\x00", 2, packet_id=3)]),
    WritingPaused(7, True),
    LinkAdded("b3"),
    LinkRemoved("b3"),
    DialRefused("b3"),
    LinkExpected("d1/0/0", "b3"),
    ActionRequested("d1/0/0", Shift("b1", "b2", "b3")),
    ActionDecided("d1/0/0", True),
    ExchangeEnded("r1", False, "too late"),
    BrokerProbed("b9", None),
    MigrationRequested("k1", "b2"),
    LeaveRequested(),
    RemapAnnounced(2, RemapStep.OVERLAY, (Occupant(5, "b1", "here:1"), Occupant(9, "b2"))),
    DeadlineReached(),
    LocalPauseEnded(45.5),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_from_its_record(event: Event) -> None:
    (record,) = decode_records(encode_record(record_of(event, 1.5)))
    assert record.now == 1.5
    assert event_of(record) == event


def test_every_kind_of_event_is_looked_at() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(Event))


def test_a_record_of_an_event_with_other_fields_is_told_from_ours() -> None:
    with pytest.raises(LookupError, match="a record of LinkAdded that is none"):
        event_of(EventRecord(1.0, "LinkAdded", ()))


def test_records_that_are_none_of_ours_are_damage() -> None:
    with pytest.raises(JournalDamagedError, match="does not decode"):
        list(decode_records(b"\x10\x00\x00\x00\x01no record at all"))


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, list[bytes], int]:
    """A journal as it was written, its batches, and how much of it had been synced at the end."""
    batches = draw(st.lists(st.binary(max_size=40), max_size=6))
    data, synced = b"", 0
    for batch in batches:
        data += encode_batch(batch, synced)
        if draw(st.booleans()):
            synced = len(data)
    return data, batches, synced


@settings(max_examples=50)
@given(files(), st.integers(0, 400))
def test_a_journal_cut_anywhere_gives_its_whole_batches(
    file: tuple[bytes, list[bytes], int], cut: int
) -> None:
    data, _, _ = file
    data = data[:cut]
    assert [data[a:b] for a, b in find_batches(data)] == naive_batches(data)


@settings(max_examples=50)
@given(files(), st.integers(0, 400), st.integers(1, 255))
def test_a_flipped_byte_is_never_read_as_if_it_were_right(
    file: tuple[bytes, list[bytes], int], at: int, mask: int
) -> None:
    data, batches, _ = file
    if at >= len(data):
        return
    changed = data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]
    try:
        found = [changed[a:b] for a, b in find_batches(changed)]
    except JournalDamagedError:
        return
    # Only the field that tells what was synced before is not part of the records.
    assert found == batches[: len(found)]


def test_damage_in_front_of_what_was_synced_is_no_torn_tail() -> None:
    first = encode_batch(b"acknowledged", 0)
    data = bytearray(first + encode_batch(b"later", len(first)))
    data[len(first) - 1] ^= 1
    with pytest.raises(JournalDamagedError, match="byte 0"):
        find_batches(bytes(data))


def test_an_unsynced_batch_may_be_bad_in_front_of_a_whole_one() -> None:
    """The machine wrote the pages in another order before it went down."""
    first = encode_batch(b"not acknowledged", 0)
    data = bytearray(first + encode_batch(b"neither", 0))
    data[len(first) - 1] ^= 1
    assert find_batches(bytes(data)) == []

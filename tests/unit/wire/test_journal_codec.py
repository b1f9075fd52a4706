"""Records and batches: what is written comes back, and a torn tail is told from damage."""

from __future__ import annotations

import random
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pubweave.core.journal.recovery import event_of, record_of
from pubweave.core.vocabulary.events import (
    AccessChanged,
    ActionDecided,
    ActionRequested,
    AddressKnown,
    BrokerProbed,
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    DialRefused,
    DriverCounted,
    EntryRefused,
    Event,
    ExchangeEnded,
    HandlingFailed,
    HandlingMeasured,
    LeaveEnded,
    LeaveRequested,
    LinkAdded,
    LinkExpected,
    LinkRemoved,
    LocalPauseEnded,
    LoginReceived,
    MessagesReceived,
    MigrationRequested,
    MqttOpened,
    OrganizingPaused,
    PacketsReceived,
    PasswordVerified,
    ProcessRestarted,
    RemapAnnounced,
    WritingPaused,
)
from pubweave.model.deployment import RemapStep
from pubweave.model.files.access import parse_access
from pubweave.model.messages.rendezvous import Occupant
from pubweave.model.messages.session import Ack, Ping, Unsubscribe
from pubweave.model.mqtt_packets import Connect, Publish
from pubweave.model.plans import Shift
from pubweave.model.publications import make_publication
from pubweave.model.records.journal_records import EventRecord
from pubweave.wire.codec import FrameDecoder, encode_all
from pubweave.wire.journal_codec import (
    JournalDamagedError,
    decode_records,
    encode_batch,
    encode_record,
    find_batches,
)
from tests.naive.journal import END, HEAD_BYTES, naive_batches

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
    HandlingMeasured(0.25),
    HandlingFailed(),
    ProcessRestarted(1 << 40),
    AddressKnown("here:1"),
    OrganizingPaused(True),
    EntryRefused("tls"),
    DriverCounted("records_dropped", 3),
    LeaveEnded(),
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


batches = st.lists(st.binary(max_size=40), max_size=6)


@settings(max_examples=50)
@given(batches, st.integers(0, 400))
def test_a_journal_cut_anywhere_gives_its_whole_batches(written: list[bytes], cut: int) -> None:
    data = b"".join(map(encode_batch, written))[:cut]
    assert [data[a:b] for a, b in find_batches(data)] == naive_batches(data)


def test_the_last_batch_cut_at_any_byte_is_a_torn_tail() -> None:
    before = encode_batch(b"acknowledged")
    last = encode_batch(random.Random(7).randbytes(200) + END + bytes(100))
    for cut in range(len(last)):
        found = find_batches(before + last[:cut])
        assert found == [(HEAD_BYTES, HEAD_BYTES + len(b"acknowledged"))], cut


@pytest.mark.parametrize("records", [b"", b"x", bytes(300), random.Random(3).randbytes(300)])
@pytest.mark.parametrize("behind", [b"", b"pw", encode_batch(b"next")[:-1], encode_batch(b"next")])
def test_no_flipped_bit_of_a_batch_is_taken_for_a_torn_tail(records: bytes, behind: bytes) -> None:
    """All bits of a batch that was synced, also if another was being written behind it."""
    before = encode_batch(b"acknowledged")
    batch = encode_batch(records)
    for bit in range(8 * len(batch)):
        data = bytearray(before + batch + behind)
        data[len(before) + bit // 8] ^= 1 << bit % 8
        with pytest.raises(JournalDamagedError, match=f"at byte {len(before)},"):
            find_batches(bytes(data))


@settings(max_examples=200)
@given(st.binary(max_size=80), st.integers(0, 120), st.integers(0, 40), st.randoms())
def test_an_end_that_is_not_what_was_to_be_written_is_a_torn_tail(
    records: bytes, kept: int, wrong: int, chance: random.Random
) -> None:
    """The machine went down: of the last batch there is a beginning, then zeros or anything."""
    before, last = encode_batch(b"acknowledged"), encode_batch(records)
    kept = min(kept, len(last))
    end = bytes(wrong) if chance.random() < 0.5 else chance.randbytes(wrong)
    torn = (last[:kept] + end)[: len(last)]
    wrong_bits = sum((a ^ b).bit_count() for a, b in zip(torn, last, strict=False))
    assume(wrong_bits != 1 and END not in end)  # that is what damage looks like
    data = before + torn
    found = [data[a:b] for a, b in find_batches(data)]
    assert found in ([b"acknowledged"], [b"acknowledged", records])


def test_more_than_a_bit_that_is_wrong_in_a_batch_that_was_finished_is_damage() -> None:
    """A sector of zeros in the middle of it, or over its head."""
    batch = encode_batch(random.Random(5).randbytes(2000))
    for at in (0, 500, 1000):
        data = batch[:at] + bytes(500) + batch[at + 500 :]
        with pytest.raises(JournalDamagedError, match="at byte 0,"):
            find_batches(data)


def test_records_that_check_out_are_taken_although_their_end_mark_does_not() -> None:
    batch = encode_batch(b"acknowledged")
    data = batch[: -len(END)] + bytes(len(END))
    assert [data[a:b] for a, b in find_batches(data)] == [b"acknowledged"]

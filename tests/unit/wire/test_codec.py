from __future__ import annotations

import contextlib
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.messages.migration import (
    Migration,
    MigrationComplete,
    MigrationEntries,
    MigrationSeek,
    MigrationSignal,
    MigrationStep,
    MigrationUpdate,
    MovedSession,
    Redirect,
    RedirectReply,
)
from pubweave.model.messages.relocation import (
    PlacementRound,
    ProbeReply,
    ProbeRequest,
    RelocationAnswer,
    RelocationRequest,
    TraceInformationAnswer,
    TraceInformationRequest,
    TraceReport,
    TraceResult,
)
from pubweave.model.messages.rendezvous import (
    ChordFound,
    ChordLeaving,
    ChordLookup,
    ChordNeighbors,
    LinkUnused,
    Occupant,
    PlacementDigest,
    PlacementTold,
    RingMember,
    TreeBroken,
    TreeJoin,
    TreeOffer,
    TreePath,
    TreePlaceEntry,
    TreeTables,
)
from pubweave.model.messages.session import (
    Ack,
    ActionKind,
    ActionReserve,
    ActionSignal,
    Advertise,
    Answer,
    Confirmed,
    ConfirmReply,
    ConfirmRequest,
    Disconnect,
    ExchangeReply,
    ExchangeRequest,
    Goodbye,
    Hello,
    InterestBroadcast,
    Login,
    Message,
    Missed,
    Ping,
    Pong,
    Query,
    Refused,
    Role,
    ShiftTables,
    Signal,
    Subscribe,
    Synced,
    SyncStage,
    Unadvertise,
    Unsubscribe,
    Verdict,
)
from pubweave.model.messages.topic_connected import (
    BrokerRecord,
    TopicMissed,
    TopicOpened,
    TopicUnwanted,
    TopicWanted,
)
from pubweave.model.publications import Publication, make_publication
from pubweave.wire.codec import KINDS, FrameDecoder, FrameError, encode, encode_all

FILTER = Filter(
    (
        Predicate("class", Operator.EQ, "STOCK"),
        Predicate("volume", Operator.GT, 10.5),
        Predicate("open", Operator.PRESENT),
        Predicate("late", Operator.NE, True),
    )
)
MIGRATION = Migration("b1/64.1", "p", ("b1", "b2", "b3"))
ONE_OF_EACH: list[Message] = [
    make_publication("p", 1, "STOCK", {"a": 1, "b": 2.5, "c": "ü", "d": True}, b"\x00\xff", 3.5),
    Advertise("p:1", FILTER),
    Unadvertise("p:1"),
    Subscribe("s:1", FILTER),
    Unsubscribe("s:1"),
    Synced(SyncStage.SUBSCRIPTIONS),
    Refused("publication 3", "why"),
    ActionReserve("plan/0/1", ActionKind.SHIFT, ("b1", "b2", "b3"), 2),
    ActionSignal("plan/0/1", Signal.REFUSED, 2, "why"),
    ShiftTables("plan/0/1", (("s:1", FILTER),), (), (("s:2", FILTER),), ("p:1",), True),
    InterestBroadcast(7, 2, ("b1", "b2"), (1.0, 0.5), (2.5,), (8.0,), 1024, 5, b"\x00\xff"),
    ExchangeRequest("b1.1.1", "ci", ("b1", "b2", "b3"), (1.0,) * 3, (2.0,) * 3, (-1.0,) * 3),
    ExchangeRequest(
        "b1.1.2",
        "sides",
        ("b1", "b2", "b3"),
        (1.0,) * 3,
        (2.0,) * 3,
        last_slice=7,
        slices=2,
        bits=1024,
        sides=(b"\x00\xff", b""),
    ),
    ExchangeReply("b1.1.1", Verdict.DECLINED, "why", 1),
    Hello(1, Role.CLIENT, "p", 5, 6, 7, 8, 9),
    Login("p", "secret"),
    Ack(10),
    Ping(1.25),
    Pong(1.25),
    Goodbye("done"),
    Disconnect("done"),
    Query(1, "status"),
    Answer(1, b"{}"),
    TraceResult("p", 5, 3),
    RelocationRequest("p", 2.5, ("b2", "b1")),
    RelocationAnswer("p", ("b3", "b2", "b1")),
    TraceInformationRequest("p", 5),
    TraceInformationAnswer(
        "p", 5, (TraceReport("b2", (("b1", 1.5),), b"\x05", 2, 0.1, 0.2, 0.3, "host:1"),), False
    ),
    PlacementRound(
        "p", 5, 2.0, "load", 75.0, 0.05, True, (TraceReport("b2", (), b"", 0, 0, 0, 0, "", 4),)
    ),
    ProbeRequest(1, (("b2", "host:1"),)),
    ProbeReply(1, (("b2", 12.5),)),
    MigrationSignal(MIGRATION, MigrationStep.RESERVED, "127.0.0.1:7001"),
    MigrationEntries(MIGRATION, (("p:1", FILTER),), (("p:2", FILTER),)),
    MigrationUpdate(MIGRATION),
    MigrationComplete(MIGRATION, MovedSession(1, 2, 3, 4, 5), 6),
    MigrationComplete(MIGRATION, None, 0, is_gone=True),
    MigrationSeek("b1/64.1", "b3", ("b1", "b2")),
    Redirect("b1/64.1", "b3", "127.0.0.1:7003", True, 12.5, 2),
    RedirectReply("b1/64.1", "cannot reach it"),
    BrokerRecord("b1", "h:1", 7, 2, ("x",), ("b2",), (("b3", 5, 2),), ("b4",), True),
    TopicWanted("x", 3, (("p", 9),)),
    TopicOpened("x", 3),
    ChordNeighbors(1, Occupant(7, "b1", "h:1"), (Occupant(9, "b2"),), True, True, True),
    ChordLookup(1, 99, ("b1", "b2")),
    ChordFound(1, 99, Occupant(7, "b1"), ("b1",)),
    ChordLeaving(2, (Occupant(7, "b1"),), True),
    TreeJoin(1, 7, ("x", "y"), True, 3),
    TreePath(1, 7, ("x",), False),
    TreeOffer(1, ("x",), True),
    TreeBroken(1, ("x",)),
    LinkUnused(),
    RingMember("b1", 3, ("x", "y"), 1.5),
    TopicMissed("x", "pete", ((3, 9, 4, 12.5, 2.0, True),), True),
    Missed("x", "pete", 4, True),
    Confirmed(("s:1", "s:2")),
    ConfirmRequest("s:1", FILTER, 3),
    ConfirmReply(3),
    PlacementDigest(
        (("b1", PlacementTold(("t1", "t2"), 3, "10.0.0.1:7001", True, (2, 1))),), is_last=True
    ),
    TreeTables(2, 7, (TreePlaceEntry("x", None, (1, 2)), TreePlaceEntry("y", 5, ())), True),
    TopicUnwanted("x"),
]


def plain(message: Message) -> object:
    """A message without what the codec fills in on arrival."""
    if isinstance(message, Publication):
        return (*message.key, message.topic, message.attributes, message.payload)
    return message


def test_every_kind_of_message_survives_the_wire() -> None:
    assert {type(message) for message in ONE_OF_EACH} == set(KINDS.values())
    decoded = FrameDecoder().feed(encode_all(ONE_OF_EACH))
    assert [plain(m) for m in decoded] == [plain(m) for m in ONE_OF_EACH]


@given(st.lists(st.integers(1, 40), min_size=1))
def test_the_pieces_in_which_bytes_come_do_not_matter(sizes: list[int]) -> None:
    data = encode_all(ONE_OF_EACH)
    decoder = FrameDecoder()
    decoded: list[Message] = []
    offset = 0
    while offset < len(data):
        size = sizes[offset % len(sizes)]
        decoded += decoder.feed(data[offset : offset + size])
        offset += size
    assert [plain(m) for m in decoded] == [plain(m) for m in ONE_OF_EACH]


def test_a_forwarded_publication_is_the_same_bytes_again() -> None:
    frame = encode(ONE_OF_EACH[0])
    (received,) = FrameDecoder().feed(frame)
    assert isinstance(received, Publication)
    assert encode(received) is received.encoded
    assert received.encoded == frame
    assert received.size_bytes == len(frame)


def test_a_traced_publication_keeps_its_trace_on_every_hop() -> None:
    traced = msgspec.structs.replace(make_publication("p", 7, "t", {}, b"x", 1.0), trace=5)
    (received,) = FrameDecoder().feed(encode(traced))
    assert isinstance(received, Publication)
    assert received.trace == 5
    assert encode(received) == encode(traced)


@pytest.mark.parametrize("trace", [0, 5])
def test_the_previous_sequence_is_kept_on_every_hop(trace: int) -> None:
    sent = make_publication("p", 7, "t", {}, b"x", 1.0, 3)
    sent = msgspec.structs.replace(sent, trace=trace)
    (received,) = FrameDecoder().feed(encode(sent))
    assert isinstance(received, Publication)
    assert (received.previous, received.trace) == (3, trace)
    assert encode(received) == encode(sent)


def test_a_publication_of_an_older_peer_says_nothing_of_its_previous_one() -> None:
    body = msgspec.msgpack.encode(("p", 7, "t", {}, b"x", 1.0, 5))
    (received,) = FrameDecoder().feed(struct.pack("<IB", len(body) + 1, 0) + body)
    assert isinstance(received, Publication)
    assert (received.previous, received.trace) == (0, 5)


def test_a_sender_cannot_smuggle_other_bytes_into_what_is_forwarded() -> None:
    """A publication's frame with more array elements, where size and encoding would be."""
    body = msgspec.msgpack.encode(("p", 1, "t", {}, b"", 0.0, 0, 0, 99999, b"evil"))
    frame = struct.pack("<IB", len(body) + 1, 0) + body
    (received,) = FrameDecoder().feed(frame)
    assert isinstance(received, Publication)
    assert received.encoded == frame
    assert received.size_bytes == len(frame)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack("<IB", 0, 0), "a frame of 0 bytes"),
        (struct.pack("<IB", 5000, 0), "a frame of 5000 bytes"),
        (struct.pack("<IB", 2, 250) + b"\x90", "unknown kind of frame 250"),
        (struct.pack("<IB", 2, 17) + b"\x90", "does not decode"),
        (struct.pack("<IB", 3, 17) + b"\x91\xa0", "does not decode"),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of"),
    ],
)
def test_a_bad_frame_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(FrameError, match=reason):
        FrameDecoder(max_frame_bytes=1000).feed(data)


def test_a_filter_that_cannot_be_is_refused_on_the_wire() -> None:
    good = encode(Subscribe("s:1", Filter((Predicate("name", Operator.PREFIX, "abc"),))))
    assert b"\xa3abc" in good
    with pytest.raises(FrameError, match="needs a string"):
        FrameDecoder().feed(_with_number(good))


def _with_number(frame: bytes) -> bytes:
    body = frame[5:].replace(b"\xa3abc", b"\x07")
    return struct.pack("<IB", len(body) + 1, frame[4]) + body


@given(st.binary(max_size=200))
def test_random_bytes_give_messages_or_a_frame_error_and_nothing_else(data: bytes) -> None:
    decoder = FrameDecoder(max_frame_bytes=100)
    decoded: list[Message] = []
    with contextlib.suppress(FrameError):
        decoded = decoder.feed(data)
    assert all(FrameDecoder().feed(encode(message)) for message in decoded)


@given(st.sampled_from(ONE_OF_EACH), st.data())
def test_a_damaged_frame_gives_a_message_or_a_frame_error(
    message: Message, draw: st.DataObject
) -> None:
    frame = bytearray(encode(message))
    position = draw.draw(st.integers(4, len(frame) - 1))
    frame[position] = draw.draw(st.integers(0, 255))
    decoded: list[Message] = []
    with contextlib.suppress(FrameError):
        decoded = FrameDecoder().feed(bytes(frame))
    assert len(decoded) <= 1

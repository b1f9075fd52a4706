"""Records of a journal to bytes and back; batches that show whether they are whole.

A record is a 4-byte length of what follows, a kind, the instant, and a body: frames as they came
over the wire, or a name and fields. A batch is what is written and synced at once, one after the
other: a head (a mark, the length and a checksum of its records, a checksum of the head itself), the
records, and an end mark. Two things can be wrong with the last one. A *torn tail* was being written
when the machine went down, and nobody had been told of it: it is too short, or its end is not what
was to be written. A batch that is *damaged* was finished, and has been changed since.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import msgspec

from pubweave.model.records.journal_records import EventRecord, MessagesRecord, Record
from pubweave.wire.codec import FrameDecoder, FrameError, encode_all

_MESSAGES, _EVENT = 0, 1
_RECORD = struct.Struct("<IBd")
_MESSAGES_HEAD = struct.Struct("<Qd")
_LENGTH_BYTES = 4
FORMAT = 4
"""Of files and batches; it is the last character of every batch's mark."""
_NAME = b"pwJ"
_MARK = _NAME + str(FORMAT).encode()
_END = b"\xf1pwJend\n"
END_BYTES = len(_END)
_FIELDS = struct.Struct("<4sII")
_CHECKSUM = struct.Struct("<I")
HEAD_BYTES = _FIELDS.size + _CHECKSUM.size
_ANY_FRAME_BYTES = (1 << 32) - 1
_encode_fields = msgspec.msgpack.Encoder().encode
_decode_fields = msgspec.msgpack.Decoder(tuple[str, tuple]).decode  # type: ignore[type-arg]


class JournalDamagedError(ValueError):
    """What had been written cannot be read any more; says where."""


def encode_record(record: Record) -> bytes:
    """One record; publications that came over the wire keep their bytes. O(bytes).

    >>> list(decode_records(encode_record(EventRecord(1.0, "LinkAdded", ("b2",)))))
    [EventRecord(now=1.0, name='LinkAdded', fields=('b2',))]
    """
    if isinstance(record, MessagesRecord):
        kind = _MESSAGES
        head = _MESSAGES_HEAD.pack(record.connection, record.received_at)
        body = head + encode_all(record.messages)
    else:
        kind = _EVENT
        body = _encode_fields((record.name, record.fields))
    return _RECORD.pack(len(body) + _RECORD.size - _LENGTH_BYTES, kind, record.now) + body


def decode_records(data: bytes) -> Iterator[Record]:
    """The records of one batch. JournalDamagedError: they are none of ours."""
    offset = 0
    try:
        while offset < len(data):
            length, kind, now = _RECORD.unpack_from(data, offset)
            start, offset = offset + _RECORD.size, offset + _LENGTH_BYTES + length
            if kind == _MESSAGES:
                connection, received_at = _MESSAGES_HEAD.unpack_from(data, start)
                frames = data[start + _MESSAGES_HEAD.size : offset]
                messages = FrameDecoder(_ANY_FRAME_BYTES).feed(frames)
                yield MessagesRecord(now, connection, received_at, messages)
            else:
                name, fields = _decode_fields(data[start:offset])
                yield EventRecord(now, name, fields)
    except (struct.error, FrameError, msgspec.MsgspecError) as error:
        raise JournalDamagedError(f"a record that does not decode: {error}") from error


def encode_batch(records: bytes) -> bytes:
    """Records as they are written."""
    head = _FIELDS.pack(_MARK, len(records), zlib.crc32(records))
    return b"".join((head, _CHECKSUM.pack(zlib.crc32(head)), records, _END))


def format_of(data: bytes) -> int | None:
    """The format in which batches were written, by the first of them; None: these are none.

    >>> format_of(encode_batch(b"records")), format_of(b"pwJ7...."), format_of(b"other")
    (4, 7, None)
    """
    name, digit = data[: len(_NAME)], data[len(_NAME) : len(_MARK)]
    return int(digit) if name == _NAME and digit.isdigit() else None


def find_batches(data: bytes) -> list[tuple[int, int]]:
    """Where the records of each whole batch begin and end, up to a torn tail. O(bytes).

    JournalDamagedError names the first batch that was whole once and is not any more.

    >>> data = encode_batch(b"first") + encode_batch(b"second")
    >>> [data[start:end] for start, end in find_batches(data[:-1])]
    [b'first']
    """
    found = []
    offset = 0
    while len(data) - offset >= HEAD_BYTES and (end := _end_of_batch(data, offset)):
        found.append((offset + HEAD_BYTES, end - END_BYTES))
        offset = end
    return found


def _end_of_batch(data: bytes, offset: int) -> int:
    """Where a whole batch ends; 0: this is a torn tail. A flipped bit is at one place only: if it
    is in the head or in the records, the end mark shows that the batch had been finished."""
    mark, length, checksum = _FIELDS.unpack_from(data, offset)
    start = offset + HEAD_BYTES
    fields = data[offset : offset + _FIELDS.size]
    if mark != _MARK or _CHECKSUM.pack(zlib.crc32(fields)) != data[offset + _FIELDS.size : start]:
        if data.find(_END, offset) >= 0:
            raise _damaged(offset)
        return 0
    end = start + length + END_BYTES
    if end > len(data):
        return 0
    wrong_bits = _differing_bits(data[end - END_BYTES : end], _END)
    is_whole = zlib.crc32(memoryview(data)[start : start + length]) == checksum
    if wrong_bits == 1 or (not is_whole and (wrong_bits == 0 or end < len(data))):
        raise _damaged(offset)  # one was being written at a time: what follows was begun later
    return end if is_whole else 0


def _differing_bits(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def _damaged(offset: int) -> JournalDamagedError:
    return JournalDamagedError(f"damaged in the batch at byte {offset}, which had been written")

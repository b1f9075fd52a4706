"""Records of a journal to bytes and back; batches that show whether they are whole.

A record is a 4-byte length of what follows, a kind, the instant, and a body: frames as they came
over the wire, or a name and fields. A batch is what is written and synced at once: a mark, the
length and a checksum of its records, and how much of the file had been synced before. A batch that
does not check out was being written when the broker died; unless a later one says that it had been
synced, and then the file has been damaged since.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import msgspec

from pubweave.model.journal_records import EventRecord, MessagesRecord, Record
from pubweave.wire.codec import FrameDecoder, FrameError, encode_all

_MESSAGES, _EVENT = 0, 1
_RECORD = struct.Struct("<IBd")
_MESSAGES_HEAD = struct.Struct("<Qd")
_LENGTH_BYTES = 4
FORMAT = 1
"""Of files and batches; it is the last character of every batch's mark."""
_NAME = b"pwJ"
_MARK = _NAME + str(FORMAT).encode()
_BATCH = struct.Struct("<4sIIQ")
BATCH_HEAD_BYTES = _BATCH.size
_ANY_FRAME_BYTES = (1 << 32) - 1
_encode_fields = msgspec.msgpack.Encoder().encode
_decode_fields = msgspec.msgpack.Decoder(tuple[str, tuple]).decode  # type: ignore[type-arg]


class JournalDamagedError(ValueError):
    """What had been synced cannot be read any more; says where."""


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


def encode_batch(records: bytes, synced_bytes: int) -> bytes:
    """Records as they are written; ``synced_bytes`` of the file are known to be on disk."""
    return _BATCH.pack(_MARK, len(records), zlib.crc32(records), synced_bytes) + records


def format_of(data: bytes) -> int | None:
    """The format in which batches were written, by the first of them; None: these are none.

    >>> format_of(encode_batch(b"records", 0)), format_of(b"pwJ7...."), format_of(b"other")
    (1, 7, None)
    """
    name, digit = data[: len(_NAME)], data[len(_NAME) : len(_MARK)]
    return int(digit) if name == _NAME and digit.isdigit() else None


def find_batches(data: bytes) -> list[tuple[int, int]]:
    """Where the records of each whole batch begin and end, up to a torn tail. O(bytes).

    >>> data = encode_batch(b"first", 0) + encode_batch(b"second", 25)
    >>> [data[start:end] for start, end in find_batches(data[:-1])]
    [b'first']
    """
    found = []
    offset = 0
    while (batch := _batch_at(data, offset)) is not None:
        start, end, _ = batch
        found.append((start, end))
        offset = end
    _check_is_torn(data, offset)
    return found


def _batch_at(data: bytes, offset: int) -> tuple[int, int, int] | None:
    """Begin and end of the records of a whole batch, and what was synced before it."""
    if offset + BATCH_HEAD_BYTES > len(data):
        return None
    mark, length, checksum, synced_bytes = _BATCH.unpack_from(data, offset)
    start = offset + BATCH_HEAD_BYTES
    end = start + length
    if mark != _MARK or end > len(data) or zlib.crc32(memoryview(data)[start:end]) != checksum:
        return None
    return start, end, synced_bytes


def _check_is_torn(data: bytes, offset: int) -> None:
    """Whether nothing behind a bad place says that it had been synced."""
    at = data.find(_MARK, offset + 1)
    while at >= 0:
        batch = _batch_at(data, at)
        if batch is not None and batch[2] > offset:
            raise JournalDamagedError(f"damaged at byte {offset}, which had been on disk before")
        at = data.find(_MARK, at + 1)

"""Messages to frames and back.

A frame is a 4-byte little-endian length of what follows, one byte for the kind of message, and
the message as a MessagePack array. The length is bounded before anything is read, and decoding
goes into declared types only: a frame can be wrong, but not surprising.

A publication's frame is the same on every hop (nothing in it belongs to a link), so a broker
that forwards one sends the very bytes that came in.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from pubweave.model.messages import migration, relocation, rendezvous, session, topic_connected
from pubweave.model.messages.session import Message
from pubweave.model.publications import Publication

DEFAULT_MAX_FRAME_BYTES = 1 << 20

PUBLICATION_KIND = 0
KINDS: dict[int, type] = {
    PUBLICATION_KIND: Publication,
    1: session.Advertise,
    2: session.Unadvertise,
    3: session.Subscribe,
    4: session.Unsubscribe,
    5: session.Synced,
    6: session.Refused,
    7: session.ActionReserve,
    8: session.ActionSignal,
    9: session.ShiftTables,
    10: session.InterestBroadcast,
    11: session.ExchangeRequest,
    12: session.ExchangeReply,
    13: migration.MigrationSignal,
    14: migration.MigrationEntries,
    15: migration.MigrationUpdate,
    16: session.Hello,
    17: session.Ack,
    18: session.Ping,
    19: session.Pong,
    20: session.Goodbye,
    21: session.Query,
    22: session.Answer,
    23: migration.MigrationComplete,
    24: migration.MigrationSeek,
    25: migration.Redirect,
    26: migration.RedirectReply,
    27: session.Login,
    28: session.Disconnect,
    32: relocation.TraceResult,
    33: relocation.RelocationRequest,
    34: relocation.RelocationAnswer,
    35: relocation.TraceInformationRequest,
    36: relocation.TraceInformationAnswer,
    37: relocation.ProbeRequest,
    38: relocation.ProbeReply,
    39: relocation.PlacementRound,
    40: topic_connected.BrokerRecord,
    41: topic_connected.TopicWanted,
    42: topic_connected.TopicUnwanted,
    43: topic_connected.TopicOpened,
    44: rendezvous.ChordNeighbors,
    45: rendezvous.ChordLookup,
    46: rendezvous.ChordFound,
    47: rendezvous.ChordLeaving,
    48: rendezvous.TreeJoin,
    49: rendezvous.TreePath,
    50: rendezvous.TreeOffer,
    51: rendezvous.TreeBroken,
    52: rendezvous.TreeTables,
    53: rendezvous.LinkUnused,
    55: rendezvous.PlacementDigest,
    56: rendezvous.RingMember,
    57: topic_connected.TopicMissed,
    58: session.Missed,
    59: session.Confirmed,
    60: session.ConfirmRequest,
    61: session.ConfirmReply,
}
_KIND_OF = {type_: kind for kind, type_ in KINDS.items()}
_DECODERS: dict[int, Callable[[bytes], Any]] = {
    kind: msgspec.msgpack.Decoder(type_).decode for kind, type_ in KINDS.items()
}
_HEADER = struct.Struct("<IB")
_HEADER_BYTES = _HEADER.size
_LENGTH_BYTES = 4
_encode_body = msgspec.msgpack.Encoder().encode


class FrameError(ValueError):
    """Bytes that are no frame of ours, or one beyond the bound; says which."""


def encode(message: Message) -> bytes:
    """One message as a frame; a publication that came over the wire keeps its bytes.

    >>> encode(session.Ack(3)).hex()
    '03000000119103'
    """
    if type(message) is Publication:
        if message.encoded:
            return message.encoded
        fields = (
            message.publisher,
            message.sequence,
            message.topic,
            message.attributes,
            message.payload,
            message.published_at,
        )
        if message.previous:
            body = _encode_body((*fields, message.trace, message.previous))
        else:
            body = _encode_body((*fields, message.trace) if message.trace else fields)
        frame = _HEADER.pack(len(body) + 1, PUBLICATION_KIND) + body
        # One encoding serves every destination and every repetition.
        force_setattr(message, "encoded", frame)
        return frame
    body = _encode_body(message)
    return _HEADER.pack(len(body) + 1, _KIND_OF[type(message)]) + body


def encode_all(messages: Sequence[Message]) -> bytes:
    """Several messages as one run of bytes, for one write."""
    return b"".join([encode(message) for message in messages])


class FrameDecoder:
    """Bytes in, messages out, whatever the pieces they come in."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.frames = 0
        """How many frames are complete so far."""
        self._pieces: list[bytes] = []
        self._unfinished_bytes = 0
        self._wanted_bytes = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether a frame has begun whose end is missing."""
        return bool(self._pieces)

    def feed(self, data: bytes) -> list[Message]:
        """The messages that these bytes complete. Raises FrameError; then the decoder is done.

        O(bytes): pieces of a frame are joined when it is complete, or a sender of single bytes
        would have us copy all that came before each of them."""
        if self._pieces:
            self._pieces.append(data)
            self._unfinished_bytes += len(data)
            if self._unfinished_bytes < self._wanted_bytes:
                return []
            data = b"".join(self._pieces)
            self._pieces = []
        messages: list[Message] = []
        append = messages.append
        unpack = _HEADER.unpack_from
        decode_publication = _DECODERS[PUBLICATION_KIND]
        offset, end = 0, len(data)
        try:
            while end - offset >= _HEADER_BYTES:
                length, kind = unpack(data, offset)
                if not 0 < length <= self.max_frame_bytes:
                    raise FrameError(
                        f"a frame of {length} bytes; allowed are 1 to {self.max_frame_bytes}"
                    )
                stop = offset + _LENGTH_BYTES + length
                if stop > end:
                    break
                if kind == PUBLICATION_KIND:
                    frame = data[offset:stop]
                    publication = decode_publication(frame[_HEADER_BYTES:])
                    force_setattr(publication, "encoded", frame)
                    force_setattr(publication, "size_bytes", stop - offset)
                    append(publication)
                else:
                    append(_decode_other(kind, data[offset + _HEADER_BYTES : stop]))
                offset = stop
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            if isinstance(error, FrameError):
                raise
            raise FrameError(f"a frame that does not decode: {error}") from error
        if offset < end:
            self._keep(data[offset:])
        self.frames += len(messages)
        return messages

    def _keep(self, rest: bytes) -> None:
        """The beginning of a frame, until as much has come as it needs."""
        self._pieces = [rest]
        self._unfinished_bytes = len(rest)
        self._wanted_bytes = _HEADER_BYTES
        if len(rest) >= _HEADER_BYTES:
            self._wanted_bytes = _LENGTH_BYTES + _HEADER.unpack_from(rest)[0]


def _decode_other(kind: int, body: bytes) -> Message:
    decode = _DECODERS.get(kind)
    if decode is None:
        raise FrameError(f"unknown kind of frame {kind}")
    message: Message = decode(body)
    return message

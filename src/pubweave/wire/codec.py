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

from pubweave.model.messages.migration import (
    MigrationComplete,
    MigrationEntries,
    MigrationSeek,
    MigrationSignal,
    MigrationUpdate,
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
    TraceResult,
)
from pubweave.model.messages.rendezvous import (
    ChordFound,
    ChordLeaving,
    ChordLookup,
    ChordNeighbors,
    LinkUnused,
    PlacementDigest,
    RingMember,
    TreeBroken,
    TreeJoin,
    TreeOffer,
    TreePath,
    TreeTables,
)
from pubweave.model.messages.session import (
    Ack,
    ActionReserve,
    ActionSignal,
    Advertise,
    Answer,
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
    ShiftTables,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.messages.topic_connected import (
    BrokerRecord,
    TopicMissed,
    TopicOpened,
    TopicUnwanted,
    TopicWanted,
)
from pubweave.model.publications import Publication

DEFAULT_MAX_FRAME_BYTES = 1 << 20

PUBLICATION_KIND = 0
KINDS: dict[int, type] = {
    PUBLICATION_KIND: Publication,
    1: Advertise,
    2: Unadvertise,
    3: Subscribe,
    4: Unsubscribe,
    5: Synced,
    6: Refused,
    7: ActionReserve,
    8: ActionSignal,
    9: ShiftTables,
    10: InterestBroadcast,
    11: ExchangeRequest,
    12: ExchangeReply,
    13: MigrationSignal,
    14: MigrationEntries,
    15: MigrationUpdate,
    16: Hello,
    17: Ack,
    18: Ping,
    19: Pong,
    20: Goodbye,
    21: Query,
    22: Answer,
    23: MigrationComplete,
    24: MigrationSeek,
    25: Redirect,
    26: RedirectReply,
    27: Login,
    28: Disconnect,
    32: TraceResult,
    33: RelocationRequest,
    34: RelocationAnswer,
    35: TraceInformationRequest,
    36: TraceInformationAnswer,
    37: ProbeRequest,
    38: ProbeReply,
    39: PlacementRound,
    40: BrokerRecord,
    41: TopicWanted,
    42: TopicUnwanted,
    43: TopicOpened,
    44: ChordNeighbors,
    45: ChordLookup,
    46: ChordFound,
    47: ChordLeaving,
    48: TreeJoin,
    49: TreePath,
    50: TreeOffer,
    51: TreeBroken,
    52: TreeTables,
    53: LinkUnused,
    55: PlacementDigest,
    56: RingMember,
    57: TopicMissed,
    58: Missed,
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

    >>> encode(Ack(3)).hex()
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

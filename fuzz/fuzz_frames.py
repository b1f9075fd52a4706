"""Frames that nobody should send: well-formed messages of nonsense, and broken bytes.

Messages are made from their declared types, so a new kind of message is fuzzed without a word
here. All randomness comes from the generator that is passed in.
"""

from __future__ import annotations

import enum
import random
import struct
from typing import Any

import msgspec
from msgspec import inspect as types

from pubweave.model.messages.session import Hello, Message
from pubweave.wire.codec import KINDS, encode

NASTY_TEXTS = ("", "b1", "b2", "b3", "STOCK", "x:1", "ü\0", "class", "$observer", "a" * 300)
NASTY_WHOLE = (0, 1, -1, 2, 7, 255, 2**31, 2**53, 2**63 - 1, -(2**63))
NASTY_FLOATS = (0.0, -1.5, 1e300, float("inf"), float("nan"))
DEEPEST = 4
MANY = 3


class Fuzzer:
    """Makes messages and bytes. ``texts`` are names that mean something where they arrive."""

    def __init__(self, rng: random.Random, texts: tuple[str, ...] = NASTY_TEXTS) -> None:
        self._rng = rng
        self._texts = texts

    def message(self) -> Message | None:
        """One of any kind but Hello; None if this one cannot be made (its own rules forbid it)."""
        kind = self._rng.choice([k for k in KINDS.values() if k is not Hello])
        try:
            made: Message = self._value(types.type_info(kind), 0)
        except (ValueError, TypeError, OverflowError):
            return None
        return made

    def frames(self, count: int) -> bytes:
        """Some messages; in half of all cases some of them are broken."""
        broken_share = self._rng.choice((0.0, 0.1))
        return b"".join(self.frame(broken_share) for _ in range(count))

    def frame(self, broken_share: float = 0.5) -> bytes:
        """One message, whole or broken."""
        message = None
        while message is None:
            message = self.message()
        try:
            data = encode(message)
        except (ValueError, OverflowError, msgspec.MsgspecError):
            return self.garbage()
        return self.broken(data) if self._rng.random() < broken_share else data

    def broken(self, data: bytes) -> bytes:
        """A frame with something wrong about it."""
        rng = self._rng
        changed = bytearray(data)
        match rng.randrange(6):
            case 0:
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            case 1:
                del changed[rng.randrange(len(changed)) :]
            case 2:
                at = rng.randrange(len(changed))
                changed[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 3:
                changed[:4] = struct.pack("<I", rng.choice(_LENGTHS))
            case 4:
                changed[4:5] = bytes([rng.randrange(256)])
            case _:
                return self.garbage()
        return bytes(changed)

    def garbage(self) -> bytes:
        """A frame of right length whose body is hostile."""
        rng = self._rng
        body = rng.choice(_BODIES) if rng.random() < 0.5 else rng.randbytes(rng.randrange(1, 200))
        return struct.pack("<IB", len(body) + 1, rng.choice(list(KINDS))) + body

    # --- values ------------------------------------------------------------------------------

    def _value(self, type_: types.Type, depth: int) -> Any:
        rng = self._rng
        match type_:
            case types.StrType():
                return rng.choice(self._texts)
            case types.IntType():
                return rng.choice(NASTY_WHOLE) if rng.random() < 0.5 else rng.randrange(20)
            case types.FloatType():
                return rng.choice(NASTY_FLOATS)
            case types.BoolType():
                return rng.random() < 0.5
            case types.BytesType():
                return rng.randbytes(rng.randrange(40))
            case types.NoneType():
                return None
            case types.EnumType(cls):
                return rng.choice(list(cls)) if issubclass(cls, enum.Enum) else None
            case _:
                return self._compound(type_, depth + 1)

    def _compound(self, type_: types.Type, depth: int) -> Any:
        rng = self._rng
        count = 0 if depth > DEEPEST else rng.randrange(MANY)
        match type_:
            case types.UnionType(members):
                return self._value(rng.choice(members), depth)
            case types.TupleType(items):
                return tuple(self._value(item, depth) for item in items)
            case types.VarTupleType(item_type=item):
                return tuple(self._value(item, depth) for _ in range(count))
            case types.ListType(item_type=item):
                return [self._value(item, depth) for _ in range(count)]
            case types.DictType(key_type=key, value_type=value):
                return {self._value(key, depth): self._value(value, depth) for _ in range(count)}
            case types.StructType(cls, fields):
                return cls(*(self._value(field.type, depth) for field in fields))
            case _:
                raise TypeError(f"no values of {type_} are known here")


_LENGTHS = (0, 1, 5, 8192, 8193, 1 << 20, (1 << 20) + 1, 1 << 31, (1 << 32) - 1)
_BODIES = (
    b"\x91" * 5_000,  # arrays within arrays
    b"\x81\xa1a" * 2_000,  # maps within maps
    b"\xdd\xff\xff\xff\xff",  # an array that claims four billion elements
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",  # bytes that claim four gigabytes
    b"\xdb\xff\xff\xff\xff",
    b"\x92\xa1x\x91" + b"\x93\xa1v\xa1>\x01" * 900,  # more predicates than anybody needs
    b"",
)

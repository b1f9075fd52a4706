"""What a journal consists of: the events of a broker in their order, and what is done to its files.

The core makes records of its events and events of records (`core.journal.recovery`); the wire knows
their bytes (`wire.journal_codec`) and the order of operations (`wire.journal_files`); a disk
carries them out (`runtime.journal.disk`, `sim.kernel.disk`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pubweave.model.messages.session import Message


class MessagesRecord(msgspec.Struct, frozen=True):
    """Messages came in on a connection and were handled at ``now``."""

    now: float
    connection: int
    received_at: float
    messages: Sequence[Message]


class EventRecord(msgspec.Struct, frozen=True):
    """Anything else that happened: the event's name and its fields."""

    now: float
    name: str
    fields: tuple[Any, ...]


Record = MessagesRecord | EventRecord


class AppendBytes(msgspec.Struct, frozen=True):
    """Write behind what a file has; it is made if it is not there."""

    name: str
    data: bytes


class Sync(msgspec.Struct, frozen=True):
    """What was appended to a file survives from here on."""

    name: str


class Install(msgspec.Struct, frozen=True):
    """A synced file gets its name, at once and for good; if this fails, it may have it or not."""

    scratch: str
    name: str


class Cut(msgspec.Struct, frozen=True):
    """Shorten a file, or make an empty one, for good."""

    name: str
    size: int


class Remove(msgspec.Struct, frozen=True):
    """A file is gone, if it was there at all, and stays so."""

    name: str


DiskOperation = AppendBytes | Sync | Install | Cut | Remove

"""What a journal consists of: the events of a broker in their order, as plain values.

The core makes records of its events and events of records (`core.journal.recovery`); the wire knows
their bytes (`wire.journal_codec`).
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

"""Events as records of the journal, and back: the same event, whatever it was."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from pubweave.core.events import (
    ActionRequested,
    Event,
    MessagesReceived,
    PacketsReceived,
)
from pubweave.model.journal_records import EventRecord, MessagesRecord, Record
from pubweave.model.mqtt_packets import FromClient
from pubweave.model.plans import Append, Detach, Move, Shift

HANDLING_MEASURED = "HandlingMeasured"
ORGANIZING_PAUSED = "OrganizingPaused"
HINTS = (HANDLING_MEASURED, ORGANIZING_PAUSED)
"""Not events of the core, but what its driver tells it and it decides by: how long a message takes
to handle, in ms; whether an operator wants it to leave the links alone."""
_EVENTS: dict[str, type[Any]] = {type_.__name__: type_ for type_ in get_args(Event)}
_ACTIONS: dict[str, type[Any]] = {type_.__name__: type_ for type_ in (Shift, Move, Append, Detach)}


def record_of(event: Event, now: float) -> Record:
    """The record of an event that was handled at ``now``.

    >>> from pubweave.core.events import LinkAdded
    >>> record_of(LinkAdded("b2"), 1.5)
    EventRecord(now=1.5, name='LinkAdded', fields=('b2',))
    """
    if type(event) is MessagesReceived:
        return MessagesRecord(now, event.connection, event.received_at, event.messages)
    name = type(event).__name__
    if isinstance(event, ActionRequested):
        action = event.action
        return EventRecord(now, name, (event.action_id, type(action).__name__, action.brokers))
    return EventRecord(now, name, msgspec.structs.astuple(event))


def event_of(record: Record) -> Event:
    """The event that a record is of. LookupError: of none that this version knows.

    >>> from pubweave.core.events import DeadlineReached
    >>> event_of(record_of(DeadlineReached(), 2.0))
    DeadlineReached()
    """
    if isinstance(record, MessagesRecord):
        return MessagesReceived(record.connection, record.messages, record.received_at)
    if record.name == ActionRequested.__name__:
        action_id, kind, brokers = record.fields
        return ActionRequested(action_id, _ACTIONS[kind](*brokers))
    if record.name == PacketsReceived.__name__:
        connection, packets = record.fields
        return PacketsReceived(connection, msgspec.convert(packets, list[FromClient]))
    type_ = _EVENTS[record.name]
    fields = dict(zip(type_.__struct_fields__, record.fields, strict=False))
    try:
        # By their types: of what is inside a field a record has only the bare values.
        event: Event = msgspec.convert(fields, type_)
    except msgspec.ValidationError as error:
        raise LookupError(f"a record of {record.name} that is none: {error}") from error
    return event


def hint_record(hint: str, value: float | bool, now: float) -> EventRecord:
    """The record of a hint: one of `HINTS`, with its value."""
    return EventRecord(now, hint, (value,))

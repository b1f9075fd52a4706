"""A broker that comes back: its events once more, and then the world it comes back to.

Its connections are gone and its neighbors and clients dial anew; its sessions are there, so they
resume. What it had asked of others and may not have been heard is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

import msgspec

from pubweave.core.broker import Broker
from pubweave.core.session.table import OBSERVER_MARK
from pubweave.core.vocabulary.effects import (
    Effect,
)
from pubweave.core.vocabulary.events import (
    ActionRequested,
    ConnectionClosed,
    ConnectionId,
    Event,
    MessagesReceived,
    PacketsReceived,
    ProcessRestarted,
)
from pubweave.model.mqtt_packets import FromClient
from pubweave.model.plans import Append, Detach, Move, Shift
from pubweave.model.records.journal_records import EventRecord, MessagesRecord, Record


def replay(
    broker: Broker,
    records: Iterable[Record],
    watch: Callable[[list[Effect]], None] = lambda effects: None,
) -> int:
    """Let a broker live through its journal; how many events that were. What it wants done was
    done then, or will be again; ``watch`` sees it. As long as the events took at first."""
    count = 0
    for record in records:
        count += 1
        event = event_of(record)
        try:
            effects = broker.handle(event, record.now)
        except Exception:
            effects = []  # it failed then, too: `HandlingFailed` is the next record
        watch(effects)
    return count


def come_back(broker: Broker, *, epoch: int, now: float) -> list[Effect]:
    """After the replay: whatever was connected is not any more. ``epoch`` as for a new broker.

    Clients get their whole time to come back, for they could not while the broker was away; and
    where brokers keep publications for a while, that time does not count either."""
    effects: list[Effect] = []
    outer = [connection for connection in broker.sessions.connections() if connection > 0]
    if broker.mqtt is not None:
        broker.mqtt.restored(now)
        outer += broker.mqtt.connection_numbers()
    for connection in outer:
        effects += broker.handle(ConnectionClosed(connection), now)
    return effects + broker.handle(ProcessRestarted(epoch), now)


def is_onlooker(broker: Broker, connection: ConnectionId) -> bool:
    """Whether a connection is that of a client that only looks at the broker."""
    session = broker.sessions.of(connection)
    return session is not None and session.is_client and session.remote.startswith(OBSERVER_MARK)


_EVENTS: dict[str, type[Any]] = {type_.__name__: type_ for type_ in get_args(Event)}
_ACTIONS: dict[str, type[Any]] = {type_.__name__: type_ for type_ in (Shift, Move, Append, Detach)}


def record_of(event: Event, now: float) -> Record:
    """The record of an event that was handled at ``now``.

    >>> from pubweave.core.vocabulary.events import LinkAdded
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

    >>> from pubweave.core.vocabulary.events import DeadlineReached
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

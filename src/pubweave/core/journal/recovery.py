"""A broker that comes back: its events once more, and then the world it comes back to.

Its connections are gone and its neighbors and clients dial anew; its sessions are there, so they
resume. What it had asked of others and may not have been heard is asked again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, get_args

import msgspec

from pubweave.core.broker import Broker
from pubweave.core.session.table import OBSERVER_MARK
from pubweave.core.vocabulary.effects import (
    Effect,
    EmitTelemetry,
    PauseReading,
    Transmit,
    TransmitPackets,
)
from pubweave.core.vocabulary.events import (
    ActionRequested,
    ConnectionClosed,
    ConnectionId,
    Event,
    MessagesReceived,
    PacketsReceived,
)
from pubweave.model.messages.session import Answer, Hello, Ping, Pong
from pubweave.model.mqtt_packets import FromClient, PingResp
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
        if isinstance(record, EventRecord) and record.name in HINTS:
            give_hint(broker, record.name, *record.fields)
            continue
        count += 1
        event = event_of(record)
        try:
            effects = broker.handle(event, record.now)
        except Exception:
            # It failed then, too, and whoever sent it was cut off by the driver.
            effects = broker.salvage()
        watch(effects)
    return count


def give_hint(broker: Broker, hint: str, value: Any) -> None:
    """Tell a broker what its driver knows (`HINTS`)."""
    if hint == HANDLING_MEASURED:
        for wanting in (broker.organizer, broker.relocator):
            if wanting is not None:
                wanting.handling_ms = value
    elif broker.organizer is not None:
        broker.organizer.pause(value)


def come_back(broker: Broker, *, epoch: int, now: float) -> list[Effect]:
    """After the replay: whatever was connected is not any more. ``epoch`` as for a new broker.

    Clients get their whole time to come back, for they could not while the broker was away; and
    where brokers keep publications for a while, that time does not count either."""
    away_s = max(0.0, now - broker.maintenance.checked_at)
    effects: list[Effect] = []
    outer = [connection for connection in broker.sessions.connections() if connection > 0]
    if broker.mqtt is not None:
        broker.mqtt.restored(now)
        outer += broker.mqtt.connection_numbers()
    for connection in outer:
        effects += broker.handle(ConnectionClosed(connection), now)
    broker.sessions.begin_epochs(epoch)
    for session in broker.sessions:
        session.down_since = now
        if session.congested_since is not None:
            session.congested_since = now
    if broker.topics is not None:
        broker.topics.restored(epoch, away_s, now)
        effects += broker.salvage()
    return effects


def is_onlooker(broker: Broker, connection: ConnectionId) -> bool:
    """Whether a connection is that of a client that only looks at the broker."""
    session = broker.sessions.of(connection)
    return session is not None and session.is_client and session.remote.startswith(OBSERVER_MARK)


HANDLING_MEASURED = "HandlingMeasured"
ORGANIZING_PAUSED = "OrganizingPaused"
HINTS = (HANDLING_MEASURED, ORGANIZING_PAUSED)
"""Not events of the core, but what its driver tells it and it decides by: how long a message takes
to handle, in ms; whether an operator wants it to leave the links alone."""
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


def hint_record(hint: str, value: float | bool, now: float) -> EventRecord:
    """The record of a hint: one of `HINTS`, with its value."""
    return EventRecord(now, hint, (value,))


# Which effects wait until the journal has their event, and for how long.
#
# The rule of the journal: whatever tells somebody what this broker has done leaves after the
# event that it comes from is on disk, and in order. What promises nothing leaves at once: keep-
# alive, answers to questions, telemetry, and everything for clients that only look on. So a
# broker whose disk is full or slow is still known to be alive, and says what is wrong.


_PROMISES_NOTHING = (Ping, Pong, Answer)


class EffectOrder:
    """Effects of events by the number of the event, until the journal has that many.

    >>> order = EffectOrder(lambda connection: False)
    >>> order.noted([Transmit(1, (Pong(0.5),))])
    [Transmit(connection=1, messages=(Pong(sent_at=0.5),))]
    >>> order.is_awaited
    False
    """

    def __init__(self, is_onlooker: Callable[[ConnectionId], bool]) -> None:
        """``is_onlooker`` knows the connections of clients that only look on."""
        self._is_onlooker = is_onlooker
        self._waiting: deque[tuple[int, list[Effect]]] = deque()
        self._greeted_by: dict[ConnectionId, int] = {}
        """Connections whose Hello waits, and for which event: nothing may go before it."""
        self.events = 0
        """How many events were noted so far."""

    @property
    def is_awaited(self) -> bool:
        """Whether an effect waits for the journal."""
        return bool(self._waiting)

    def noted(self, effects: list[Effect]) -> list[Effect]:
        """The next event is handed to the journal; which of its effects need not wait."""
        self.events += 1
        waiting = [effect for effect in effects if self._has_to_wait(effect)]
        if not waiting:
            return effects
        self._waiting.append((self.events, waiting))
        if len(waiting) == len(effects):
            return []
        return [effect for effect in effects if not self._has_to_wait(effect)]

    def settled(self, events: int) -> list[Effect]:
        """So many events are on disk: the effects that may leave now, in order."""
        freed: list[Effect] = []
        while self._waiting and self._waiting[0][0] <= events:
            freed += self._waiting.popleft()[1]
        if self._greeted_by:
            self._greeted_by = {c: event for c, event in self._greeted_by.items() if event > events}
        return freed

    def _has_to_wait(self, effect: Effect) -> bool:
        if isinstance(effect, Transmit):
            if all(isinstance(message, _PROMISES_NOTHING) for message in effect.messages):
                return effect.connection in self._greeted_by
            if self._is_onlooker(effect.connection):
                return False
            if type(effect.messages[0]) is Hello:
                self._greeted_by[effect.connection] = self.events
            return True
        if isinstance(effect, TransmitPackets):
            return not all(isinstance(packet, PingResp) for packet in effect.packets)
        return not isinstance(effect, EmitTelemetry | PauseReading)

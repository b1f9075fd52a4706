"""A broker that comes back: its events once more, and then the world it comes back to.

Its connections are gone and its neighbors and clients dial anew; its sessions are there, so they
resume. What it had asked of others and may not have been heard is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pubweave.core.broker import Broker
from pubweave.core.effects import Effect
from pubweave.core.events import ConnectionClosed, ConnectionId
from pubweave.core.journal_events import HANDLING_MEASURED, HINTS, event_of
from pubweave.core.session_table import OBSERVER_MARK
from pubweave.model.journal_records import EventRecord, Record


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
    away_s = max(0.0, now - broker.upkeep.looked_at)
    effects: list[Effect] = []
    outer = [connection for connection in broker.sessions.connections() if connection > 0]
    if broker.door is not None:
        broker.door.came_back(now)
        outer += broker.door.connections()
    for connection in outer:
        effects += broker.handle(ConnectionClosed(connection), now)
    broker.sessions.begin_epochs(epoch)
    for session in broker.sessions:
        session.down_since = now
        if session.congested_since is not None:
            session.congested_since = now
    if broker.topics is not None:
        broker.topics.came_back(epoch, away_s, now)
        effects += broker.salvage()
    return effects


def is_onlooker(broker: Broker, connection: ConnectionId) -> bool:
    """Whether a connection is that of a client that only looks at the broker."""
    session = broker.sessions.of(connection)
    return session is not None and session.is_client and session.remote.startswith(OBSERVER_MARK)

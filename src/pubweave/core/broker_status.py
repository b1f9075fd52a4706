"""A broker's account of itself, for `pubweave status` and for load samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave.core.session import Session
from pubweave.model.status import BrokerStatus, SessionStatus

if TYPE_CHECKING:
    from pubweave.core.broker import Broker

CLIENTS_SHOWN = 100


def session_status(session: Session) -> SessionStatus:
    return SessionStatus(
        remote=session.remote,
        state=session.state.value,
        queue_messages=session.queue_messages,
        queue_bytes=session.queue_bytes,
        received=session.received,
        rtt_ms=session.rtt_ms,
        is_congested=session.is_congested,
    )


def broker_status(broker: Broker, now: float, uptime_s: float) -> BrokerStatus:
    """The broker at this instant. O(sessions log sessions)."""
    sizes = broker.routing.sizes()
    clients = sorted(broker.sessions.clients.values(), key=lambda s: (-s.queue_bytes, s.remote))
    return BrokerStatus(
        broker=broker.config.id,
        strategy=broker.config.strategy,
        uptime_s=uptime_s,
        subscriptions=sizes.subscriptions,
        advertisements=sizes.advertisements,
        forwarded=sizes.forwarded,
        links=tuple(
            session_status(broker.sessions.links[n]) for n in sorted(broker.sessions.links)
        ),
        client_count=len(clients),
        clients=tuple(session_status(client) for client in clients[:CLIENTS_SHOWN]),
        queue_bytes=sum(session.queue_bytes for session in broker.sessions),
        counters=broker.counters.status(),
        rates=broker.upkeep.load.rates,
        action=broker.actions.status(now) if broker.actions is not None else None,
        organizing=broker.organizer.status() if broker.organizer is not None else None,
        relocation=broker.relocator.status() if broker.relocator is not None else None,
        migrations=broker.migrations.status() if broker.migrations is not None else None,
        access=broker.sessions.access.status(),
        journal=broker.upkeep.journal_status(now),
        mqtt=broker.door.status(now) if broker.door is not None else None,
    )

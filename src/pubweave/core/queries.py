"""What a broker answers to a `Query`: its status, or what one of its parts has to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pubweave.core.session.session import Session
from pubweave.model.records.status import (
    RELOCATE_SUBJECT,
    STATUS_SUBJECT,
    BrokerStatus,
    SessionStatus,
)

if TYPE_CHECKING:
    from pubweave.core.broker import Broker


def answer(broker: Broker, asked_by: Session, subject: str, now: float) -> bytes:
    """The JSON document that answers a query.

    A subject is a verb and, behind a space, an argument: ``status``, or what a part of the broker
    answers (`BrokerPart.answer`), like ``relocate {"client": ..., "destination": ...}``."""
    access = broker.sessions.access
    if not access.may_operate(asked_by):
        reason = f"user {access.user_of(asked_by)!r} may not operate: set operate in its rules"
        return msgspec.json.encode({"error": reason})
    if subject == STATUS_SUBJECT:
        return msgspec.json.encode(broker.status(now))
    verb, _, argument = subject.partition(" ")
    for part in broker.parts.all:
        found = part.answer(verb, argument, now)
        if found is not None:
            return msgspec.json.encode(found)
    if verb == RELOCATE_SUBJECT:
        return msgspec.json.encode({"error": "clients of this broker cannot be moved"})
    return msgspec.json.encode({"error": f"unknown: {subject}"})


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
        rates=broker.maintenance.load.rates,
        access=broker.sessions.access.status(),
        journal=broker.journal_status(now),
        mqtt=broker.mqtt.status(now) if broker.mqtt is not None else None,
        **broker.parts.status(now),
    )

"""What a broker answers to a `Query`: its status, or that it was asked to move a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pubweave.core.relocation.relocator import Relocator
from pubweave.core.session.session import Session
from pubweave.design.relocation.rules import Preference, Priority
from pubweave.model.records.status import (
    RELOCATE_SUBJECT,
    RELOCATION_SUBJECT,
    STATUS_SUBJECT,
    TOPICS_SUBJECT,
    BrokerStatus,
    PublishersStatus,
    RelocateRequest,
    SessionStatus,
    TraceRequest,
)

if TYPE_CHECKING:
    from pubweave.core.broker import Broker


def answer(broker: Broker, asked_by: Session, subject: str, now: float) -> bytes:
    """The JSON document that answers a query.

    ``relocate {"client": ..., "destination": ...}`` begins a migration; how it ends is in the
    status, or in the answer if it was refused at once. ``relocation`` tells of the publishers
    attached here; with a `TraceRequest` each of them is traced, and stays where it is."""
    access = broker.sessions.access
    if not access.may_operate(asked_by):
        reason = f"user {access.user_of(asked_by)!r} may not operate: set operate in its rules"
        return msgspec.json.encode({"error": reason})
    if subject == STATUS_SUBJECT:
        return msgspec.json.encode(broker.status(now))
    if subject == TOPICS_SUBJECT and broker.topics is not None:
        return msgspec.json.encode(broker.topics.status())
    verb, _, argument = subject.partition(" ")
    if verb == RELOCATION_SUBJECT and broker.relocator is not None:
        return _relocation(broker, broker.relocator, argument)
    if verb != RELOCATE_SUBJECT:
        return msgspec.json.encode({"error": f"unknown: {subject}"})
    if broker.migrations is None:
        return msgspec.json.encode({"error": "clients of this broker cannot be moved"})
    try:
        request = msgspec.json.decode(argument, type=RelocateRequest)
    except msgspec.MsgspecError as error:
        return msgspec.json.encode({"error": f"relocate: {error}"})
    refused = broker.migrations.status().refused
    broker.migrations.begin(request.client, request.destination, now)
    status = broker.migrations.status()
    if status.refused > refused:
        return msgspec.json.encode({"error": status.last})
    return msgspec.json.encode({"client": request.client, "destination": request.destination})


def _relocation(broker: Broker, relocator: Relocator, argument: str) -> bytes:
    publishers = relocator.publishers()
    if argument:
        try:
            request = msgspec.json.decode(argument, type=TraceRequest)
            preference = Preference(Priority(request.priority), request.weight)
        except ValueError as error:  # msgspec's own errors are ValueErrors, too
            return msgspec.json.encode({"error": f"relocation: {error}"})
        relocator.show(publishers, preference, request)
    told = relocator.decisions
    selections = [told.selections[p] for p in publishers if p in told.selections]
    return msgspec.json.encode(
        PublishersStatus(
            relocator.status(),
            tuple(publishers),
            tuple(selections),
            tuple(told.placements.values()),
            tuple(broker.migrations.last_moves) if broker.migrations is not None else (),
        )
    )


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
        action=broker.actions.status(now) if broker.actions is not None else None,
        organizing=broker.organizer.status() if broker.organizer is not None else None,
        relocation=broker.relocator.status() if broker.relocator is not None else None,
        migrations=broker.migrations.status() if broker.migrations is not None else None,
        access=broker.sessions.access.status(),
        journal=broker.maintenance.journal_status(now),
        mqtt=broker.mqtt.status(now) if broker.mqtt is not None else None,
    )

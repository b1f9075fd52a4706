"""What a broker answers to a `Query`: its status, or that it was asked to move a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pubweave.core.relocating import Relocator
from pubweave.core.session import Session
from pubweave.design.relocation_rules import Preference, Priority
from pubweave.model.status import (
    RELOCATE_SUBJECT,
    RELOCATION_SUBJECT,
    STATUS_SUBJECT,
    TOPICS_SUBJECT,
    PublishersStatus,
    RelocateRequest,
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

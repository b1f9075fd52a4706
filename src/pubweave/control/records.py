"""Decisions in the store: written by the loop, read and answered by people, as scripts.

Scripts as in `deploy.commands`: generators of store requests that any driver can run, safe to run
again after they were cut off, changing a record by compare-and-set only. A restarted loop, the
command line and the dashboard find everything here; nobody keeps decisions anywhere else.

Ids are numbers with leading zeros, so that the order of names is the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from pubweave.deploy.commands import TRIES, Script
from pubweave.deploy.documents import DocumentError, Layout, decode_struct
from pubweave.deploy.store import Create, Delete, List, Outcome, Path, Read, StoreAnswer, Write
from pubweave.model.decisions import (
    DECISION_VERSION,
    AutopilotStatus,
    DecisionRecord,
    DecisionState,
)

Change = Callable[[DecisionRecord], DecisionRecord]
_DIGITS = 6


class ControlError(ValueError):
    """What was asked of a decision cannot be done; the message says why."""


class GoneError(ControlError):
    """The decision is no longer in the store: somebody cleared it."""


# --- reading -----------------------------------------------------------------------------------


def decision_ids(layout: Layout) -> Script[tuple[str, ...]]:
    """All ids, the oldest first."""
    for _ in range(TRIES):
        listed = yield List(layout.decisions)
        if listed.outcome in (Outcome.OK, Outcome.MISSING):
            return tuple(sorted(listed.children))
    raise ControlError("the store does not answer; try again when it is reachable")


def list_decisions(layout: Layout, last: int | None = None) -> Script[tuple[DecisionRecord, ...]]:
    """The last decisions, or all, the newest at the end."""
    ids = yield from decision_ids(layout)
    records: list[DecisionRecord] = []
    for id_ in ids if last is None else ids[max(0, len(ids) - last) :]:
        found, _ = yield from _read(layout.decision(id_))
        if found is not None:  # else it was dropped between the two requests
            records.append(found)
    return tuple(records)


def find_decision(layout: Layout, id_: str) -> Script[DecisionRecord | None]:
    """One decision; None if there is none of that id."""
    found, _ = yield from _read(layout.decision(full_id(id_)))
    return found


def read_decision(layout: Layout, id_: str) -> Script[DecisionRecord]:
    """One decision; ControlError if there is none of that id."""
    found = yield from find_decision(layout, id_)
    if found is None:
        raise ControlError(
            f"the overlay {layout.overlay!r} has no decision {id_}: "
            "see 'pubweave decisions list' for those it has"
        )
    return found


def read_autopilot(layout: Layout) -> Script[AutopilotStatus | None]:
    """What the running loop says of itself; None if none runs."""
    answer = yield from _answer(layout.autopilot)
    if answer.outcome is Outcome.MISSING:
        return None
    return decode_struct(answer.data, AutopilotStatus, layout.autopilot)


def full_id(id_: str) -> str:
    """An id as people shorten it, in full; ControlError if it cannot be one.

    >>> full_id("17")
    '000017'
    """
    if not id_.isascii() or not id_.isdigit():
        raise ControlError(f"{id_!r} is no id of a decision: they are numbers, such as 17")
    return id_.zfill(_DIGITS)


# --- the loop's own ----------------------------------------------------------------------------


def append_decision(layout: Layout, record: DecisionRecord) -> Script[DecisionRecord]:
    """Store a new decision under the next id; the record with it."""
    for _ in range(TRIES):
        ids = yield from decision_ids(layout)
        number = 1 + max((int(id_) for id_ in ids if id_.isdigit()), default=0)
        named = msgspec.structs.replace(record, id=f"{number:0{_DIGITS}d}")
        data = encode_decision(named)
        answer = yield Create(layout.decision(named.id), data)
        if answer.outcome is Outcome.UNSURE:
            # It may have been made: then the same bytes are there, and a second is not wanted.
            answer = yield Read(layout.decision(named.id))
            if answer.data != data:
                continue
        if answer.outcome is Outcome.OK:
            return named
    raise ControlError("the store does not take the decision; try again when it is reachable")


def change_decision(layout: Layout, id_: str, change: Change) -> Script[DecisionRecord]:
    """Change a decision as it then is, as often as somebody comes before us."""
    path = layout.decision(id_)
    for _ in range(TRIES):
        current, version = yield from _read(path)
        if current is None:
            raise GoneError(f"the store has no decision {id_}: see 'pubweave decisions list'")
        wanted = change(current)
        if wanted == current:
            return current
        answer = yield Write(path, encode_decision(wanted), version)
        if answer.outcome is Outcome.OK:
            return wanted
    raise ControlError("the store does not take the change; try again when it is reachable")


def drop_decisions(layout: Layout, ids: Iterable[str]) -> Script[int]:
    """Remove decisions that need not be kept; how many went."""
    dropped = 0
    for id_ in ids:
        answer = yield Delete(layout.decision(id_))
        dropped += answer.outcome is Outcome.OK
    return dropped


# --- a person's answer -------------------------------------------------------------------------


def approve(layout: Layout, id_: str, by: str, now: float) -> Script[DecisionRecord]:
    """Agree to a waiting decision; the loop carries it out."""

    def agree(current: DecisionRecord) -> DecisionRecord:
        if current.state is DecisionState.APPROVED and current.reviewed_by == by:
            return current
        _validate_waiting(current, now)
        return current.moved_to(DecisionState.APPROVED, reviewed_by=by, reviewed_at=now)

    return (yield from change_decision(layout, full_id(id_), agree))


def reject(
    layout: Layout, id_: str, by: str, now: float, reason: str = ""
) -> Script[DecisionRecord]:
    """Decline a waiting decision."""

    def decline(current: DecisionRecord) -> DecisionRecord:
        if current.state is DecisionState.REJECTED and current.reviewed_by == by:
            return current
        _validate_waiting(current, now)
        return current.moved_to(
            DecisionState.REJECTED,
            reviewed_by=by,
            reviewed_at=now,
            ended_at=now,
            outcome_reason=reason or f"rejected by {by}",
        )

    return (yield from change_decision(layout, full_id(id_), decline))


def _validate_waiting(record: DecisionRecord, now: float) -> None:
    if record.state is not DecisionState.WAITING:
        raise ControlError(
            f"decision {record.id} is {record.state.value}: only waiting ones can be answered"
        )
    if record.expires_at is not None and now >= record.expires_at:
        raise ControlError(
            f"decision {record.id} waited too long: what it rests on is out of date; "
            "the next one will come with the next look"
        )


# --- nodes -------------------------------------------------------------------------------------


def encode_decision(record: DecisionRecord) -> bytes:
    """The bytes of a node; the same record gives the same bytes."""
    return msgspec.json.encode(record)


def encode_status(status: AutopilotStatus) -> bytes:
    return msgspec.json.encode(status)


def _read(path: Path) -> Script[tuple[DecisionRecord | None, int]]:
    answer = yield from _answer(path)
    if answer.outcome is Outcome.MISSING:
        return None, -1
    record = decode_struct(answer.data, DecisionRecord, path)
    if record.decision_version != DECISION_VERSION:
        raise DocumentError(
            f"{path}: decision_version {record.decision_version}, this program reads "
            f"{DECISION_VERSION}; use the version of pubweave that wrote it"
        )
    return record, answer.version


def _answer(path: Path) -> Script[StoreAnswer]:
    for _ in range(TRIES):
        answer = yield Read(path)
        if answer.outcome in (Outcome.OK, Outcome.MISSING):
            return answer
    raise ControlError(f"{path}: the store does not answer; try again when it is reachable")

"""What happens to a stored decision: it is taken up, expires, or ends as its deployment did.

Functions from a record as the store has it to the next one, for `records.change_decision`: they
look at the state they find, because somebody else may have been there first.
"""

from __future__ import annotations

from pubweave.control.records import Change, GoneError, change_decision
from pubweave.control.requests import CarriedOut
from pubweave.deploy.commands import Script
from pubweave.deploy.layout import Layout
from pubweave.model.decisions import DecisionRecord, DecisionState
from pubweave.model.deployment import AbortedBy, DeploymentState

BAD_ENDS = frozenset({DecisionState.FAILED, DecisionState.ABORTED})


def changed(layout: Layout, record: DecisionRecord, change: Change) -> Script[DecisionRecord]:
    """The record as changed; changed here alone if somebody has cleared the store meanwhile."""
    try:
        return (yield from change_decision(layout, record.id, change))
    except GoneError:
        return change(record)


def expired(record: DecisionRecord, now: float, why: str) -> DecisionRecord:
    """A proposal that is no longer waited for; as it is if somebody has just answered it."""
    if record.state is not DecisionState.WAITING:
        return record
    return record.moved_to(DecisionState.EXPIRED, ended_at=now, outcome_reason=why)


def taken_up(record: DecisionRecord, now: float, limit_s: float) -> DecisionRecord:
    """An approved decision that is about to be carried out, unless that was too long ago."""
    if record.state is not DecisionState.APPROVED:
        return record
    if record.reviewed_at is not None and now - record.reviewed_at > limit_s:
        why = "it was approved, but nobody carried it out in time"
        return record.moved_to(DecisionState.EXPIRED, ended_at=now, outcome_reason=why)
    return record.moved_to(DecisionState.DEPLOYING, deploying_at=now)


def ended(
    record: DecisionRecord, how: CarriedOut, now: float, down_until: float | None
) -> DecisionRecord:
    """A decision whose deployment is over."""
    if record.state.is_final:
        return record
    return record.moved_to(
        state_after(how),
        ended_at=now,
        deployment=how.deployment,
        outcome_reason=how.reason,
        stands_down_until=down_until,
    )


def state_after(how: CarriedOut) -> DecisionState:
    """What a decision is once its deployment ended so."""
    if how.state is None:
        return DecisionState.EXPIRED
    if how.state is DeploymentState.DONE:
        return DecisionState.DEPLOYED
    # Unknown, of an older version's deployment, counts as failed: the loop then stands down.
    is_asked = how.aborted_by is AbortedBy.OPERATOR
    return DecisionState.ABORTED if is_asked else DecisionState.FAILED

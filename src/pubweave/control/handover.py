"""From a decision to a deployment: handed over once, however often the loop is killed in between.

A deployment names its decision. So whoever picks the decision up again can tell
whether its plan was handed over, how far it is and how it ended, and hands it over only if nobody
has. The one lock for changes of the topology is the store's plan node, as for everybody else.

Transitions are functions from a record as the store has it to the next one, for
`records.change_decision`: they look at the state they find, because somebody else may have been
there first.
"""

from __future__ import annotations

from msgspec import UNSET

from pubweave.control.records import Change, GoneError, change_decision
from pubweave.control.requests import CarriedOut
from pubweave.deploy.commands import Script, read_topology, resume, submit, sweep
from pubweave.deploy.documents import DeploymentDocument, Layout, decode
from pubweave.deploy.store import Outcome, Read
from pubweave.model.decisions import DecisionRecord, DecisionState
from pubweave.model.deployment import AbortedBy, DeploymentState
from pubweave.model.files.plan import topology_hash


def hand_over(layout: Layout, record: DecisionRecord) -> Script[DeploymentDocument | CarriedOut]:
    """The deployment to be seen through, or how it ended where there is nothing left to do.

    DeploymentError if the store cannot tell: then it may have been handed over."""
    answer = yield Read(layout.plan)
    current = None
    if answer.outcome is Outcome.OK:
        current = decode(answer.data, DeploymentDocument, layout.plan)
    if current is not None and _carries_out(current, record):
        if current.state.is_final:
            return carried_out(current)
        if current.state is DeploymentState.PAUSED:
            return (yield from resume(layout))
        return current
    if current is not None and not current.state.is_final:
        return CarriedOut(None, reason=f"deployment {current.deployment} is under way")
    planned = record.plan_record()
    topology = yield from read_topology(layout)
    if planned.source_hash != topology_hash(topology):
        return CarriedOut(None, reason="the overlay has changed since the plan was made")
    begun = yield from submit(layout, planned, purpose=_purpose(record), decision=record.id)
    # Nobody else can hand a plan over before this one is over, so what is swept is nobody's.
    yield from sweep(layout)
    return begun


def carried_out(deployment: DeploymentDocument) -> CarriedOut:
    """How a deployment that is over ended."""
    assert deployment.state.is_final, f"{deployment.deployment} is {deployment.state}"
    return CarriedOut(
        deployment.state, deployment.deployment, deployment.reason, deployment.aborted_by or None
    )


def _carries_out(deployment: DeploymentDocument, record: DecisionRecord) -> bool:
    """Documents of versions before ``decision`` was a field have it in their purpose alone."""
    if deployment.decision is UNSET:
        return deployment.purpose == _purpose(record)
    return deployment.decision == record.id


def _purpose(record: DecisionRecord) -> str:
    return f"decision {record.id}: {record.reason}"


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

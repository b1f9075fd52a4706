"""Decisions of the control loop: what was known, weighed and done, and how it turned out.

A record is written once per look at the overlay and is frozen; what happens to it afterwards (a
person's answer, the deployment, the measurement) gives a new record with the same id. Everybody who
shows or stores decisions speaks these words: control, the command line, the dashboard. How a
decision is made is not known here.

Costs are CI's cost(N, T) in milliseconds, per second of traffic where the name says so.
Invariant: ``state`` changes only by `DecisionRecord.moved_to`, along `DECISION_CHANGES`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from pubweave.model.files.plan import PlanRecord, parse_plan, plan_id
from pubweave.model.ids import BrokerId

DECISION_VERSION = 1


class ControlMode(enum.Enum):
    """What the loop may do by itself."""

    OBSERVE = "observe"
    """Say what it would do."""
    APPROVE = "approve"
    """Do it once a person has agreed."""
    AUTO = "auto"
    """Do it."""


class Verdict(enum.Enum):
    """What a look at the overlay came to."""

    CHANGE = "change"
    """An alternative saves more than it costs."""
    STAY = "stay"
    """None does."""
    HOLD = "hold"
    """One does, but not now: free period, quiet hours, budget, standing down."""
    NO_EVIDENCE = "no_evidence"
    """The profile does not tell enough to act on."""


class DecisionState(enum.Enum):
    """What became of a decision."""

    CLOSED = "closed"
    """There was nothing to do."""
    OBSERVED = "observed"
    """There was, and it was only said (mode observe)."""
    WAITING = "waiting"
    """For a person (mode approve)."""
    APPROVED = "approved"
    DEPLOYING = "deploying"
    DEPLOYED = "deployed"
    FAILED = "failed"
    """The deployment ended before its end by itself, or could not begin."""
    ABORTED = "aborted"
    """Somebody gave the deployment up."""
    REJECTED = "rejected"
    """By a person."""
    EXPIRED = "expired"
    """Nobody answered in time, or the overlay had changed meanwhile."""

    @property
    def is_final(self) -> bool:
        return not DECISION_CHANGES[self]


DECISION_CHANGES: Mapping[DecisionState, frozenset[DecisionState]] = {
    **dict.fromkeys(DecisionState, frozenset()),
    DecisionState.WAITING: frozenset(
        {DecisionState.APPROVED, DecisionState.REJECTED, DecisionState.EXPIRED}
    ),
    DecisionState.APPROVED: frozenset({DecisionState.DEPLOYING, DecisionState.EXPIRED}),
    DecisionState.DEPLOYING: frozenset(
        {DecisionState.DEPLOYED, DecisionState.FAILED, DecisionState.ABORTED, DecisionState.EXPIRED}
    ),
}


class DecisionInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What was known: the profile, and what the overlay cost in it."""

    profile_id: str
    window_started_at: float
    window_ended_at: float
    topology_hash: str
    """Of the overlay as it was."""
    notifications_per_s: float
    cost_ms_per_s: float
    cost_ms_per_notification: float
    latency_ms_mean: float | None = None
    quarantine_share: float = 0.0
    gaps: tuple[str, ...] = ()
    """Why the profile is not good enough to act on; empty if it is."""


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that could be done, ``stay`` included."""

    name: str
    cost_ms_per_s: float
    benefit_ms: float = 0.0
    """Bft: cost saved over the coming period (DYNATOPS Eq. 6)."""
    change_cost_ms: float = 0.0
    """Cst: messages, state and waiting of the plan's shifts."""
    added_links: tuple[tuple[BrokerId, BrokerId], ...] = ()
    removed_links: tuple[tuple[BrokerId, BrokerId], ...] = ()
    step_count: int = 0
    action_count: int = 0
    refusal: str = ""
    """Why it cannot be chosen, whatever it saves; empty if it can."""

    @property
    def net_ms(self) -> float:
        """Bft - Cst."""
        return self.benefit_ms - self.change_cost_ms


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What the chosen alternative should cost once it is in place."""

    cost_ms_per_s: float
    cost_ms_per_notification: float
    saving_share: float
    """Of the cost before, 0 to 1."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What it did cost, by the first good profile afterwards."""

    profile_id: str
    measured_at: float
    cost_ms_per_s: float
    cost_ms_per_notification: float
    prediction_error: float
    """Measured over predicted cost per notification, minus 1: above 0 it turned out dearer."""
    latency_ms_mean: float | None = None


class DecisionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One decision, from what was known to how it turned out."""

    id: str
    overlay: str
    decided_at: float
    mode: ControlMode
    verdict: Verdict
    reason: str
    """The verdict in words."""
    state: DecisionState
    inputs: DecisionInputs | None = None
    """None if there was no profile at all."""
    alternatives: tuple[Alternative, ...] = ()
    chosen: str = ""
    """The name of the alternative that is best by net benefit; empty if none was weighed."""
    prediction: Prediction | None = None
    plan_hash: str = ""
    plan: str = ""
    """The plan file's text, so that whoever takes over can carry it out; empty without a plan."""
    expires_at: float | None = None
    """Until when a person's answer counts."""
    reviewed_by: str = ""
    reviewed_at: float | None = None
    deployment: str = ""
    """Its name in the store, once it was handed over."""
    deploying_at: float | None = None
    ended_at: float | None = None
    outcome_reason: str = ""
    """Why it ended as it did; empty if all went well."""
    stands_down_until: float | None = None
    """After a failure: nothing is done before this."""
    measured: Measurement | None = None
    decision_version: int = DECISION_VERSION

    def moved_to(self, state: DecisionState, **known: object) -> DecisionRecord:
        """This decision in its next state, with what became known."""
        assert state in DECISION_CHANGES[self.state], f"{self.state} to {state}"
        return msgspec.structs.replace(self, state=state, **known)

    @property
    def chosen_alternative(self) -> Alternative | None:
        return next((each for each in self.alternatives if each.name == self.chosen), None)

    def plan_record(self) -> PlanRecord:
        """The plan; PlanFileError if the record holds none that can be read."""
        return parse_plan(self.plan)


def hash_of(plan: PlanRecord) -> str:
    """The name of a plan in a decision: the same as in its deployment's name."""
    return plan_id(plan)


class AutopilotPhase(enum.Enum):
    """What the loop is doing."""

    RESTING = "resting"
    """Until its next look."""
    PROFILING = "profiling"
    WEIGHING = "weighing"
    AWAITING_REVIEW = "awaiting_review"
    DEPLOYING = "deploying"
    STANDING_DOWN = "standing_down"
    """After a failed plan."""


class AutopilotStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a running loop says of itself: one node in the store, gone with its process."""

    name: str
    """Who runs it: host and process."""
    mode: ControlMode
    started_at: float
    phase: AutopilotPhase
    phase_since: float
    next_look_at: float | None = None
    stands_down_until: float | None = None
    notice: str = ""
    """The last trouble in words; empty if all is well."""
    noticed_at: float | None = None
    session: int = 0

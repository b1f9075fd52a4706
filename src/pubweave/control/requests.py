"""What the loop asks of whoever drives it, and what comes back.

The loop is a generator: it yields one request at a time and is sent a `Reply`. A driver over
sockets and one in virtual time answer the same requests, so that the same loop runs on both. What
went wrong comes back as `Trouble` with a sentence, never as an exception: the loop says so and
looks again at its next turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pubweave.control.alternatives import Allowed
from pubweave.control.evidence import Evidence
from pubweave.deploy.commands import Script
from pubweave.model.decisions import AutopilotStatus, DecisionRecord
from pubweave.model.deployment import AbortedBy, DeploymentState


@dataclass(frozen=True)
class Rest:
    """Come back at this instant. Answer: None."""

    until: float


@dataclass(frozen=True)
class TakeProfile:
    """Profile the overlay as it was since this instant. Answer: `Evidence`, or None where the
    decision ``waiting`` was answered meanwhile: a profile takes long, and a person is there."""

    since: float
    waiting: str = ""


@dataclass(frozen=True, eq=False)
class Weigh:
    """Weigh the alternatives (`alternatives.weigh`): it takes long. Answer: a tuple of `Option`."""

    evidence: Evidence
    allowed: Allowed


@dataclass(frozen=True, eq=False)
class AskStore:
    """Run a script of `deploy.commands` or `control.records`. Answer: what it returns."""

    script: Script[Any]


@dataclass(frozen=True)
class CarryOut:
    """Hand the decision's plan over, or go on with it where it was handed over already, and see it
    through. Answer: `CarriedOut`."""

    record: DecisionRecord


@dataclass(frozen=True)
class Tell:
    """Say what the loop is doing. ``line`` is for people; empty: nothing new. Answer: None."""

    status: AutopilotStatus
    line: str = ""


Request = Rest | TakeProfile | Weigh | AskStore | CarryOut | Tell


@dataclass(frozen=True)
class CarriedOut:
    """How a deployment ended; ``state`` is None if it was refused and nothing was changed."""

    state: DeploymentState | None
    deployment: str = ""
    reason: str = ""
    aborted_by: AbortedBy | None = None


@dataclass(frozen=True)
class Trouble:
    """A request could not be carried out; in words."""

    reason: str


@dataclass(frozen=True, eq=False)
class Reply:
    """The answer to a request, and when it came."""

    value: Any
    now: float

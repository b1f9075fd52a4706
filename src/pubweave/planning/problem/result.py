"""What a planner answers: a plan with the proof it has, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pubweave.model.plans import Bounds, Plan, PlanStatus

__all__ = ["Bounds", "PlanResult", "PlanStatus"]


@dataclass(frozen=True)
class PlanResult:
    """The outcome of one planning run."""

    status: PlanStatus
    plan: Plan | None
    bounds: Bounds
    method: str
    seconds: float
    notes: tuple[str, ...] = ()
    """What the user should know: a fallback taken, a limit hit, why it is infeasible."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Sizes and times of the parts, for benchmarks."""


@dataclass(frozen=True)
class PlanningProgress:
    """A line for the reader, and the best plan and bounds so far where they changed."""

    message: str
    plan: Plan | None = None
    bounds: Bounds | None = None


OnProgress = Callable[[PlanningProgress], None]


def ignore_progress(_: PlanningProgress) -> None:
    """For callers that only want the result."""


# When a planner should end with the best it has.
#
# Planners ask often and cheaply; who answers (a time limit, Ctrl-C, a test) is the caller's
# affair.


class Stop(Protocol):
    """Answers True from the moment on at which the planner should return."""

    def __call__(self) -> bool: ...


def never() -> bool:
    """A stop that never comes: for small problems and tests."""
    return False

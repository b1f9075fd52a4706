"""What a planner answers: a plan with the proof it has, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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

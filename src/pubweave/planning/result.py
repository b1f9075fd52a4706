"""What a planner answers: a plan with the proof it has, or why there is none."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pubweave.model.plans import Plan


class PlanStatus(enum.Enum):
    """How much is proven. Each is another truth; none stands for another."""

    OPTIMAL = "optimal"
    """Fewest steps, and fewest actions (or least cost) at that number of steps."""
    STEPS_OPTIMAL = "steps_optimal"
    """Fewest steps; actions at that number of steps not proven minimal."""
    FEASIBLE = "feasible"
    """A valid plan; the bounds say how far from the optimum it can be."""
    INFEASIBLE = "infeasible"
    """Proven: there is no plan under the rules given."""
    UNKNOWN = "unknown"
    """The limit was hit before a plan or a proof was found."""


@dataclass(frozen=True)
class Bounds:
    """No plan has fewer steps; no plan *of that many steps or the plan's* has fewer actions."""

    steps: int
    actions: int


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

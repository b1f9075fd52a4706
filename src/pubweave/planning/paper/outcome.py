"""What a solver says about one integer program."""

from __future__ import annotations

import enum
from dataclasses import dataclass

ChosenActions = tuple[tuple[int, ...], ...]
"""For each step, positions in the problem's action rows."""


class IpStatus(enum.Enum):
    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    STOPPED = "stopped"
    """The caller's stop came first; ``steps`` may hold the best found so far."""
    FAILED = "failed"
    """The solver gave up; ``detail`` has its own words."""


@dataclass(frozen=True)
class Incumbent:
    """A better solution, while the solver goes on."""

    steps: ChosenActions


@dataclass(frozen=True)
class IpOutcome:
    """The end of one program."""

    status: IpStatus
    steps: ChosenActions | None = None
    variables: int = 0
    constraints: int = 0
    memory_mb: float = 0.0
    """The most the solving process has ever held."""
    detail: str = ""

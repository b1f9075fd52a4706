"""What a simulated run was and how it ended; the same for every scenario."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunResult:
    """One seed's run. ``violations`` is empty exactly if everything held."""

    scenario: str
    seed: int
    violations: tuple[str, ...]
    setting: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    measures: dict[str, float] = field(default_factory=dict)
    """What was measured rather than counted; units last in the names."""
    marks: dict[str, int] = field(default_factory=dict)
    """How often each rare branch was reached (`sim.kernel.marks`); those that were not are left
    out."""
    virtual_s: float = 0.0
    trace_digest: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

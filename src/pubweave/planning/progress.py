"""What a planner tells while it works. Nothing here prints: whoever asked decides what to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pubweave.model.plans import Bounds, Plan


@dataclass(frozen=True)
class Progress:
    """A line for the reader, and the best plan and bounds so far where they changed."""

    message: str
    plan: Plan | None = None
    bounds: Bounds | None = None


OnProgress = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """For callers that only want the result."""

"""When a planner should end with the best it has.

Planners ask often and cheaply; who answers (a time limit, Ctrl-C, a test) is the caller's affair.
"""

from __future__ import annotations

from typing import Protocol


class Stop(Protocol):
    """Answers True from the moment on at which the planner should return."""

    def __call__(self) -> bool: ...


def never() -> bool:
    """A stop that never comes: for small problems and tests."""
    return False

"""The states of a protocol as data: which event leads from which state to which other.

The core changes such a state by `StateTable.after` alone, so a transition that is not in a table
cannot happen. The diagrams of `docs/internals/states.md` are drawn from the tables.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

StateT = TypeVar("StateT", bound=enum.Enum)


class TransitionError(Exception):
    """An event came in a state in which it cannot come: a defect of this program."""


@dataclass(frozen=True)
class StateTable(Generic[StateT]):
    """The transitions that one kind of state machine has."""

    name: str
    first: StateT
    transitions: tuple[tuple[StateT, str, StateT], ...]
    """The state before, the event in a few words, the state after."""

    @cached_property
    def _after(self) -> dict[tuple[StateT, str], StateT]:
        return {(before, event): after for before, event, after in self.transitions}

    def after(self, before: StateT, event: str) -> StateT:
        """Where an event leads. O(1)."""
        found = self._after.get((before, event))
        if found is None:
            raise TransitionError(f"{self.name}: no {event!r} while {before.value!r}")
        return found

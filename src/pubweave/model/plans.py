"""Actions, steps and plans: the way from a source topology to a target topology.

An action is one atomic change of the overlay; the actions of a step run at once; a plan is an
ordered tuple of steps. What makes a plan valid is not known here: `planning.check.validate` judges
it; how much is proven about one is said in the words of `PlanStatus` and `Bounds`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import msgspec

from pubweave.model.ids import BrokerId, Link


class _Named:
    """An action, whose fields are the brokers that take part."""

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        return tuple(vars(self).values())

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()}({', '.join(self.brokers)})"


@dataclass(frozen=True, order=True)
class Shift(_Named):
    """IPITT's shift(i, j, k): link (i, j) becomes (i, k) while (j, k) stays.

    >>> str(Shift("b4", "b2", "b1"))
    'shift(b4, b2, b1)'
    >>> Shift("b4", "b2", "b1").added_link
    Link(a='b1', b='b4')
    """

    mover: BrokerId
    old_peer: BrokerId
    new_peer: BrokerId

    @property
    def removed_link(self) -> Link:
        return Link.between(self.mover, self.old_peer)

    @property
    def pivot_link(self) -> Link:
        return Link.between(self.old_peer, self.new_peer)

    @property
    def added_link(self) -> Link:
        return Link.between(self.mover, self.new_peer)


@dataclass(frozen=True, order=True)
class Move(_Named):
    """A composite change: a link is replaced by another in one action, wherever they lie.

    The brokers on the cycle that both links close take part (IPITT section V)."""

    old_a: BrokerId
    old_b: BrokerId
    new_a: BrokerId
    new_b: BrokerId

    @property
    def removed_link(self) -> Link:
        return Link.between(self.old_a, self.old_b)

    @property
    def added_link(self) -> Link:
        return Link.between(self.new_a, self.new_b)


@dataclass(frozen=True, order=True)
class Append(_Named):
    """A new broker joins the overlay as a leaf at ``neighbor``."""

    broker: BrokerId
    neighbor: BrokerId


@dataclass(frozen=True, order=True)
class Detach(_Named):
    """A leaf broker leaves the overlay and its only ``neighbor``."""

    broker: BrokerId
    neighbor: BrokerId


Action = Shift | Move | Append | Detach
Step = tuple[Action, ...]


@dataclass(frozen=True)
class Plan:
    """Steps in order. A plan without steps changes nothing."""

    steps: tuple[Step, ...] = ()

    @property
    def step_count(self) -> int:
        return len(self.steps)

    @property
    def action_count(self) -> int:
        return sum(len(step) for step in self.steps)

    def actions(self) -> Iterator[Action]:
        for step in self.steps:
            yield from step

    def __str__(self) -> str:
        return "\n".join(
            f"{number}: " + ", ".join(str(action) for action in step)
            for number, step in enumerate(self.steps, 1)
        )


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

    steps: Annotated[int, msgspec.Meta(ge=0)]
    actions: Annotated[int, msgspec.Meta(ge=0)]

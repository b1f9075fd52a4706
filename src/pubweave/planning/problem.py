"""What a planner is asked: from where to where, under which rules.

Rules of a step, as IPITT's program has them: every precondition holds in the state before the
step; a link is deleted by at most one action of a step; a deleted link is nobody's pivot in that
step; a link added in a step is usable from the next; no link is added twice. A link that is in
the target is never removed once it is present (it is frozen); a link in neither topology may
come and go. Two actions of a step may share a broker unless ``disjoint_brokers``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pubweave.model.ids import Link
from pubweave.model.plans import Action
from pubweave.model.topology import Topology


class PlanningError(ValueError):
    """A problem that is wrong as stated, with the reason in words for its author."""


@dataclass(frozen=True)
class PlanningProblem:
    """Source and target trees, and what a plan between them must respect."""

    source: Topology
    target: Topology
    disjoint_brokers: bool = False
    """Actions of a step share no broker (the reading of IPITT's evaluation)."""
    max_degree: int | None = None
    """No broker may have more links than this after any step (IPITT section V)."""
    pinned: frozenset[Link] = frozenset()
    """Links that must stay throughout."""
    forbidden: frozenset[Link] = frozenset()
    """Links that must never come to be."""
    allow_move: bool = False
    action_cost: Mapping[Action, float] | None = field(default=None, compare=False)
    """Cost of single actions; those not named cost 1. None: every action costs 1."""

    @property
    def goal_links(self) -> frozenset[Link]:
        """In the target and not yet present."""
        return self.target.links - self.source.links

    @property
    def removable_links(self) -> frozenset[Link]:
        """Present and not in the target."""
        return self.source.links - self.target.links

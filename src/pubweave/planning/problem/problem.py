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
from pubweave.model.topology import Topology, TopologyError, validate_tree


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


def validate_problem(problem: PlanningProblem) -> None:
    """Raise PlanningError, saying what to change, where the problem contradicts itself.

    What is impossible for a deeper reason is for the planners to prove, not for this check."""
    for name, topology in (("source", problem.source), ("target", problem.target)):
        try:
            validate_tree(topology)
        except TopologyError as error:
            raise PlanningError(f"the {name} topology: {error}") from error
    if not problem.source.brokers & problem.target.brokers:
        raise PlanningError(
            "source and target have no broker in common: nothing can stay connected"
        )
    _validate_links(problem)
    _validate_degrees(problem)


def _validate_links(problem: PlanningProblem) -> None:
    known = problem.source.brokers | problem.target.brokers
    for word, links in (("pinned", problem.pinned), ("forbidden", problem.forbidden)):
        for link in sorted(links):
            for end in link:
                if end not in known:
                    raise PlanningError(f"{word} link {link} names the unknown broker {end!r}")
    for link in sorted(problem.pinned):
        for name, topology in (("source", problem.source), ("target", problem.target)):
            if link not in topology.links:
                raise PlanningError(
                    f"pinned link {link} is not in the {name} topology: it cannot stay throughout"
                )
    for link in sorted(problem.forbidden & problem.target.links):
        raise PlanningError(f"forbidden link {link} is in the target topology")


def _validate_degrees(problem: PlanningProblem) -> None:
    limit = problem.max_degree
    if limit is None:
        return
    if limit < 1:
        raise PlanningError(f"a degree limit of {limit} leaves no links: use 1 or more")
    for broker in sorted(problem.target.brokers):
        if problem.target.degree(broker) > limit:
            raise PlanningError(
                f"broker {broker!r} has {problem.target.degree(broker)} links in the target, more "
                f"than the degree limit of {limit}"
            )

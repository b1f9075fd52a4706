"""A planning problem with brokers as numbers, and what is wrong with a problem as stated.

Every planner of ours reads this form; names come back only in the plan. Numbers follow the
natural order of the ids, so the same problem gives the same arrays everywhere.

Words: a token is one removable link on its way. Each shift deletes one link that is not in the
target and adds one, so the links outside the target, followed through the shifts, are as many
tokens as there are removable links, and the plan is done when each lies on a goal link.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap

import numpy as np
import numpy.typing as npt

from pubweave.model.ids import BrokerId, Link, natural_order
from pubweave.model.plans import Plan, Shift
from pubweave.model.topology import validate_tree
from pubweave.planning.problem.problem import PlanningError, PlanningProblem

Pairs = npt.NDArray[np.int64]
NumberedShift = tuple[int, int, int]
NumberedSteps = list[list[NumberedShift]]


@dataclass(frozen=True)
class IndexedProblem:
    """Source and target as arrays of number pairs, each pair and each array in order."""

    problem: PlanningProblem
    brokers: tuple[BrokerId, ...]
    kept: Pairs
    """Links of both topologies: present throughout."""
    tokens: Pairs
    """Removable links of the source."""
    goals: Pairs
    forbidden: Pairs

    @property
    def broker_count(self) -> int:
        return len(self.brokers)

    @property
    def token_count(self) -> int:
        return len(self.tokens)

    @cached_property
    def number(self) -> dict[BrokerId, int]:
        return {broker: number for number, broker in enumerate(self.brokers)}

    @cached_property
    def parts(self) -> npt.NDArray[np.int64]:
        """For each broker the number of its part of the forest of kept links."""
        leader = list(range(self.broker_count))

        def find(broker: int) -> int:
            while leader[broker] != broker:
                leader[broker] = leader[leader[broker]]
                broker = leader[broker]
            return broker

        for a, b in self.kept.tolist():
            leader[find(a)] = find(b)
        leaders = [find(broker) for broker in range(self.broker_count)]
        number = {leader: part for part, leader in enumerate(dict.fromkeys(leaders))}
        return np.array([number[leader] for leader in leaders], dtype=np.int64)

    def plan(self, steps: Iterable[Iterable[NumberedShift]]) -> Plan:
        """Numbered shifts as a plan; steps without shifts are left out."""
        names = self.brokers
        # Names are sorted as plain tuples: shifts would compare in Python, field by field.
        named = (
            tuple(starmap(Shift, sorted([(names[i], names[j], names[k]) for i, j, k in step])))
            for step in steps
        )
        return Plan(tuple(step for step in named if step))

    def steps(self, plan: Plan) -> NumberedSteps:
        """A plan of shifts in numbers."""
        numbered: NumberedSteps = []
        for step in plan.steps:
            shifts = [action for action in step if isinstance(action, Shift)]
            numbered.append([_triple(self.number, shift) for shift in shifts])
        return numbered


def indexed(problem: PlanningProblem) -> IndexedProblem:
    """The problem in numbers, after `validate_problem`."""
    validate_problem(problem)
    brokers = tuple(sorted(problem.source.brokers, key=natural_order))
    number = {broker: index for index, broker in enumerate(brokers)}
    return IndexedProblem(
        problem,
        brokers,
        _pairs(number, problem.source.links & problem.target.links),
        _pairs(number, problem.removable_links),
        _pairs(number, problem.goal_links),
        _pairs(number, problem.forbidden),
    )


def validate_problem(problem: PlanningProblem) -> None:
    """Raise PlanningError where no planner of one broker set could make sense of the problem."""
    for name, topology in (("source", problem.source), ("target", problem.target)):
        try:
            validate_tree(topology)
        except ValueError as error:
            raise PlanningError(f"{name} topology: {error}") from error
    lonely = sorted(problem.source.brokers ^ problem.target.brokers, key=natural_order)
    if lonely:
        where = "source" if lonely[0] in problem.source.brokers else "target"
        raise PlanningError(
            f"broker {lonely[0]!r} is only in the {where} topology ({len(lonely)} such): "
            "append or detach it"
        )
    _validate_links(problem)
    _validate_degrees(problem)


def _validate_links(problem: PlanningProblem) -> None:
    for links, what in ((problem.pinned, "pinned"), (problem.forbidden, "forbidden")):
        for link in sorted(links):
            strangers = [end for end in link if end not in problem.source.brokers]
            if strangers:
                raise PlanningError(f"{what} link {link} names the unknown broker {strangers[0]!r}")
    for link in sorted(problem.pinned):
        if link in problem.forbidden:
            raise PlanningError(f"link {link} is pinned and forbidden: choose one")
        if link not in problem.source.links:
            raise PlanningError(f"pinned link {link} is not in the source topology")
        if link not in problem.target.links:
            raise PlanningError(f"pinned link {link} is not in the target topology: unpin it")
    for link in sorted(problem.forbidden):
        if link in problem.source.links:
            raise PlanningError(f"forbidden link {link} is in the source topology")
        if link in problem.target.links:
            raise PlanningError(f"forbidden link {link} is in the target topology")


def _validate_degrees(problem: PlanningProblem) -> None:
    limit = problem.max_degree
    if limit is None:
        return
    # The source may lie above the limit: it holds after each step.
    topology = problem.target
    broker = max(topology.neighbors, key=topology.degree)
    if topology.degree(broker) > limit:
        raise PlanningError(
            f"the degree limit {limit} cannot hold: broker {broker!r} has "
            f"{topology.degree(broker)} links in the target topology"
        )


def _pairs(number: dict[BrokerId, int], links: Iterable[Link]) -> Pairs:
    ordered = sorted(tuple(sorted((number[a], number[b]))) for a, b in links)
    return np.array(ordered, dtype=np.int64).reshape(-1, 2)


def _triple(number: dict[BrokerId, int], shift: Shift) -> NumberedShift:
    return number[shift.mover], number[shift.old_peer], number[shift.new_peer]

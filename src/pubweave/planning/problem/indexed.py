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
from pubweave.planning.problem.problem import PlanningError, PlanningProblem, validate_problem

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
    """The problem in numbers, after `validate_problem`; both topologies have the same brokers."""
    validate_problem(problem)
    lonely = sorted(problem.source.brokers ^ problem.target.brokers, key=natural_order)
    if lonely:
        where = "source" if lonely[0] in problem.source.brokers else "target"
        raise PlanningError(
            f"broker {lonely[0]!r} is only in the {where} topology ({len(lonely)} such): "
            "append or detach it"
        )
    for link in sorted(problem.forbidden & problem.source.links):
        raise PlanningError(f"forbidden link {link} is in the source topology")
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


def link_keys(links: Pairs, count: int) -> npt.NDArray[np.int64]:
    """One number for each link, of which the lower end comes first."""
    keys: npt.NDArray[np.int64] = links[..., 0] * count + links[..., 1]
    return keys


def walks(tokens: Pairs, plan: NumberedSteps) -> npt.NDArray[np.int64]:
    """Each token's link at each instant of a plan that starts with these."""
    links = [(a, b) if a < b else (b, a) for a, b in tokens.tolist()]
    token = {link: m for m, link in enumerate(links)}
    found = np.empty((len(plan) + 1, len(links), 2), dtype=np.int64)
    found[0] = np.array(links, dtype=np.int64).reshape(-1, 2)
    for t, step in enumerate(plan, 1):
        # No link is added in a step that is there before it, so the order does not matter.
        for i, j, k in step:
            m = token.pop((i, j) if i < j else (j, i))
            link = (i, k) if i < k else (k, i)
            token[link] = m
            links[m] = link
        found[t] = links
    return found


def _pairs(number: dict[BrokerId, int], links: Iterable[Link]) -> Pairs:
    ordered = sorted(tuple(sorted((number[a], number[b]))) for a, b in links)
    return np.array(ordered, dtype=np.int64).reshape(-1, 2)


def _triple(number: dict[BrokerId, int], shift: Shift) -> NumberedShift:
    return number[shift.mover], number[shift.old_peer], number[shift.new_peer]

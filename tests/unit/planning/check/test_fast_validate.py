"""The array judge accepts exactly the plans of shifts that the slow judge accepts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.topologies.trees import change_links, random_tree
from pubweave.model.ids import Link
from pubweave.model.plans import Detach, Plan, Shift
from pubweave.model.topology import Topology
from pubweave.planning.check.fast_validate import accepts
from pubweave.planning.check.validate import InvalidPlanError, validate_plan
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.problem.indexed import indexed
from pubweave.planning.problem.problem import PlanningProblem
from tests.naive.planning_instances import small_problem

CHAIN = Topology.from_links([("a", "b"), ("b", "c"), ("c", "d")])
SHORTER = Topology.from_links([("a", "c"), ("b", "c"), ("c", "d")])


def slow_accepts(problem: PlanningProblem, plan: Plan) -> bool:
    try:
        validate_plan(problem, plan)
    except InvalidPlanError:
        return False
    return True


def planned(problem: PlanningProblem) -> Plan | None:
    numbered = indexed(problem)
    steps = Greedy(numbered, np.random.default_rng(1)).first()
    return None if steps is None else numbered.plan(steps)


def broken(plan: Plan, rng: np.random.Generator) -> Iterator[Plan]:
    """Plans a little different from a valid one; some are valid too."""
    steps = list(plan.steps)
    if not steps:
        return
    place = int(rng.integers(len(steps)))
    step = steps[place]
    yield Plan(tuple(steps[:place] + steps[place + 1 :]))
    yield Plan((*steps[:place], (), *steps[place:]))
    yield Plan((*steps[:place], step + step[:1], *steps[place + 1 :]))
    yield Plan((*steps[:place], step[1:], *steps[place + 1 :]))
    yield Plan(tuple(reversed(steps)))
    if place + 1 < len(steps):
        merged = (*step, *steps[place + 1])
        yield Plan((*steps[:place], merged, *steps[place + 2 :]))
    names = sorted({broker for action in plan.actions() for broker in action.brokers})
    for _ in range(4):
        one, two, three = (names[int(rng.integers(len(names)))] for _ in range(3))
        yield Plan((*steps[:place], (*step, Shift(one, two, three)), *steps[place + 1 :]))


def test_both_judges_agree_on_plans_and_broken_plans_under_every_option() -> None:
    verdicts = {True: 0, False: 0}
    rng = np.random.default_rng(4)
    for number in range(250):
        problem = small_problem(number, brokers_max=9)
        plan = planned(problem)
        if plan is None:
            continue
        for candidate in (plan, *broken(plan, rng)):
            verdict = slow_accepts(problem, candidate)
            assert accepts(problem, candidate) == verdict, (number, candidate)
            verdicts[verdict] += 1
        # The same plan under options that it was not made for.
        for stricter in (
            replace(problem, disjoint_brokers=True),
            replace(problem, max_degree=3),
            replace(problem, pinned=frozenset(sorted(problem.source.links)[:1])),
            replace(problem, forbidden=frozenset({plan_link(plan)})),
        ):
            verdict = slow_accepts(stricter, plan)
            assert accepts(stricter, plan) == verdict, (number, stricter)
            verdicts[verdict] += 1
    assert min(verdicts.values()) > 300


def plan_link(plan: Plan) -> Link:
    """A link that the plan adds, or one that is nowhere."""
    added = [a.added_link for a in plan.actions() if isinstance(a, Shift)]
    return added[0] if added else Link("x", "y")


def test_an_unknown_broker_or_another_action_is_left_to_the_slow_judge() -> None:
    problem = PlanningProblem(CHAIN, SHORTER)
    assert accepts(problem, Plan(((Shift("a", "b", "c"),),)))
    assert not accepts(problem, Plan(((Shift("a", "b", "z"),),)))
    assert not accepts(problem, Plan(((Shift("a", "b", "c"), Detach("d", "c")),)))
    without = Topology.from_links([("a", "c"), ("b", "c")])
    assert not accepts(PlanningProblem(CHAIN, without), Plan(((Shift("a", "b", "c"),),)))


def test_a_large_wrong_plan_is_refused_with_the_reason() -> None:
    rng = np.random.default_rng(3)
    source = random_tree(600, rng)
    problem = PlanningProblem(source, change_links(source, 0.1, rng))
    plan = planned(problem)
    assert plan is not None
    validate_plan(problem, plan)
    with pytest.raises(InvalidPlanError, match="does not end in the target"):
        validate_plan(problem, Plan(plan.steps[:-1]))

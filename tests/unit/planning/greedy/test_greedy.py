"""The greedy: always a valid plan, no livelock, the same for the same seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.topologies.trees import (
    chain,
    change_links,
    hierarchical_tree,
    ipitt_topologies,
    random_tree,
    star,
)
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.greedy.greedy import Greedy, Tracks
from pubweave.planning.problem.indexed import NumberedSteps, indexed
from pubweave.planning.problem.problem import PlanningProblem, Stop
from tests.naive.planning_instances import small_problem


def after(calls: int) -> Stop:
    """A stop that comes after so many questions."""
    left = iter(range(calls))
    return lambda: next(left, None) is None


def first(problem: PlanningProblem) -> NumberedSteps | None:
    return Greedy(indexed(problem), np.random.default_rng(0)).first()


@pytest.mark.parametrize("number", range(100))
def test_plain_problems_always_get_a_valid_plan(number: int) -> None:
    problem = replace(
        small_problem(number, 12), max_degree=None, forbidden=frozenset(), disjoint_brokers=False
    )
    steps = first(problem)
    assert steps is not None
    validate_plan(problem, indexed(problem).plan(steps))


@pytest.mark.parametrize("number", range(100))
def test_a_plan_under_options_is_valid_or_absent(number: int) -> None:
    problem = small_problem(number, 12)
    steps = first(problem)
    if steps is not None:
        validate_plan(problem, indexed(problem).plan(steps))


@pytest.mark.parametrize("brokers", [10, 40, 150])
def test_a_whole_other_tree_ends(brokers: int) -> None:
    """Every link changes: the case in which opposite slides over one link would go on for ever."""
    rng = np.random.default_rng(brokers)
    for source, target in (
        (random_tree(brokers, rng), random_tree(brokers, rng)),
        (chain(brokers), star(brokers)),
        (star(brokers), chain(brokers)),
    ):
        problem = PlanningProblem(source, target)
        steps = first(problem)
        assert steps is not None
        validate_plan(problem, indexed(problem).plan(steps))


@pytest.mark.parametrize("disjoint", [False, True])
def test_improving_never_worsens_and_stays_valid(disjoint: bool) -> None:
    source = ipitt_topologies(60, 2)["degree5-unbalanced-1"]
    target = change_links(source, 0.2, np.random.default_rng(2))
    problem = PlanningProblem(source, target, disjoint_brokers=disjoint)
    numbered = indexed(problem)
    greedy = Greedy(numbered, np.random.default_rng(1))
    best = greedy.first()
    assert best is not None
    sizes = [(len(best), sum(map(len, best)))]
    for steps in greedy.improve(best, after(300)):
        validate_plan(problem, numbered.plan(steps))
        sizes.append((len(steps), sum(map(len, steps))))
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(sizes) > 1


def test_the_same_seed_gives_the_same_plans() -> None:
    source = hierarchical_tree(80, 6, True, np.random.default_rng(4))
    problem = PlanningProblem(source, change_links(source, 0.3, np.random.default_rng(5)))

    def plans() -> list[NumberedSteps]:
        greedy = Greedy(indexed(problem), np.random.default_rng(9))
        best = greedy.first()
        assert best is not None
        return [best, *greedy.improve(best, after(200))]

    assert plans() == plans()


def test_nothing_to_change_ends_at_once() -> None:
    source = ipitt_topologies(20, 1)["degree5-balanced-1"]
    greedy = Greedy(indexed(PlanningProblem(source, source)), np.random.default_rng(1))
    assert greedy.first() == []
    assert list(greedy.improve([], after(10**9))) == []


@pytest.mark.parametrize("backwards", [False, True])
def test_a_restart_on_either_way_gives_a_valid_plan(backwards: bool) -> None:
    source = ipitt_topologies(60, 3)["degree5-balanced-1"]
    problem = PlanningProblem(source, change_links(source, 0.2, np.random.default_rng(3)))
    numbered = indexed(problem)
    greedy = Greedy(numbered, np.random.default_rng(1))
    first = greedy.first()
    assert first is not None
    course = Tracks.of(numbered, first)
    tries = [greedy._restarted(course, greedy._ways[int(backwards)]) for _ in range(100)]
    found = [steps for steps in tries if steps is not None]
    assert len({str(steps) for steps in found}) > 1
    for steps in found:
        validate_plan(problem, numbered.plan(steps))

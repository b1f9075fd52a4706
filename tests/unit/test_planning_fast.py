"""The fast search: valid plans only, the same for the same seed, and it does stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.mutation import change_links
from pubweave.generate.trees import ipitt_topologies
from pubweave.planning.fast import FastSearch
from pubweave.planning.greedy import Greedy
from pubweave.planning.indexed import NumberedSteps, indexed
from pubweave.planning.problem import PlanningProblem
from pubweave.planning.validate import validate_plan


def problem_of(brokers: int) -> PlanningProblem:
    source = ipitt_topologies(brokers, 3)["degree5-balanced-1"]
    return PlanningProblem(source, change_links(source, 0.2, np.random.default_rng(3)))


def plans(problem: PlanningProblem, questions: int) -> list[NumberedSteps]:
    numbered = indexed(problem)
    rng = np.random.default_rng(1)
    greedy = Greedy(numbered, rng)
    first = greedy.first()
    assert first is not None
    left = iter(range(questions))
    search = FastSearch(numbered, greedy, rng)
    return [first, *search.run(first, lambda: next(left, None) is None)]


@pytest.mark.parametrize("disjoint", [False, True])
def test_every_plan_is_valid_and_steps_never_rise(disjoint: bool) -> None:
    problem = replace(problem_of(150), disjoint_brokers=disjoint)
    found = plans(problem, 1500)
    for plan in found:
        validate_plan(problem, indexed(problem).plan(plan))
    steps = [len(plan) for plan in found]
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] < steps[0]


def test_the_same_seed_gives_the_same_plans() -> None:
    assert plans(problem_of(80), 1300) == plans(problem_of(80), 1300)


def test_nothing_to_change_ends_at_once() -> None:
    source = ipitt_topologies(20, 1)["degree5-balanced-1"]
    assert plans(PlanningProblem(source, source), 10**9) == [[]]

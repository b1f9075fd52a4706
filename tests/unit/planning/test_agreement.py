"""Brute force, our planner and the paper's own program say the same of the same problem."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pubweave.model.plans import PlanStatus
from pubweave.planning.problem.problem import PlanningProblem, PlanResult, Stop, never
from pubweave.planning.solver import solve_problem
from tests.naive.planning import fewest
from tests.naive.planning_instances import small_problem, tight_problem

LIMIT_S = 120.0
IMPOSSIBLE = (5, 116, 132, 142, 145, 146, 167, 172, 222, 233, 247, 291)
IMPOSSIBLE += (296, 306, 326, 341, 361, 387, 431, 446, 467, 472, 491, 497)
"""Of the 500 problems with up to 7 brokers those without a plan."""


def within(seconds: float) -> Stop:
    until = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= until


def planned(problem: PlanningProblem, method: str, stop: Stop = never) -> PlanResult:
    return solve_problem(problem, method=method, stop=stop, clock=time.perf_counter)


def check_paper_agrees(problem: PlanningProblem) -> None:
    truth = fewest(problem)
    result = planned(problem, "ip-naive", within(LIMIT_S))
    if truth is None:
        assert result.plan is None
        return
    assert result.bounds.steps <= truth[0]
    if result.status is PlanStatus.OPTIMAL:
        assert result.plan is not None
        assert (result.plan.step_count, result.plan.action_count) == truth


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 7, 12, 22])
def test_the_papers_naive_program_equals_brute_force(number: int) -> None:
    problem = small_problem(number, brokers_max=5)
    check_paper_agrees(problem)
    result = planned(problem, "ip-naive")
    assert (result.status is PlanStatus.OPTIMAL) == (fewest(problem) is not None)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(500))
def test_the_papers_naive_program_equals_brute_force_on_500_problems(number: int) -> None:
    check_paper_agrees(small_problem(number))


def check_is_proven_impossible(problem: PlanningProblem, method: str) -> None:
    result = planned(problem, method, within(LIMIT_S))
    assert result.status is PlanStatus.INFEASIBLE
    assert result.plan is None
    (why,) = result.notes
    assert "the source" in why or "the target" in why


@pytest.mark.parametrize("number", IMPOSSIBLE[:4])
@pytest.mark.parametrize("method", ["auto", "fast"])
def test_an_impossible_problem_is_proven_so(number: int, method: str) -> None:
    check_is_proven_impossible(small_problem(number), method)


@pytest.mark.slow
@pytest.mark.parametrize("number", IMPOSSIBLE)
@pytest.mark.parametrize("method", ["auto", "exact", "fast"])
def test_each_impossible_problem_of_500_is_proven_so(number: int, method: str) -> None:
    problem = small_problem(number)
    assert fewest(problem) is None
    check_is_proven_impossible(problem, method)


def check_bounds_hold(problem: PlanningProblem, stop: Stop) -> None:
    truth = fewest(problem, most_steps=100)
    result = planned(problem, "auto", stop)
    if truth is None:
        assert result.plan is None
        return
    assert result.status is not PlanStatus.INFEASIBLE
    assert result.bounds.steps <= truth[0]
    assert result.bounds.actions <= truth[1]
    if result.plan is not None:
        assert result.plan.step_count >= truth[0]


@pytest.mark.parametrize("number", [0, 9, 20])
@pytest.mark.parametrize("questions", [0, 1, 5])
def test_bounds_hold_wherever_the_planner_is_stopped(number: int, questions: int) -> None:
    left = iter(range(questions))
    check_bounds_hold(small_problem(number), lambda: next(left, None) is None)


@pytest.mark.parametrize("number", [2, 6, 11, 17])
def test_problems_with_little_room_end_with_the_truth(number: int) -> None:
    problem = tight_problem(number)
    truth = fewest(problem, most_steps=100)
    result = planned(problem, "auto", within(LIMIT_S))
    if truth is None:
        assert result.status is PlanStatus.INFEASIBLE
    else:
        assert result.status is PlanStatus.OPTIMAL
        assert (result.bounds.steps, result.bounds.actions) == truth


@pytest.mark.slow
@pytest.mark.parametrize("number", range(100))
def test_100_problems_with_little_room_end_with_the_truth(number: int) -> None:
    problem = tight_problem(number)
    test_problems_with_little_room_end_with_the_truth(number)
    check_bounds_hold(replace(problem, disjoint_brokers=True), within(0.3))

"""The paper's methods on problems as users state them."""

from __future__ import annotations

import time

import pytest

from pubweave.model.plans import Append, Detach, Plan
from pubweave.model.topology import Topology
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.problem.problem import (
    PlanningError,
    PlanningProblem,
    PlanningProgress,
    PlanResult,
    never,
)
from pubweave.planning.solver import PAPER_METHODS, solve_problem


def tree(text: str) -> Topology:
    return Topology.from_links([(pair[0], pair[1]) for pair in text.split()])


def solved(problem: PlanningProblem, method: str, **more: object) -> PlanResult:
    return solve_problem(problem, method=method, stop=never, clock=time.perf_counter, **more)  # type: ignore[arg-type]


COMING_AND_GOING = PlanningProblem(tree("12 23 34"), tree("13 34 45"))


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_every_method_appends_first_and_detaches_last(method: str) -> None:
    told: list[PlanningProgress] = []
    result = solved(COMING_AND_GOING, method, on_progress=told.append)
    assert result.method == method
    assert result.plan is not None
    assert result.plan.steps[0] == (Append("5", "4"),)
    assert result.plan.steps[-1] == (Detach("2", "1"),)
    plans = [progress.plan for progress in told if progress.plan is not None]
    assert plans
    for plan in plans:
        validate_plan(COMING_AND_GOING, plan)


def test_a_contradiction_is_refused_before_any_planning() -> None:
    with pytest.raises(PlanningError, match="not a tree"):
        solved(PlanningProblem(tree("12 34"), tree("12 23 34")), "bfs")


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(PlanningError, match="no method 'magic': use one of auto"):
        solved(COMING_AND_GOING, "magic")


def test_nothing_to_do_is_the_empty_plan() -> None:
    same = PlanningProblem(tree("12 23"), tree("12 23"))
    assert {solved(same, method).plan for method in PAPER_METHODS} == {Plan()}

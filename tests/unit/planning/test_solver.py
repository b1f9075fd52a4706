"""The entry point: statuses, stops, refusals, and nothing unjudged leaves it."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.topologies.trees import change_links, ipitt_topologies
from pubweave.model.ids import Link
from pubweave.model.plans import Move, Plan, PlanStatus, Shift
from pubweave.model.topology import Topology
from pubweave.planning import solver as solve_module
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.problem.problem import (
    PlanningError,
    PlanningProblem,
    PlanningProgress,
    PlanResult,
    never,
)
from pubweave.planning.solver import solve_problem
from tests.naive.planning import fewest
from tests.naive.planning_instances import small_problem


def paper_problem(brokers: int, seed: int = 1) -> PlanningProblem:
    source = ipitt_topologies(brokers, seed)["degree6-balanced-1"]
    return PlanningProblem(source, change_links(source, 0.2, np.random.default_rng(seed)))


def solved(problem: PlanningProblem, method: str = "auto") -> PlanResult:
    return solve_problem(problem, method=method, stop=never, clock=time.perf_counter)


@pytest.mark.parametrize("number", [0, 1, 6, 12])
def test_a_small_problem_is_optimal_as_brute_force_says(number: int) -> None:
    problem = small_problem(number, 6)
    result = solved(problem)
    assert result.status is PlanStatus.OPTIMAL
    assert result.plan is not None
    found = (result.plan.step_count, result.plan.action_count)
    assert found == fewest(problem) == (result.bounds.steps, result.bounds.actions)


def test_a_stop_at_once_still_gives_a_valid_plan() -> None:
    problem = paper_problem(60)
    for method in ("auto", "exact", "fast"):
        result = solve_problem(problem, method=method, stop=lambda: True, clock=time.perf_counter)
        assert result.status in (PlanStatus.FEASIBLE, PlanStatus.STEPS_OPTIMAL)
        assert result.plan is not None
        validate_plan(problem, result.plan)


def test_progress_shows_better_and_better_plans_and_bounds() -> None:
    told: list[PlanningProgress] = []
    problem = paper_problem(30)
    result = solve_problem(problem, stop=never, clock=time.perf_counter, on_progress=told.append)
    plans = [progress.plan for progress in told if progress.plan is not None]
    assert plans[-1] == result.plan
    ranks = [(plan.step_count, plan.action_count) for plan in plans]
    assert ranks == sorted(ranks, reverse=True)
    bounds = [progress.bounds.steps for progress in told if progress.bounds is not None]
    assert bounds == sorted(bounds)


def test_an_invalid_plan_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    class Liar:
        def __init__(self, *_: object) -> None: ...

        def first(self) -> list[list[tuple[int, int, int]]]:
            return [[(0, 1, 2)]]

    monkeypatch.setattr(solve_module, "Greedy", Liar)
    with pytest.raises(RuntimeError, match="invalid plan"):
        solved(paper_problem(20), "fast")


def test_a_proven_impossibility_is_said() -> None:
    source = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
    target = Topology.from_links([("b1", "b4"), ("b2", "b3"), ("b3", "b4")])
    problem = PlanningProblem(source, target, forbidden=frozenset({Link("b1", "b3")}))
    for method in ("exact", "fast"):
        result = solved(problem, method)
        assert result.status is PlanStatus.INFEASIBLE
        assert result.plan is None
        assert result.notes


def test_what_a_method_does_not_know_is_refused() -> None:
    problem = paper_problem(20)
    with pytest.raises(PlanningError, match="no method 'best'"):
        solved(problem, "best")
    with pytest.raises(PlanningError, match="knows no moves"):
        solved(replace(problem, allow_move=True), "exact")
    with pytest.raises(PlanningError, match="no action costs"):
        solved(replace(problem, action_cost={}), "fast")
    with pytest.raises(PlanningError, match="no action costs"):
        solved(replace(problem, action_cost={}, allow_move=True), "auto")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pinned": frozenset({Link("b1", "b2")})}, "pinned link b1-b2 is not in the target"),
        ({"pinned": frozenset({Link("b1", "b4")})}, "pinned link b1-b4 is not in the source"),
        ({"forbidden": frozenset({Link("b1", "b3")})}, "forbidden link b1-b3 is in the target"),
        ({"forbidden": frozenset({Link("b1", "b9")})}, "unknown broker 'b9'"),
        (
            {"max_degree": 2},
            "broker 'b3' has 3 links in the target",
        ),
    ],
)
def test_a_contradictory_problem_is_refused(change: dict[str, object], message: str) -> None:
    source = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
    target = Topology.from_links([("b1", "b3"), ("b2", "b3"), ("b3", "b4")])
    problem = PlanningProblem(source, target)
    with pytest.raises(PlanningError, match=message):
        solved(replace(problem, **change))  # type: ignore[arg-type]


def test_a_source_that_is_no_tree_is_refused() -> None:
    tree = Topology.from_links([("b1", "b2")])
    lonely = Topology.from_links([], brokers=["b1", "b2"])
    with pytest.raises(PlanningError, match="not a tree"):
        solved(PlanningProblem(lonely, tree))


def test_moves_make_every_goal_link_at_once() -> None:
    problem = replace(paper_problem(60), allow_move=True)
    result = solved(problem)
    assert result.plan is not None
    assert result.plan.action_count == len(problem.goal_links) == result.bounds.actions
    assert all(isinstance(action, Move) for action in result.plan.actions())
    assert result.plan.step_count <= 6


def test_action_costs_change_the_plan() -> None:
    problem = small_problem(6, 6)
    plain = solved(problem)
    assert plain.plan is not None
    dear = {action: 50.0 for action in plain.plan.actions() if isinstance(action, Shift)}
    result = solved(replace(problem, action_cost=dear))
    assert result.status is PlanStatus.OPTIMAL
    assert (result.bounds.steps, result.bounds.actions) == fewest(
        replace(problem, action_cost=dear)
    )


def test_brokers_of_one_topology_only_are_appended_and_detached() -> None:
    source = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
    target = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b5")])
    problem = PlanningProblem(source, target)
    result = solved(problem)
    assert result.plan is not None
    validate_plan(problem, result.plan)


def test_nothing_to_do_is_an_empty_optimal_plan() -> None:
    tree = Topology.from_links([("b1", "b2"), ("b2", "b3")])
    for method in ("auto", "fast"):
        result = solved(PlanningProblem(tree, tree), method)
        assert result.plan == Plan()
        assert result.status is PlanStatus.OPTIMAL


@pytest.mark.parametrize("method", ["auto", "exact", "fast"])
def test_a_source_above_the_degree_limit_comes_down_in_the_first_step(method: str) -> None:
    source = Topology.from_links([("b1", f"b{number}") for number in range(2, 7)])
    target = Topology.from_links(
        [("b1", "b2"), ("b2", "b3"), ("b1", "b4"), ("b4", "b5"), ("b1", "b6")]
    )
    problem = PlanningProblem(source, target, max_degree=3)
    limit = time.perf_counter() + 10
    result = solve_problem(
        problem, method=method, stop=lambda: time.perf_counter() > limit, clock=time.perf_counter
    )
    assert result.plan is not None
    assert (result.plan.step_count, result.plan.action_count) == fewest(problem)


def test_moves_from_a_source_above_the_limit_are_valid_or_absent() -> None:
    source = Topology.from_links([("b1", f"b{number}") for number in range(2, 8)])
    chained = Topology.from_links([(f"b{number}", f"b{number + 1}") for number in range(1, 7)])
    for limit in (2, 3, 5, 6):
        result = solved(PlanningProblem(source, chained, max_degree=limit, allow_move=True))
        assert (result.plan is None) == (result.status is PlanStatus.UNKNOWN)

"""Algorithm 1 on HiGHS: the paper's example, brute force, limits, costs, where it cannot end."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.topologies.trees import change_links, random_tree
from pubweave.model.ids import Link
from pubweave.model.plans import Bounds, Plan, PlanStatus, Shift
from pubweave.model.topology import Topology
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.paper.algorithm_1 import plan_by_paper, step_cap
from pubweave.planning.paper.integer_program import ActionSet
from pubweave.planning.problem.problem import PlanningProblem, PlanResult, never
from tests.naive import planning as naive


def tree(text: str) -> Topology:
    return Topology.from_links([(pair[0], pair[1]) for pair in text.split()])


def planned(
    problem: PlanningProblem, kind: ActionSet = ActionSet.NAIVE, **more: object
) -> PlanResult:
    return plan_by_paper(problem, action_set=kind, stop=never, clock=time.perf_counter, **more)  # type: ignore[arg-type]


PAPER_FIGURE_1 = PlanningProblem(tree("12 13 24"), tree("12 13 34"))
WITHOUT_EACH_PATH_PLAN = PlanningProblem(tree("01 12 13 34 45 46"), tree("02 04 16 25 34 56"))


@pytest.mark.parametrize("kind", list(ActionSet))
def test_figure_1_gets_the_papers_plan(kind: ActionSet) -> None:
    result = planned(PAPER_FIGURE_1, kind)
    assert result.plan == Plan(((Shift("4", "2", "1"),), (Shift("4", "1", "3"),)))
    assert result.method == f"ip-{kind.value}"


def test_only_the_naive_set_proves_its_plan_optimal() -> None:
    result = planned(PAPER_FIGURE_1)
    assert (result.status, result.bounds) == (PlanStatus.OPTIMAL, Bounds(2, 2))
    result = planned(PAPER_FIGURE_1, ActionSet.EACH_PATH)
    assert (result.status, result.bounds) == (PlanStatus.FEASIBLE, Bounds(1, 1))


def test_nothing_to_change_is_an_optimal_plan_of_no_steps() -> None:
    same = replace(PAPER_FIGURE_1, target=PAPER_FIGURE_1.source)
    result = planned(same)
    assert (result.plan, result.status) == (Plan(), PlanStatus.OPTIMAL)
    assert result.bounds == Bounds(0, 0)


@pytest.mark.parametrize("seed", range(8))
def test_naive_equals_brute_force(seed: int) -> None:
    rng = np.random.default_rng([41, seed])
    source = random_tree(6, rng)
    problem = PlanningProblem(
        source,
        change_links(source, 0.6, rng),
        disjoint_brokers=seed % 4 == 1,
        max_degree=4 if seed % 4 == 2 else None,
    )
    result = planned(problem)
    expected = naive.fewest(problem)
    if expected is None:
        assert result.plan is None
        return
    assert result.plan is not None
    assert (result.plan.step_count, result.plan.action_count) == expected


def test_each_path_without_a_plan_ends_and_falls_back_to_all_paths() -> None:
    """Against the paper's claim, each-path need not contain a plan (papers.md, IPITT point 6)."""
    assert step_cap(WITHOUT_EACH_PATH_PLAN) == 11
    result = planned(WITHOUT_EACH_PATH_PLAN, ActionSet.EACH_PATH, max_steps=5)
    assert result.notes == (
        "the each-path action set has no plan within 5 steps; fell back to all-paths",
    )
    assert result.plan is not None
    assert (result.plan.step_count, result.plan.action_count) == (4, 10)


def test_the_cheaper_way_is_taken_when_actions_have_costs() -> None:
    # Either end of the removed link may be the one that slides first.
    problem = PlanningProblem(tree("12 23 34"), tree("12 34 14"))
    plain = planned(problem)
    assert plain.plan is not None
    used = next(plain.plan.actions())
    costly = planned(replace(problem, action_cost={used: 50.0}))
    assert costly.plan is not None
    assert used not in set(costly.plan.actions())
    assert costly.plan.step_count == plain.plan.step_count
    expected = naive.fewest(replace(problem, action_cost={used: 50.0}))
    assert expected == (costly.plan.step_count, costly.plan.action_count)


def test_a_degree_limit_is_kept_and_may_cost_a_step() -> None:
    free = PlanningProblem(tree("14 23 24 45"), tree("13 24 34 45"))
    limited = replace(free, max_degree=3)
    for problem, expected in ((free, (2, 2)), (limited, (3, 3))):
        result = planned(problem)
        assert result.plan is not None
        assert (result.plan.step_count, result.plan.action_count) == expected
        assert naive.fewest(problem) == expected
        validate_plan(problem, result.plan)


def test_a_forbidden_link_is_avoided_at_the_cost_of_a_step() -> None:
    problem = PlanningProblem(
        tree("14 25 35 45"), tree("13 14 23 45"), forbidden=frozenset({Link("3", "4")})
    )
    result = planned(problem)
    assert result.plan is not None
    assert (result.plan.step_count, result.plan.action_count) == (4, 4)
    assert naive.fewest(problem) == (4, 4)
    assert naive.fewest(replace(problem, forbidden=frozenset())) == (3, 3)


def test_where_no_plan_is_found_up_to_the_cap_it_is_said() -> None:
    forbidden = replace(PAPER_FIGURE_1, forbidden=frozenset({Link("1", "4"), Link("2", "3")}))
    result = planned(forbidden, max_steps=4)
    assert (result.plan, result.status) == (None, PlanStatus.UNKNOWN)
    assert result.notes == ("the naive action set has no plan within 4 steps",)
    assert result.bounds.steps == 5


def test_a_stop_ends_the_solver_at_once() -> None:
    result = plan_by_paper(
        WITHOUT_EACH_PATH_PLAN,
        action_set=ActionSet.NAIVE,
        stop=lambda: True,
        clock=time.perf_counter,
    )
    assert (result.plan, result.status) == (None, PlanStatus.UNKNOWN)
    assert "stopped" in result.notes[0]


def test_moves_take_the_proof_away_because_the_program_knows_none() -> None:
    result = planned(replace(PAPER_FIGURE_1, allow_move=True))
    assert result.status is PlanStatus.FEASIBLE
    assert result.bounds.steps == 1

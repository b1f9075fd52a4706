"""The baseline search: valid plans of few actions, and the same actions side by side."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.topologies.trees import change_links, random_tree
from pubweave.model.ids import Link
from pubweave.model.plans import Plan, PlanStatus, Shift
from pubweave.model.topology import Topology
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.paper.best_first_search import _View, parallelised, plan_by_bfs
from pubweave.planning.problem.problem import PlanningProblem, PlanningProgress, PlanResult, never


def tree(text: str) -> Topology:
    return Topology.from_links([(pair[0], pair[1]) for pair in text.split()])


def shifts(text: str) -> list[Shift]:
    return [Shift(word[0], word[1], word[2]) for word in text.split()]


def no_clock() -> float:
    return 0.0


def planned(problem: PlanningProblem, expansions: int = 400, seed: int = 0) -> PlanResult:
    return plan_by_bfs(problem, stop=never, clock=no_clock, seed=seed, expansions_max=expansions)


PAPER_FIGURE_1 = PlanningProblem(tree("12 13 24"), tree("12 13 34"))


def random_problem(seed: int, brokers: int = 12, **rules: object) -> PlanningProblem:
    rng = np.random.default_rng([7, seed])
    source = random_tree(brokers, rng)
    return PlanningProblem(source, change_links(source, 0.4, rng), **rules)  # type: ignore[arg-type]


def test_figure_1_takes_two_actions_one_after_the_other() -> None:
    result = planned(PAPER_FIGURE_1)
    assert result.plan == Plan(((Shift("4", "2", "1"),), (Shift("4", "1", "3"),)))
    assert (result.method, result.status) == ("bfs", PlanStatus.FEASIBLE)


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_has_one_action_per_step_and_fewer_steps_side_by_side(seed: int) -> None:
    problem = random_problem(seed, disjoint_brokers=bool(seed % 2))
    result = planned(problem)
    assert result.plan is not None
    assert result.plan.step_count == result.plan.action_count
    beside = plan_by_bfs(problem, stop=never, clock=no_clock, parallel=True, expansions_max=400)
    assert beside.plan is not None
    assert beside.method == "bfs-parallel"
    assert beside.plan.action_count == result.plan.action_count
    assert beside.plan.step_count == result.figures["parallel_steps"] < result.plan.step_count


@pytest.mark.parametrize("seed", range(8))
def test_the_estimate_behind_a_shift_is_that_of_the_topology_it_leads_to(seed: int) -> None:
    problem = random_problem(seed)
    for estimate, shift in _View(problem, problem.source.links).shifts():
        after = problem.source.links - {shift.removed_link} | {shift.added_link}
        topology = Topology(problem.source.brokers, after)
        away = [
            len(topology.path(*link)) - 2 for link in sorted(problem.target.links - topology.links)
        ]
        assert estimate == sum(away)


def test_the_same_seed_gives_the_same_plan() -> None:
    problem = random_problem(3)
    assert planned(problem, seed=5).plan == planned(problem, seed=5).plan


def test_rules_are_kept() -> None:
    plain = planned(random_problem(1)).plan
    assert plain is not None
    extra = next(
        action.added_link
        for action in plain.actions()
        if isinstance(action, Shift) and action.added_link not in random_problem(1).target.links
    )
    problem = random_problem(1, forbidden=frozenset({extra}), max_degree=6)
    result = planned(problem)
    assert result.plan is not None
    validate_plan(problem, result.plan)
    with pytest.raises(ValueError, match="forbidden"):
        validate_plan(problem, plain)


def test_a_source_above_the_degree_limit_is_brought_down_first_or_nothing_is_claimed() -> None:
    one_above = PlanningProblem(tree("12 13 14 45"), tree("12 23 14 45"), max_degree=2)
    result = planned(one_above)
    assert result.plan == Plan(((Shift("3", "1", "2"),),))
    two_above = PlanningProblem(tree("12 13 14 45 46 67"), tree("12 23 14 45 56 67"), max_degree=2)
    assert planned(two_above).plan is None


def test_without_a_plan_nothing_is_claimed() -> None:
    problem = replace(PAPER_FIGURE_1, forbidden=frozenset({Link("1", "4"), Link("2", "3")}))
    result = planned(problem)
    assert (result.plan, result.status) == (None, PlanStatus.UNKNOWN)
    assert "no plan found" in result.notes[0]


def test_it_stops_when_told_and_keeps_what_it_has() -> None:
    problem = random_problem(2)
    found: list[PlanningProgress] = []
    calls = itertools.count()
    result = plan_by_bfs(
        problem,
        stop=lambda: bool(found) or next(calls) > 10_000,
        clock=no_clock,
        on_progress=found.append,
    )
    assert result.plan is not None
    assert found[0].plan == result.plan


def test_cheaper_actions_are_preferred() -> None:
    problem = PlanningProblem(tree("12 23 34"), tree("12 34 14"))
    first = planned(problem).plan
    assert first is not None
    used = next(first.actions())
    costly = planned(replace(problem, action_cost={used: 50.0})).plan
    assert costly is not None
    assert used not in set(costly.actions())


def test_side_by_side_waits_for_links_and_pivots() -> None:
    problem = PlanningProblem(tree("12 23 34 45"), tree("13 23 34 35"))
    assert parallelised(problem, shifts("123 543")).step_count == 1
    chained = PlanningProblem(tree("12 13 24"), tree("12 13 34"))
    assert parallelised(chained, shifts("421 413")).step_count == 2
    # 2-3 serves as pivot first and is removed next: not in one step.
    pivot = PlanningProblem(tree("12 23 34"), tree("13 34 24"))
    plan = parallelised(pivot, shifts("123 234"))
    assert plan.step_count == 2
    validate_plan(pivot, plan)


def test_side_by_side_keeps_brokers_apart_and_degrees_low() -> None:
    star = PlanningProblem(tree("12 23 34 45"), tree("13 23 34 35"))
    assert parallelised(replace(star, disjoint_brokers=True), shifts("123 543")).step_count == 2
    swap = PlanningProblem(tree("12 13 34 35"), tree("23 13 14 35"), max_degree=3)
    serial = shifts("213 431")
    beside = parallelised(replace(swap, max_degree=None), serial)
    assert beside.step_count == 1
    validate_plan(swap, parallelised(swap, list(reversed(serial))))

"""The exact planner against brute force over whole topologies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.topologies.trees import change_links, ipitt_topologies
from pubweave.model.plans import Shift
from pubweave.model.topology import Topology
from pubweave.planning.bounds.infeasibility import Exhaustion
from pubweave.planning.bounds.reachability import ActionBound, Reachability
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.exact.search import Finding, SearchDirection, search
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.problem.indexed import indexed
from pubweave.planning.problem.problem import PlanningProblem, never
from tests.naive.planning import fewest
from tests.naive.planning_instances import small_problem


def exactly(
    problem: PlanningProblem, way: SearchDirection = SearchDirection.UP
) -> tuple[int, float] | None:
    """Steps and cost that the exact planner proves; None if it proves that there is no plan."""
    numbered = indexed(problem)
    at_least = Reachability(numbered, apart=True).fewest_steps()
    if at_least is None:
        return None
    told: list[Finding] = [Finding(steps_at_least=at_least)]
    known = Greedy(numbered, np.random.default_rng(0)).first()
    search(
        numbered, at_least, known, way if known is not None else SearchDirection.UP, 0, told.append
    )
    assert told[-1].is_cheapest
    steps = max(finding.steps_at_least for finding in told if finding.steps_at_least is not None)
    cost = told[-1].cost_at_least
    assert cost is not None
    for finding in told:
        if finding.plan is not None:
            validate_plan(problem, numbered.plan(finding.plan))
    return steps, cost


def check_agrees(problem: PlanningProblem) -> None:
    truth = fewest(problem)
    at_least = Reachability(indexed(problem)).fewest_steps()
    shared = Reachability(indexed(problem), apart=False).fewest_steps()
    # An impossibility is proven where it is true and nowhere else.
    exhaustion = Exhaustion(indexed(problem))
    exhaustion.explore(never)
    assert exhaustion.is_impossible == (truth is None)
    if truth is None:
        # The bound may prove it too; the search over T alone would go on.
        return
    assert at_least is not None
    assert shared is not None
    assert max(shared, at_least) <= truth[0]
    check_action_bound(problem, truth)
    for way in SearchDirection:
        assert exactly(problem, way) == pytest.approx(truth)


def check_action_bound(problem: PlanningProblem, truth: tuple[int, float]) -> None:
    if not problem.goal_links or problem.action_cost is not None:
        return
    reachability = Reachability(indexed(problem))
    reach = reachability.within(truth[0])
    assert reach is not None
    bound = ActionBound(reachability, reach)
    assert bound.least() <= truth[1]
    assert bound.within(int(truth[1])) is not None


@pytest.mark.parametrize("number", range(60))
def test_steps_then_actions_equal_brute_force(number: int) -> None:
    check_agrees(small_problem(number, brokers_max=6))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(500))
def test_steps_then_actions_equal_brute_force_on_500_problems(number: int) -> None:
    check_agrees(small_problem(number))


@pytest.mark.parametrize("number", range(0, 40, 2))
def test_least_cost_equals_brute_force(number: int) -> None:
    problem = small_problem(number, brokers_max=6)
    rng = np.random.default_rng(number)
    brokers = sorted(problem.source.brokers)
    costs = {
        Shift(i, j, k): float(rng.integers(1, 6))
        for i in brokers
        for j in brokers
        for k in brokers
        if len({i, j, k}) == 3
    }
    check_agrees(replace(problem, action_cost=costs))


def digits(pairs: list[str]) -> Topology:
    return Topology.from_links([(pair[0], pair[1]) for pair in pairs])


def test_the_papers_counterexample_to_each_path_has_four_steps_and_ten_actions() -> None:
    """papers.md, IPITT 6."""
    source = digits(["01", "12", "13", "34", "45", "46"])
    target = digits(["02", "04", "16", "25", "34", "56"])
    assert exactly(PlanningProblem(source, target)) == (4, 10)


def test_equal_topologies_need_no_step() -> None:
    chain = Topology.from_links([("b1", "b2"), ("b2", "b3")])
    assert exactly(PlanningProblem(chain, chain)) == (0, 0)


def test_a_forbidden_link_on_the_only_way_is_proven_infeasible() -> None:
    source = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
    target = Topology.from_links([("b1", "b4"), ("b2", "b3"), ("b3", "b4")])
    blocked = Topology.from_links([("b1", "b3")]).links
    assert exactly(PlanningProblem(source, target, forbidden=blocked)) is None


def test_twenty_brokers_are_proven_in_full() -> None:
    source = ipitt_topologies(20, 3)["degree6-unbalanced-1"]
    target = change_links(source, 0.2, np.random.default_rng(3))
    assert exactly(PlanningProblem(source, target)) is not None

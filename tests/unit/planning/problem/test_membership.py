"""Brokers that come and go: appended first, detached last, and the whole plan is valid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.topologies.trees import random_tree
from pubweave.model.ids import Link
from pubweave.model.plans import Append, Bounds, Detach, Plan, PlanStatus, Shift
from pubweave.model.topology import Topology
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.problem.membership import split_membership
from pubweave.planning.problem.problem import PlanningError, PlanningProblem, PlanResult


def tree(text: str) -> Topology:
    return Topology.from_links([(pair[0], pair[1]) for pair in text.split()])


def result_of(plan: Plan | None, status: PlanStatus = PlanStatus.OPTIMAL) -> PlanResult:
    return PlanResult(status, plan, Bounds(0, 0), "exact", 0.1)


def test_equal_broker_sets_need_nothing() -> None:
    problem = PlanningProblem(tree("12 23"), tree("13 23"))
    split = split_membership(problem)
    assert split.is_trivial
    assert split.inner == problem
    result = result_of(Plan(((Shift("1", "2", "3"),),)))
    assert split.wrap_result(result) is result


def test_a_new_broker_is_appended_at_its_neighbor_in_the_target() -> None:
    problem = PlanningProblem(tree("12 23"), tree("12 23 34"))
    split = split_membership(problem)
    assert split.append_steps == ((Append("4", "3"),),)
    assert split.inner.source == split.inner.target == problem.target
    validate_plan(problem, split.wrap(Plan()))


def test_new_brokers_behind_new_brokers_come_in_later_steps() -> None:
    problem = PlanningProblem(tree("12"), tree("12 23 34 25"))
    split = split_membership(problem)
    assert split.append_steps == ((Append("3", "2"), Append("5", "2")), (Append("4", "3"),))
    validate_plan(problem, split.wrap(Plan()))


def test_a_leaving_leaf_is_only_detached() -> None:
    problem = PlanningProblem(tree("12 23 34"), tree("12 23"))
    split = split_membership(problem)
    assert split.inner.source == split.inner.target
    assert split.detach_steps == ((Detach("4", "3"),),)
    validate_plan(problem, split.wrap(Plan()))


def test_a_leaving_inner_broker_becomes_a_leaf_of_a_broker_that_stays() -> None:
    problem = PlanningProblem(tree("12 23 34"), tree("13 34"))
    split = split_membership(problem)
    assert split.inner.target == tree("13 34 12")
    assert split.detach_steps == ((Detach("2", "1"),),)
    validate_plan(problem, split.wrap(Plan(((Shift("3", "2", "1"),),))))


def test_brokers_come_and_go_in_one_plan() -> None:
    problem = PlanningProblem(tree("12 23 34"), tree("13 34 45"))
    split = split_membership(problem)
    whole = split.wrap(Plan(((Shift("3", "2", "1"),),)))
    assert whole.steps == (
        (Append("5", "4"),),
        (Shift("3", "2", "1"),),
        (Detach("2", "1"),),
    )
    validate_plan(problem, whole)


def test_disjoint_brokers_hold_among_appends_and_detaches() -> None:
    problem = PlanningProblem(tree("12 26 27"), tree("12 23 24"), disjoint_brokers=True)
    split = split_membership(problem)
    assert [len(step) for step in split.append_steps] == [1, 1]
    assert [len(step) for step in split.detach_steps] == [1, 1]
    validate_plan(problem, split.wrap(Plan()))


def test_a_full_broker_takes_no_leaf() -> None:
    problem = PlanningProblem(tree("12 23 24"), tree("12 23 35 54"), max_degree=3)
    assert split_membership(problem).append_steps == ((Append("5", "3"),),)
    tight = PlanningProblem(tree("12 23 24"), tree("12 23 24 15"), max_degree=3)
    assert split_membership(tight).append_steps == ((Append("5", "1"),),)
    waits = PlanningProblem(tree("21 23 24"), tree("21 23 34 25"), max_degree=3)
    assert split_membership(waits).append_steps == ((Append("5", "1"),),)


def test_a_forbidden_link_is_no_place_for_a_leaf() -> None:
    problem = PlanningProblem(
        tree("12 23 34"), tree("13 34"), forbidden=frozenset({Link("1", "2"), Link("2", "3")})
    )
    assert split_membership(problem).detach_steps == ((Detach("2", "4"),),)


def test_no_room_anywhere_is_said() -> None:
    growing = PlanningProblem(tree("12"), tree("13 32"), max_degree=1)
    with pytest.raises(PlanningError, match="'3' cannot be appended anywhere"):
        split_membership(growing)
    shrinking = PlanningProblem(tree("13 32"), tree("12"), max_degree=1)
    with pytest.raises(PlanningError, match="'3' cannot become a leaf of the target"):
        split_membership(shrinking)


def test_the_whole_claims_no_more_than_it_can_prove() -> None:
    problem = PlanningProblem(tree("12 23 34"), tree("13 34 45"))
    split = split_membership(problem)
    wrapped = split.wrap_result(result_of(Plan(((Shift("3", "2", "1"),),))))
    assert wrapped.status is PlanStatus.FEASIBLE
    assert wrapped.bounds == Bounds(1, 3)
    assert any("between append and detach: optimal" in note for note in wrapped.notes)
    impossible = split.wrap_result(result_of(None, PlanStatus.INFEASIBLE))
    assert impossible.status is PlanStatus.UNKNOWN


def test_an_append_alone_is_optimal() -> None:
    split = split_membership(PlanningProblem(tree("12"), tree("12 23 24")))
    assert split.wrap_result(result_of(Plan())).status is PlanStatus.OPTIMAL


@pytest.mark.parametrize("seed", range(20))
def test_inner_topologies_are_trees_over_the_same_brokers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source, target = random_tree(9, rng), random_tree(9, rng)
    renamed = {f"b{number}": f"b{number + 4}" for number in range(1, 10)}
    target = Topology.from_links([(renamed[a], renamed[b]) for a, b in sorted(target.links)])
    problem = PlanningProblem(source, target, disjoint_brokers=bool(seed % 2))
    split = split_membership(problem)
    assert split.inner.source.brokers == split.inner.target.brokers
    assert split.inner.source.is_tree
    assert split.inner.target.is_tree
    appended = replace(problem, target=split.inner.source)
    validate_plan(appended, Plan(split.append_steps))
    detached = replace(problem, source=split.inner.target)
    validate_plan(detached, Plan(split.detach_steps))

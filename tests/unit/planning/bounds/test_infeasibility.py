"""Exhaustion against brute force: impossible where it says so, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from pubweave.generate.topologies.trees import chain, star
from pubweave.model.ids import Link
from pubweave.model.plans import Plan, Shift
from pubweave.model.topology import Topology
from pubweave.planning.bounds.infeasibility import Exhaustion
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.problem.indexed import indexed
from pubweave.planning.problem.problem import PlanningProblem, Stop, never
from tests.naive.planning import fewest
from tests.naive.planning_instances import small_problem, tight_problem


def exhausted(problem: PlanningProblem, stop: Stop = never) -> Exhaustion:
    exhaustion = Exhaustion(indexed(problem))
    exhaustion.explore(stop)
    return exhaustion


def check_agrees(problem: PlanningProblem) -> bool:
    """Whether the problem is impossible, as both say."""
    truth = fewest(problem, most_steps=100)
    exhaustion = exhausted(problem)
    assert not exhaustion.is_open
    assert exhaustion.is_impossible == (truth is None)
    if exhaustion.plan is None:
        assert exhaustion.reason
    else:
        validate_plan(problem, indexed(problem).plan(exhaustion.plan))
    return exhaustion.is_impossible


def test_problems_with_little_room_are_impossible_exactly_as_brute_force_says() -> None:
    """Half of the limits bind, sources above the limit among them: no rule can be idle here."""
    problems = [tight_problem(number) for number in range(400)]
    impossible = [problem for problem in problems if check_agrees(problem)]
    assert 80 < len(impossible) < 200
    above = [p for p in problems if p.max_degree and largest_degree(p.source) > p.max_degree]
    assert {p in impossible for p in above} == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(400, 900))
def test_problems_of_seven_brokers_are_impossible_exactly_as_brute_force_says(number: int) -> None:
    check_agrees(tight_problem(number, brokers_max=7))


def test_of_the_500_problems_with_up_to_7_brokers_24_are_impossible() -> None:
    """The same 500 as in test_planning_exact, where brute force confirms each."""
    found = [number for number in range(500) if exhausted(small_problem(number)).is_impossible]
    assert len(found) == 24


def largest_degree(topology: Topology) -> int:
    return max(topology.degree(broker) for broker in topology.brokers)


def shuffled_chain(numbers: list[int]) -> Topology:
    return Topology.from_links(list(pairwise(f"b{number}" for number in numbers)))


def test_a_source_above_the_limit_comes_down_over_full_brokers_in_one_step() -> None:
    """b1 has a link too many, b2 is full, b3 has room: one step, or never."""
    source = Topology.from_links(
        [("b1", "b4"), ("b1", "b5"), ("b1", "b6"), ("b1", "b2"), ("b2", "b7"), ("b2", "b3")]
    )
    target = Topology.from_links(
        [("b2", "b4"), ("b1", "b5"), ("b1", "b6"), ("b1", "b2"), ("b3", "b7"), ("b2", "b3")]
    )
    problem = PlanningProblem(source, target, max_degree=3)
    exhaustion = exhausted(problem)
    assert exhaustion.plan is not None
    plan = indexed(problem).plan(exhaustion.plan)
    validate_plan(problem, plan)
    assert plan == Plan(((Shift("b4", "b1", "b2"), Shift("b7", "b2", "b3")),))


def test_two_full_brokers_exchange_links_over_the_link_between_them() -> None:
    source = Topology.from_links([("b1", "b2"), ("b3", "b1"), ("b4", "b2")])
    target = Topology.from_links([("b1", "b2"), ("b4", "b1"), ("b3", "b2")])
    problem = PlanningProblem(source, target, max_degree=2, forbidden=frozenset({Link("b3", "b4")}))
    exhaustion = exhausted(problem)
    assert exhaustion.plan is not None
    assert [len(step) for step in exhaustion.plan] == [2]
    apart = PlanningProblem(
        source, target, max_degree=2, forbidden=problem.forbidden, disjoint_brokers=True
    )
    assert exhausted(apart).reason == "the rules allow no step from the source"


def test_each_reason_is_said() -> None:
    alone = PlanningProblem(star(5), chain(5), max_degree=2, disjoint_brokers=True)
    blocked = PlanningProblem(
        chain(4), shuffled_chain([2, 3, 4, 1]), forbidden=frozenset({Link("b1", "b3")})
    )
    reasons = [exhausted(problem).reason for problem in (alone, blocked)]
    reasons += [exhausted(small_problem(number)).reason for number in (222, 116, 132)]
    assert reasons == [
        "the source has brokers with more than 2 links, and no single step brings them all down "
        "to that",
        "the rules allow no step from the source",
        "the rules allow no last step to the target",
        "from the source 7 topologies can be reached, the target cannot",
        "the target can be reached from 1 topology, the source is none of them",
    ]


def test_equal_topologies_are_a_plan_without_steps() -> None:
    assert exhausted(PlanningProblem(chain(4), chain(4), max_degree=2)).plan == []


def test_memory_is_bounded_and_then_nothing_is_said() -> None:
    target = shuffled_chain([7, 2, 10, 6, 1, 12, 8, 4, 11, 9, 3, 5])
    problem = PlanningProblem(chain(12), target, max_degree=2)
    exhaustion = Exhaustion(indexed(problem), states_max=10)
    exhaustion.explore(never)
    assert not exhaustion.is_open
    assert not exhaustion.is_impossible
    assert exhaustion.plan is None


def stops(pattern: Iterator[bool]) -> Stop:
    return lambda: next(pattern)


@pytest.mark.parametrize("number", [116, 142, 167, 387])
def test_exploring_in_pieces_proves_the_same(number: int) -> None:
    problem = small_problem(number)
    exhaustion = Exhaustion(indexed(problem))
    pieces = 0
    while exhaustion.is_open:
        exhaustion.explore(stops(iter([False, True])))
        pieces += 1
        assert pieces < 10_000
    assert pieces > 1
    assert exhaustion.is_impossible

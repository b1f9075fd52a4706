"""Fewer rounds for a plan of fewest steps: always valid, never more steps, actions or rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pubweave.generate.topologies.trees import change_links, random_tree
from pubweave.model.plans import Shift
from pubweave.model.topology import Topology
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.greedy._kernels import SHIFT_PRICE, occupy, reroute
from pubweave.planning.greedy.fewer_rounds import _places, applies_to, quieter
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.problem.indexed import IndexedProblem, NumberedSteps, indexed
from pubweave.planning.problem.problem import PlanningProblem, never
from tests.naive.planning_instances import small_problem
from tests.naive.quiet_steps import all_ways, rounds, shifts_of


def a_problem(number: int, brokers: int = 30, ratio: float = 0.25) -> PlanningProblem:
    rng = np.random.default_rng(number)
    source = random_tree(brokers, rng)
    return PlanningProblem(source, change_links(source, ratio, rng))


def a_plan(numbered: IndexedProblem, tries: int = 100) -> NumberedSteps:
    greedy = Greedy(numbered, np.random.default_rng(1))
    best = greedy.first()
    assert best is not None
    left = iter(range(tries))
    for better in greedy.improve(best, lambda: next(left, None) is None):
        best = better
    return best


def rounds_of(numbered: IndexedProblem, steps: NumberedSteps) -> int:
    return rounds(ways_of(numbered, steps))


def ways_of(numbered: IndexedProblem, steps: NumberedSteps) -> list[tuple[tuple[int, int], ...]]:
    return [tuple((a, b) for a, b in way) for way in _places(numbered, steps).tolist()]


@pytest.mark.parametrize("number", range(12))
def test_a_quieter_plan_is_valid_and_has_no_more_of_anything(number: int) -> None:
    problem = a_problem(number)
    numbered = indexed(problem)
    steps = a_plan(numbered)
    found = quieter(numbered, steps, np.random.default_rng(number), never, 40)
    plan = numbered.plan(found)
    validate_plan(problem, plan)
    assert plan.step_count <= len(steps)
    assert plan.action_count <= sum(map(len, steps))
    assert rounds_of(numbered, found) <= rounds_of(numbered, steps)


def test_plans_of_fewest_steps_get_fewer_rounds() -> None:
    before = after = 0
    for number in range(6):
        numbered = indexed(a_problem(number, 60, 0.2))
        steps = a_plan(numbered, 1000)
        found = quieter(numbered, steps, np.random.default_rng(0), never, 100)
        before += rounds_of(numbered, steps)
        after += rounds_of(numbered, found)
    assert after <= 0.9 * before


def test_the_same_seed_gives_the_same_plan() -> None:
    numbered = indexed(a_problem(3))
    steps = a_plan(numbered)
    one, other = (quieter(numbered, steps, np.random.default_rng(5), never, 30) for _ in range(2))
    assert one == other


def test_a_stop_gives_back_what_is_there() -> None:
    numbered = indexed(a_problem(4))
    steps = a_plan(numbered)
    found = quieter(numbered, steps, np.random.default_rng(0), lambda: True)
    assert sorted(map(sorted, found)) == sorted(map(sorted, steps))


def test_a_forbidden_link_never_comes_to_be() -> None:
    problem = a_problem(5)
    first = indexed(problem)
    numbered_steps = quieter(first, a_plan(first), np.random.default_rng(0), never, 40)
    passing = {
        action.added_link
        for action in first.plan(numbered_steps).actions()
        if isinstance(action, Shift)
    } - problem.target.links
    assert passing
    forbidden = replace(problem, forbidden=frozenset([min(passing)]))
    numbered = indexed(forbidden)
    steps = a_plan(numbered)
    found = quieter(numbered, steps, np.random.default_rng(0), never, 40)
    validate_plan(forbidden, numbered.plan(found))


def test_it_applies_where_only_links_matter() -> None:
    names = ["b1", "b2", "b3", "b4"]
    chain = Topology.from_links(list(pairwise(names)))
    plain = PlanningProblem(chain, chain)
    assert applies_to(plain)
    assert not applies_to(replace(plain, disjoint_brokers=True))
    assert not applies_to(replace(plain, max_degree=3))
    assert not applies_to(replace(plain, action_cost={}))
    assert not applies_to(replace(plain, allow_move=True))


def small_plans() -> Iterator[tuple[IndexedProblem, NumberedSteps]]:
    """Those with few enough ways to look at each."""
    for number in range(60):
        problem = replace(small_problem(number, 7), max_degree=None, disjoint_brokers=False)
        numbered = indexed(problem)
        steps = Greedy(numbered, np.random.default_rng(0)).first()
        if steps and len(steps) <= 5:
            yield numbered, steps


def test_a_token_gets_the_cheapest_of_all_its_ways() -> None:
    """Against every way there is: no more shifts than before, then the fewest rounds."""
    looked_at = 0
    for numbered, steps in small_plans():
        check_every_token(numbered, steps)
        looked_at += 1
    assert looked_at >= 40


def check_every_token(numbered: IndexedProblem, steps: NumberedSteps) -> None:
    places = _places(numbered, steps)
    ways = ways_of(numbered, steps)
    closed_links = [*numbered.kept.tolist(), *numbered.goals.tolist(), *numbered.forbidden.tolist()]
    count = numbered.broker_count
    closed = np.zeros((count, count), dtype=np.bool_)
    for a, b in closed_links:
        closed[a, b] = closed[b, a] = True
    busy = np.zeros((len(steps), count), dtype=np.int64)
    for way in places:
        occupy(way, busy, 1)
    cells = len(steps) + 1, count * count
    room = (
        np.full(cells, np.inf),
        np.empty(cells, dtype=np.int64),
        np.empty(cells, dtype=np.int64),
        np.zeros(len(steps) + 1, dtype=np.int64),
    )
    prices = np.array([SHIFT_PRICE / 100, 0.0])
    for token in range(numbered.token_count):
        kept = {(a, b) for a, b in numbered.kept.tolist()}
        every = list(all_ways(ways, token, kept, {(a, b) for a, b in closed_links}))

        def rank(way: tuple[tuple[int, int], ...], token: int = token) -> tuple[int, int]:
            return len(shifts_of(way)), rounds([*ways[:token], way, *ways[token + 1 :]])

        reroute(token, places, numbered.kept, closed, busy, prices, np.ones(1), room)
        found = tuple((a, b) for a, b in places[token].tolist())
        assert found in every
        assert rank(found) == min(map(rank, every))
        ways[token] = found
    assert np.isinf(room[0]).all()

"""Swaps priced at once, and Algorithm 3 built on them, against the algorithm as printed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.dynatops._kernels import swaps as kernels
from pubweave.design.dynatops.mapping.problem import MappingProblem, broker_costs, mapping_cost
from pubweave.design.dynatops.mapping.swaps import ImprovementPath, SwapState, ssbr_greedy
from pubweave.design.tco.interests import Subscriptions
from tests.dynatops_problems import instance_of, problems
from tests.naive import dynatops as naive


def mappings_of(path: ImprovementPath) -> list[np.ndarray]:
    return [path.mapping_at(place) for place in range(len(path))]


Drawn = tuple[MappingProblem, np.ndarray]


@settings(deadline=None, max_examples=200)
@given(problems(), st.data())
def test_a_swap_is_priced_as_the_costs_from_scratch_say(drawn: Drawn, data: st.DataObject) -> None:
    problem, mapping = drawn
    state = SwapState.of(problem, mapping)
    broker = data.draw(st.integers(0, problem.broker_count - 1))
    kernels.price_swaps(state.given, state.current, broker, state.prices)
    order = state.current.position_of
    overhead, delay = state.prices.overhead[order], state.prices.delay[order]
    before = mapping_cost(problem, mapping)
    for other in range(problem.broker_count):
        if other == broker:
            continue
        after = mapping_cost(problem, np.array(naive.swapped(mapping, broker, other)))
        assert overhead[other] == after.relay_overhead - before.relay_overhead
        assert delay[other] == after.delay - before.delay


@settings(deadline=None, max_examples=200)
@given(problems(), st.data())
def test_costs_kept_through_swaps_are_those_from_scratch(drawn: Drawn, data: st.DataObject) -> None:
    problem, mapping = drawn
    state = SwapState.of(problem, mapping)
    broker = st.integers(0, problem.broker_count - 1)
    for a, b in data.draw(st.lists(st.tuples(broker, broker), max_size=8)):
        if a != b:
            state.swap(a, b)
    fresh = SwapState.of(problem, state.mapping)
    assert state.cost == fresh.cost == mapping_cost(problem, state.mapping)
    costs = broker_costs(problem, state.mapping)
    order = state.current.position_of
    assert state.current.relayed[order].tolist() == costs.overhead.tolist()
    assert state.current.delayed[order].tolist() == costs.delay.tolist()
    assert state.current.here.tolist() == fresh.current.here.tolist()
    assert state.current.alone.tolist() == fresh.current.alone.tolist()
    for name in ("below", "who"):
        mine, theirs = getattr(state.current, name), getattr(fresh.current, name)
        # Nobody asks at the rendezvous, so nobody keeps it.
        rows = np.arange(len(mine))
        mine[rows, problem.roots] = theirs[rows, problem.roots] = 0
        assert mine.tolist() == theirs.tolist()


@settings(deadline=None, max_examples=100)
@given(problems())
def test_the_improvement_path_is_that_of_the_printed_algorithm(drawn: Drawn) -> None:
    problem, mapping = drawn
    instance = instance_of(problem)
    path = ssbr_greedy(problem, mapping)
    expected = list(naive.ssbr_greedy(instance, mapping))
    assert [found.tolist() for found in mappings_of(path)] == [list(each) for each in expected]
    costs = [path.cost_at(place).notification_cost for place in range(len(path))]
    assert costs == [instance.cost(each) for each in expected]
    assert path.is_complete


def random_problem(brokers: int, topics: int, each: int, seed: int) -> MappingProblem:
    rng = np.random.default_rng(seed)
    wanted = Subscriptions.of({
        f"b{n}": [f"t{t}" for t in rng.choice(topics, each, replace=False)] for n in range(brokers)
    })  # fmt: skip
    counts = {f"t{t}": int(rng.integers(0, 50)) for t in range(topics)}
    return MappingProblem.of(wanted, counts)


@pytest.mark.parametrize("seed", range(4))
def test_the_path_is_the_printed_one_on_thirty_brokers(seed: int) -> None:
    problem = random_problem(30, 12, 3, seed)
    path = ssbr_greedy(problem, problem.in_order())
    expected = list(naive.ssbr_greedy(instance_of(problem), problem.in_order().tolist()))
    assert [found.tolist() for found in mappings_of(path)] == [list(each) for each in expected]
    assert len(path) > 3


def test_changed_brokers_are_counted_along_the_path() -> None:
    problem = random_problem(40, 10, 3, 1)
    path = ssbr_greedy(problem, problem.in_order())
    origin = problem.in_order()
    expected = [int((each != origin).sum()) for each in mappings_of(path)]
    assert path.changed_counts(origin).tolist() == expected


def test_counts_with_rounding_come_to_an_end_and_never_get_dearer() -> None:
    rng = np.random.default_rng(3)
    wanted = random_problem(60, 20, 4, 3).wanted
    problem = MappingProblem.of(
        wanted, {f"t{t}": float(rng.random()) for t in range(20)}, delay_weight=0.3
    )
    path = ssbr_greedy(problem, problem.in_order())
    costs = [path.cost_at(place).notification_cost for place in range(len(path))]
    assert all(b < a for a, b in pairwise(costs))
    fresh = mapping_cost(problem, path.last)
    assert fresh.notification_cost == pytest.approx(costs[-1], rel=1e-9)


def test_a_stop_keeps_what_was_reached() -> None:
    problem = random_problem(40, 10, 3, 2)
    path = ssbr_greedy(problem, problem.in_order(), stop=lambda: True)
    assert (len(path), path.is_complete) == (1, False)
    assert path.last.tolist() == problem.in_order().tolist()

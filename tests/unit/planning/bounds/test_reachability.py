"""The reachability bound: its kernels against their twins, its claims against brute force."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest

from pubweave.generate.topologies.trees import change_links, ipitt_topologies
from pubweave.model.topology import Topology
from pubweave.planning.bounds._kernels_reach import (
    FAR,
    Bits,
    cheapest_pairing,
    others_pivots,
    spread,
)
from pubweave.planning.bounds.reachability import (
    Reachability,
    bit_matrix,
    dense,
    has_bits,
    perfect_matching,
)
from pubweave.planning.problem.indexed import indexed
from pubweave.planning.problem.problem import PlanningProblem
from tests.naive import reachability as naive
from tests.naive.planning import fewest
from tests.naive.planning_instances import small_problem

BROKERS = 70  # more than one word of bits


def some_pairs(rng: np.random.Generator, size: int) -> set[naive.Pair]:
    drawn = rng.integers(BROKERS, size=(size, 2)).tolist()
    return {naive.pair(u, v) for u, v in drawn if u != v}


def bits(pairs: set[naive.Pair]) -> Bits:
    return bit_matrix(np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2), BROKERS)


@pytest.mark.parametrize("seed", range(5))
def test_spread_equals_its_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    positions, pivots = some_pairs(rng, 30), some_pairs(rng, 60)
    frozen, blocked = set(sorted(positions)[:5]), some_pairs(rng, 200)
    out = np.empty_like(bits(positions))
    spread(bits(positions), bits(pivots), bits(frozen), bits(blocked), out)
    assert np.array_equal(out, bits(naive.spread(positions, pivots, frozen, blocked)))


@pytest.mark.parametrize("seed", range(5))
def test_others_pivots_equals_its_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    here = [some_pairs(rng, 400) for _ in range(4)]
    then = [some_pairs(rng, 400) for _ in range(4)]
    kept = some_pairs(rng, 20)
    packed = np.stack([bits(p) for p in here]), np.stack([bits(p) for p in then])
    out = np.empty_like(packed[0])
    others_pivots(*packed, bits(kept), out)
    assert np.array_equal(out, np.stack([bits(p) for p in naive.others_pivots(here, then, kept)]))


def test_bit_matrices_are_symmetric_and_readable() -> None:
    pairs = np.array([[0, 65], [3, 4]])
    matrix = bit_matrix(pairs, BROKERS)
    assert has_bits(matrix, pairs).all()
    assert not has_bits(matrix, np.array([[0, 64]])).any()
    flags = dense(matrix, BROKERS)
    assert np.array_equal(flags, flags.T)
    assert flags.sum() == 4


@pytest.mark.parametrize("seed", range(20))
def test_the_cheapest_pairing_equals_trying_all(seed: int) -> None:
    cost = np.random.default_rng(seed).integers(0, 9, size=(5, 5)).astype(np.int32)
    total, rows, columns = cheapest_pairing(cost)
    assert total == min(sum(cost[r, c] for r, c in enumerate(p)) for p in permutations(range(5)))
    assert (rows[:, None] + columns[None, :] <= cost).all()
    assert rows.sum() + columns.sum() == total


def test_an_impossible_pairing_is_far() -> None:
    cost = np.array([[1, FAR], [1, FAR]], dtype=np.int32)
    assert cheapest_pairing(cost)[0] >= FAR
    assert perfect_matching(cost < FAR) is None
    assert perfect_matching(np.array([[True, True], [True, False]])) == [1, 0]


@pytest.mark.parametrize("number", range(100, 160))
def test_the_bound_never_exceeds_the_fewest_steps(number: int) -> None:
    problem = small_problem(number, brokers_max=6)
    truth = fewest(problem)
    at_least = Reachability(indexed(problem)).fewest_steps()
    if truth is not None:
        assert at_least is not None
        assert at_least <= truth[0]


def test_a_chain_end_that_crosses_the_chain_needs_all_its_steps() -> None:
    names = [f"b{number}" for number in range(1, 9)]
    links = list(pairwise(names))
    source = Topology.from_links(links)
    target = Topology.from_links([*links[1:], ("b1", "b8")])
    assert Reachability(indexed(PlanningProblem(source, target))).fewest_steps() == 6


def test_one_shared_set_of_positions_gives_a_weaker_or_equal_bound_on_these() -> None:
    for name, source in ipitt_topologies(40, 5).items():
        target = change_links(source, 0.2, np.random.default_rng(5))
        numbered = indexed(PlanningProblem(source, target))
        apart = Reachability(numbered, apart=True).fewest_steps()
        shared = Reachability(numbered, apart=False).fewest_steps()
        assert apart is not None
        assert shared is not None
        assert shared <= apart, name

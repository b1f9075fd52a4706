"""Generated trees: exactly the brokers asked for, within their limits, from the seed alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubweave.generate.topologies.trees import (
    chain,
    fanout_tree,
    hierarchical_tree,
    ipitt_topologies,
    random_tree,
    star,
)
from pubweave.model.ids import Link
from pubweave.model.topology import Topology

COUNTS = st.integers(1, 80)
SEEDS = st.integers(0, 2**32)


def _assert_tree_of(topology: Topology, count: int) -> None:
    assert topology.is_tree
    assert topology.brokers == {f"b{number}" for number in range(1, count + 1)}


@given(COUNTS, st.integers(2, 9), st.booleans(), SEEDS)
def test_a_hierarchical_tree_has_all_brokers_and_no_degree_above_the_limit(
    count: int, max_degree: int, balanced: bool, seed: int
) -> None:
    made = hierarchical_tree(count, max_degree, balanced, np.random.default_rng(seed))
    _assert_tree_of(made, count)
    assert max(made.degree(broker) for broker in made.brokers) <= max_degree
    assert made.latency_ms.keys() == made.links
    assert all(10 <= ms <= 50 for ms in made.latency_ms.values())


@given(COUNTS, st.integers(2, 9), SEEDS)
def test_leaves_of_a_balanced_tree_lie_on_two_levels_at_most(
    count: int, max_degree: int, seed: int
) -> None:
    made = hierarchical_tree(count, max_degree, True, np.random.default_rng(seed))
    depth = made.hops_from("b1")
    leaf_depths = {depth[leaf] for leaf in made.leaves if leaf != "b1" or count == 1}
    assert max(leaf_depths) - min(leaf_depths) <= 1


def test_unbalanced_trees_are_deeper_than_balanced_ones() -> None:
    def depth(balanced: bool, seed: int) -> int:
        made = hierarchical_tree(100, 5, balanced, np.random.default_rng(seed))
        return max(made.hops_from("b1").values())

    for seed in range(10):
        assert depth(False, seed) > depth(True, seed)


def test_degrees_of_inner_brokers_are_uniform() -> None:
    made = hierarchical_tree(20_000, 5, True, np.random.default_rng(1))
    inner = [broker for broker in made.brokers if made.degree(broker) > 1]
    shares = Counter(made.degree(broker) for broker in inner)
    for degree in (2, 3, 4, 5):
        assert shares[degree] / len(inner) == pytest.approx(0.25, abs=0.02)


def test_two_brokers_fit_a_max_degree_of_one_but_three_do_not() -> None:
    rng = np.random.default_rng(0)
    _assert_tree_of(hierarchical_tree(2, 1, True, rng), 2)
    with pytest.raises(ValueError, match="max degree 1 cannot hold 3 brokers"):
        hierarchical_tree(3, 1, True, rng)


def test_there_are_twelve_different_evaluation_topologies() -> None:
    made = ipitt_topologies(60, seed=1)
    assert list(made)[:3] == ["degree5-balanced-1", "degree5-balanced-2", "degree5-unbalanced-1"]
    assert len(set(made.values())) == 12
    for name, topology in made.items():
        _assert_tree_of(topology, 60)
        limit = int(name[len("degree")])
        assert max(topology.degree(broker) for broker in topology.brokers) <= limit
    assert ipitt_topologies(60, seed=1) == made
    assert ipitt_topologies(60, seed=2) != made


@given(COUNTS, st.integers(1, 5))
def test_a_fanout_tree_is_filled_level_by_level(count: int, fanout: int) -> None:
    made = fanout_tree(count, fanout)
    _assert_tree_of(made, count)
    depth = made.hops_from("b1")
    per_level = Counter(depth.values())
    for level in range(max(per_level)):
        assert per_level[level] == fanout**level


def test_a_fanout_tree_of_two_is_the_heap_numbering() -> None:
    pairs = [("b1", "b2"), ("b1", "b3"), ("b2", "b4"), ("b2", "b5"), ("b3", "b6"), ("b3", "b7")]
    assert fanout_tree(7, 2) == Topology.from_links(pairs)


def test_latencies_are_drawn_only_on_request() -> None:
    assert not fanout_tree(7).latency_ms
    drawn = fanout_tree(7, rng=np.random.default_rng(0))
    assert drawn.latency_ms.keys() == drawn.links


@given(COUNTS)
def test_chains_and_stars_have_their_shape(count: int) -> None:
    row, round_one = chain(count), star(count)
    _assert_tree_of(row, count)
    _assert_tree_of(round_one, count)
    assert row.hops_from("b1")[f"b{count}"] == count - 1
    assert round_one.degree("b1") == count - 1


@given(COUNTS, SEEDS)
def test_a_random_tree_has_all_brokers(count: int, seed: int) -> None:
    _assert_tree_of(random_tree(count, np.random.default_rng(seed)), count)


def test_random_trees_are_uniform() -> None:
    """Cayley: there are 16 trees of 4 labelled brokers, 4 of them stars."""
    rng = np.random.default_rng(5)
    drawn = Counter(random_tree(4, rng).links for _ in range(8000))
    assert len(drawn) == 16
    assert all(400 < times < 600 for times in drawn.values())


@pytest.mark.parametrize("count", [0, -3])
def test_a_tree_without_brokers_is_refused(count: int) -> None:
    rng = np.random.default_rng(0)
    for make in (
        lambda: hierarchical_tree(count, 5, True, rng),
        lambda: fanout_tree(count),
        lambda: star(count),
        lambda: random_tree(count, rng),
    ):
        with pytest.raises(ValueError, match="at least 1 broker"):
            make()


def test_the_same_seed_gives_the_same_tree_and_another_one_another() -> None:
    one, again, other = (
        hierarchical_tree(50, 5, False, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert one == again
    assert one.latency_ms == again.latency_ms
    assert one != other
    assert Link.between("b1", "b2") in one.links


_MAKE_EVERYTHING = """
import hashlib
import numpy as np
from pubweave.generate.topologies import trees, underlay
from pubweave.generate.topologies import real_networks as networks
from pubweave.generate.workloads import ipitt, stocks
from pubweave.generate.topologies.latencies import assign_latencies
from pubweave.model.files.topology import to_graphml, to_json

rng = np.random.default_rng(11)
made = [to_json(t) for t in trees.ipitt_topologies(40, 3).values()]
tree = trees.random_tree(40, rng)
made.append(to_json(trees.change_links(tree, 0.3, rng)))
made.append(str(to_graphml(assign_latencies(tree, np.full((50, 50), 8.0), rng))))
small = underlay.UnderlayParameters(domains=5, routers_per_domain=10)
placed = underlay.place_brokers(underlay.make_underlay(rng, small), 20, rng)
made.append(to_json(placed.minimum_overlay()))
for kind in networks.SpanningTree:
    made.append(to_json(networks.spanning_tree(placed.random_overlay(rng), kind, rng)))
made.append(repr(ipitt.ipitt_workload(tree, rng, subscriber_count=50)))
quotes = stocks.synthetic_quotes(["YHOO", "AAPL", "MSFT"], 30, rng)
for distribution in stocks.Distribution:
    made.append(repr(stocks.stock_workload(quotes, tree, distribution, 4, rng)))
print(hashlib.sha256("".join(made).encode()).hexdigest())
"""


def test_everything_generated_is_the_same_under_another_hash_seed() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _MAKE_EVERYTHING],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1

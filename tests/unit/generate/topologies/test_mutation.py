"""Link change by ratio: exactly as many links, never one that was deleted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pubweave.generate.topologies.trees import chain, change_links, fanout_tree, random_tree, star
from pubweave.model.ids import Link
from pubweave.model.topology import Topology, TopologyError


@given(st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**32))
def test_exactly_the_ratio_of_links_is_replaced(count: int, ratio: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = random_tree(count, rng)
    is_star = max(before.degree(broker) for broker in before.brokers) == count - 1
    assume(not is_star or round(ratio * (count - 1)) < count - 1)
    after = change_links(before, ratio, rng)
    assert after.is_tree
    assert after.brokers == before.brokers
    # A deleted link that came back would not be counted here.
    assert len(before.links - after.links) == round(ratio * (count - 1))
    assert len(after.links - before.links) == round(ratio * (count - 1))


def test_kept_links_keep_their_latencies_and_new_ones_get_one() -> None:
    rng = np.random.default_rng(3)
    before = random_tree(50, rng)
    after = change_links(before, 0.3, rng)
    assert after.latency_ms.keys() == after.links
    for link in after.links & before.links:
        assert after.latency_ms[link] == before.latency_ms[link]
    for link in after.links - before.links:
        assert 10 <= after.latency_ms[link] <= 50


def test_broker_attributes_stay() -> None:
    tree = chain(4)
    named = Topology(tree.brokers, tree.links, {}, {"b1": {"host": "here"}})
    changed = change_links(named, 0.5, np.random.default_rng(0))
    assert changed.broker_attributes == {"b1": {"host": "here"}}


def test_new_links_are_uniform_over_the_pairs_that_join() -> None:
    """b1-b2-b3-b4 without its middle link: three other pairs join the halves."""
    rng = np.random.default_rng(7)
    seen: dict[Link, int] = {}
    for _ in range(3000):
        after = change_links(chain(4), 1 / 3, rng)
        if Link("b2", "b3") not in after.links:
            (added,) = after.links - chain(4).links
            seen[added] = seen.get(added, 0) + 1
    assert seen.keys() == {Link("b1", "b3"), Link("b1", "b4"), Link("b2", "b4")}
    total = sum(seen.values())
    assert all(times / total == pytest.approx(1 / 3, abs=0.05) for times in seen.values())


@pytest.mark.parametrize("tree", [star(6), chain(2), chain(3)])
def test_a_star_cannot_change_all_its_links(tree: Topology) -> None:
    with pytest.raises(TopologyError, match="use a smaller ratio"):
        change_links(tree, 1.0, np.random.default_rng(0))


def test_any_other_tree_can_change_all_its_links() -> None:
    before = chain(4)
    assert not change_links(before, 1.0, np.random.default_rng(0)).links & before.links


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_a_ratio_outside_0_to_1_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        change_links(chain(4), ratio, np.random.default_rng(0))


def test_only_trees_can_be_changed() -> None:
    ring = fanout_tree(3).with_link(Link("b2", "b3"))
    with pytest.raises(TopologyError, match="not a tree"):
        change_links(ring, 0.5, np.random.default_rng(0))

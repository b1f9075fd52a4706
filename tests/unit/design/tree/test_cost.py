"""The cost of a tree: the paper's examples, and one pass against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.design.tree.cost import common_interest, edges_of, total_cost, tree_cost
from pubweave.design.tree.traffic import DesignError, Prices, Traffic
from pubweave.model.ids import Link
from pubweave.model.topology import Topology, TopologyError
from tests.naive import design as naive
from tests.naive.design_instances import as_sets, random_edges, random_prices, random_traffic

# CI Figure 2: one broker between two that share everything; prices chosen to give the paper's sums.
PRICES = Prices.of(
    {"b1": 1.0, "b2": 3.0, "b3": 1.0},
    {Link("b1", "b2"): 2.0, Link("b1", "b3"): 3.0, Link("b2", "b3"): 4.0},
)
OVER_B1 = Topology.from_links([("b1", "b2"), ("b1", "b3")])
DIRECT = Topology.from_links([("b1", "b2"), ("b2", "b3")])


def test_figure_2_the_direct_link_is_cheaper_where_the_middle_broker_only_relays() -> None:
    traffic = Traffic.of(["b1", "b2", "b3"], [(["b2", "b3"], 10.0)])
    assert tree_cost(traffic, PRICES, OVER_B1).total == 100.0
    assert tree_cost(traffic, PRICES, DIRECT).total == 80.0


def test_figure_2_the_relay_is_cheaper_where_it_wants_most_of_it() -> None:
    shared = [(["b2", "b3", "b1"], 9.0), (["b2", "b3"], 1.0)]
    traffic = Traffic.of(["b1", "b2", "b3"], shared)
    assert tree_cost(traffic, PRICES, DIRECT).total == 80.0 + 9.0 * 3.0
    assert tree_cost(traffic, PRICES, OVER_B1).total == 100.0


def test_the_parts_add_up_and_say_who_relays() -> None:
    traffic = Traffic.of(["b1", "b2", "b3"], [(["b2", "b3"], 10.0), (["b1", "b2"], 5.0)])
    cost = tree_cost(traffic, PRICES, OVER_B1)
    assert cost.link_load == {Link("b1", "b2"): 15.0, Link("b1", "b3"): 10.0}
    assert cost.broker_load == {"b1": 15.0, "b2": 15.0, "b3": 10.0}
    assert cost.relayed == {"b1": 10.0, "b2": 0.0, "b3": 0.0}
    assert cost.communication == 15.0 * 2.0 + 10.0 * 3.0
    assert cost.processing == 15.0 * 1.0 + 15.0 * 3.0 + 10.0 * 1.0
    assert cost.per_notification == cost.total / 15.0
    assert cost.per_delivery == cost.total / 15.0


@pytest.mark.parametrize("seed", range(20))
def test_one_pass_is_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    brokers = int(rng.integers(1, 12))
    traffic, prices = random_traffic(rng, brokers, 8), random_prices(rng, brokers)
    edges = random_edges(rng, brokers)
    expected = naive.tree_cost(
        as_sets(traffic),
        [(min(e), max(e)) for e in edges.tolist()],
        prices.processing.tolist(),
        prices.communication.tolist(),
    )
    assert total_cost(traffic, prices, edges) == pytest.approx(expected)


def test_common_interest_counts_the_sets_with_both() -> None:
    traffic = Traffic.of("abc", [("ab", 2.0), ("abc", 3.0), ("c", 1.0)])
    assert common_interest(traffic).tolist() == [[5, 5, 3], [5, 5, 3], [3, 3, 4]]


def test_what_is_no_tree_is_refused() -> None:
    with pytest.raises(TopologyError, match="not a tree"):
        edges_of(Topology.from_links([("a", "b")], brokers=["c"]), ("a", "b", "c"))


def test_brokers_must_be_the_same() -> None:
    with pytest.raises(DesignError, match="'c'"):
        edges_of(Topology.from_links([("a", "b"), ("b", "c")]), ("a", "b"))

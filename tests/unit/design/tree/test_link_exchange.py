"""Exchanges of links: the kernels' prices against the whole cost computed anew."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.design.tree.cost import total_cost
from pubweave.design.tree.link_exchange import Exchange, TreeState
from tests.naive import design as naive
from tests.naive.design_instances import as_sets, random_edges, random_prices, random_traffic


def state(seed: int, brokers: int, sets: int) -> TreeState:
    rng = np.random.default_rng(seed)
    traffic, prices = random_traffic(rng, brokers, sets), random_prices(rng, brokers)
    return TreeState(traffic, prices, random_edges(rng, brokers))


def sides(tree: TreeState, link: tuple[int, int]) -> tuple[list[int], list[int]]:
    reached = [link[0]]
    for broker in reached:
        for a, b in tree.links - {link}:
            for here, there in ((a, b), (b, a)):
                if here == broker and there not in reached:
                    reached.append(there)
    return reached, [v for v in range(len(tree.prices.brokers)) if v not in reached]


def cost_with(tree: TreeState, exchange: Exchange) -> float:
    links = sorted((tree.links - {exchange.removed}) | {exchange.added})
    return naive.tree_cost(
        as_sets(tree.traffic),
        links,
        tree.prices.processing.tolist(),
        tree.prices.communication.tolist(),
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_best_exchange_is_the_best_of_all_places_for_every_link(seed: int) -> None:
    tree = state(seed, brokers=4 + seed % 5, sets=1 + seed)
    before = tree.cost
    for link in sorted(tree.links):
        found = tree.best_exchange(link, tree.prices.communication)
        here, there = sides(tree, link)
        others = [
            cost_with(tree, Exchange(link, (min(a, b), max(a, b)), 0.0))
            for a in here
            for b in there
            if {a, b} != set(link)
        ]
        assert found is not None
        assert before - found.gain == pytest.approx(min(others), abs=1e-4)
        assert cost_with(tree, found) == pytest.approx(min(others), abs=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_a_new_link_prices_the_removal_of_every_link_of_its_ring(seed: int) -> None:
    tree = state(seed, brokers=4 + seed % 5, sets=1 + seed)
    rng = np.random.default_rng(seed)
    a, b = sorted(rng.choice(len(tree.prices.brokers), size=2, replace=False).tolist())
    if (a, b) in tree.links:
        return
    before = tree.cost
    exchanges = tree.removals((a, b))
    assert len(exchanges) == len(tree.path(a, b)) - 1
    for exchange in exchanges:
        assert before - exchange.gain == pytest.approx(cost_with(tree, exchange))


def test_an_applied_exchange_gains_what_was_said() -> None:
    tree = state(3, brokers=30, sets=40)
    for _ in range(20):
        before = tree.cost
        link = min(tree.links)
        found = tree.best_exchange(link, tree.prices.communication)
        assert found is not None
        touched = tree.apply(found)
        assert set(touched) <= tree.links
        assert before - tree.cost == pytest.approx(found.gain, rel=1e-6, abs=1e-4)


def test_a_full_broker_gets_no_link_and_a_price_of_infinity_is_none() -> None:
    tree = state(5, brokers=6, sets=5)
    link = min(tree.links)
    none = np.full_like(tree.prices.communication, np.inf)
    assert tree.best_exchange(link, none) is None
    found = tree.best_exchange(link, tree.prices.communication, max_degree=2)
    assert found is not None
    tree.apply(found)
    assert all(tree.degree(end) <= 2 for end in found.added)


def test_of_links_that_carry_nothing_the_cheaper_one_is_better() -> None:
    tree = state(1, brokers=5, sets=1)
    quiet = TreeState(
        type(tree.traffic).of(tree.traffic.brokers, [(["b1"], 1.0)]), tree.prices, tree.edges
    )
    link = max(quiet.links, key=lambda pair: quiet.prices.communication[pair])
    found = quiet.best_exchange(link, quiet.prices.communication)
    assert found is not None
    assert found.gain > 0
    assert total_cost(quiet.traffic, quiet.prices, quiet.edges) == quiet.prices.processing[0]

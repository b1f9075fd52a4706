"""The proven optimum against all trees, and the global search against the optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pubweave.design.tree.cost import links_of
from pubweave.design.tree.exact import PROVEN_BROKERS_MAX, cheap_bound, cheapest_tree
from pubweave.design.tree.global_search import search
from pubweave.design.tree.problem import DesignLimits, DesignProblem, DesignStatus
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from tests.naive import design as naive
from tests.naive.design_instances import as_sets, random_edges, random_prices, random_traffic


def problem(seed: int, brokers: int, sets: int, **limits: Any) -> DesignProblem:
    rng = np.random.default_rng(seed)
    traffic, prices = random_traffic(rng, brokers, sets), random_prices(rng, brokers)
    links = links_of(random_edges(rng, brokers), prices.brokers)
    source = Topology(frozenset(prices.brokers), links)
    return DesignProblem(source, traffic, prices, DesignLimits(**limits))


def solved(asked: DesignProblem) -> Any:
    return cheapest_tree(asked, stop=lambda: False, rng=np.random.default_rng(1))


def optimum(asked: DesignProblem) -> float:
    """The cheapest of all trees that keep the limits."""
    limits, brokers = asked.limits, asked.brokers
    best = np.inf
    for edges in naive.all_trees(len(brokers)):
        links = links_of(np.array(edges, dtype=np.int64), brokers)
        tree = Topology(frozenset(brokers), links)
        if limits.max_degree and max(map(tree.degree, brokers)) > limits.max_degree:
            continue
        if not limits.pinned <= links or limits.forbidden & links:
            continue
        if limits.max_changes is not None and len(links - asked.source.links) > limits.max_changes:
            continue
        cost = naive.tree_cost(
            as_sets(asked.traffic),
            edges,
            asked.prices.processing.tolist(),
            asked.prices.communication.tolist(),
        )
        best = min(best, cost)
    return float(best)


@pytest.mark.parametrize("seed", range(8))
def test_the_optimum_is_the_cheapest_of_all_trees(seed: int) -> None:
    asked = problem(seed, brokers=3 + seed % 4, sets=2 + seed)
    result = solved(asked)
    assert result.status is DesignStatus.OPTIMAL
    assert result.cost == pytest.approx(optimum(asked))
    assert cheap_bound(asked) <= result.cost * (1 + 1e-9)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_degree": 2},
        {"pinned": frozenset({Link("b1", "b2"), Link("b3", "b5")})},
        {"forbidden": frozenset({Link("b1", "b2"), Link("b1", "b3"), Link("b2", "b4")})},
        {"max_changes": 1},
        {"max_changes": 2, "max_degree": 3, "pinned": frozenset({Link("b2", "b3")})},
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_limits_are_kept_at_the_least_cost(seed: int, limits: dict[str, Any]) -> None:
    asked = problem(seed, brokers=5, sets=6, **limits)
    result = solved(asked)
    assert result.status is DesignStatus.OPTIMAL
    assert result.cost == pytest.approx(optimum(asked))


def test_a_stopped_proof_claims_nothing() -> None:
    asked = problem(3, brokers=6, sets=9)
    result = cheapest_tree(asked, stop=lambda: True, rng=np.random.default_rng(1))
    assert result.status is DesignStatus.BEST_FOUND
    assert result.bound is not None
    assert result.bound <= result.cost


def test_many_brokers_get_the_best_found_and_a_bound() -> None:
    asked = problem(3, brokers=PROVEN_BROKERS_MAX + 5, sets=9)
    result = solved(asked)
    assert result.status is DesignStatus.BEST_FOUND
    assert result.bound is not None
    assert result.bound <= result.cost


def test_the_global_search_finds_the_optimum_of_seven_brokers() -> None:
    for seed in range(5):
        asked = problem(seed, brokers=7, sets=12)
        found = search(asked, stop=lambda: False, rng=np.random.default_rng(2))
        result = solved(asked)
        assert result.status is DesignStatus.OPTIMAL
        assert found.cost == pytest.approx(result.cost)

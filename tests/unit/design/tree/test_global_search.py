"""The global search: local optima, the same for the same seed, within limits, also by a sample."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.design.tree import global_search
from pubweave.design.tree.cost import links_of, total_cost
from pubweave.design.tree.global_search import GlobalSearch, search
from pubweave.design.tree.link_exchange import TreeState
from pubweave.design.tree.problem import DesignProblem, DesignProgress
from pubweave.design.tree.spanning import starting_trees
from pubweave.model.topology import Topology
from tests.naive.design_instances import random_edges, random_prices, random_traffic
from tests.naive.traffic import groups_of


def problem(seed: int, brokers: int = 25, sets: int = 40) -> DesignProblem:
    rng = np.random.default_rng(seed)
    traffic, prices = random_traffic(rng, brokers, sets), random_prices(rng, brokers)
    links = links_of(random_edges(rng, brokers), prices.brokers)
    return DesignProblem(Topology(frozenset(prices.brokers), links), traffic, prices)


def running(asked: DesignProblem) -> GlobalSearch:
    return GlobalSearch(asked, stop=lambda: False, rng=np.random.default_rng(7))


@pytest.mark.parametrize("seed", range(3))
def test_no_exchange_of_two_links_improves_what_it_ends_with(seed: int) -> None:
    asked = problem(seed)
    found = running(asked)
    found.descend_from_starts()
    state = TreeState(asked.traffic, asked.prices, found.best.edges)
    for link in sorted(state.links):
        better = state.best_exchange(link, asked.prices.communication)
        assert better is not None
        assert better.gain <= 1e-9 * found.best.cost


def test_kicks_only_ever_help_and_the_cost_is_kept_right() -> None:
    asked = problem(4)
    found = running(asked)
    found.descend_from_starts()
    before = found.best.cost
    found.kick(40)
    assert found.best.cost <= before
    assert found.best.cost == pytest.approx(
        total_cost(asked.traffic, asked.prices, found.best.edges)
    )


def test_the_same_seed_gives_the_same_tree_and_tells_about_it() -> None:
    told: list[DesignProgress] = []
    trees = [
        search(
            problem(5), stop=lambda: False, rng=np.random.default_rng(1), on_progress=told.append
        ).links
        for _ in range(2)
    ]
    assert trees[0] == trees[1]
    costs = [each.cost for each in told[: len(told) // 2]]
    assert costs
    assert costs[-1] == min(costs)


def test_a_stop_at_once_leaves_the_best_start() -> None:
    asked = problem(6)
    result = search(asked, stop=lambda: True, rng=np.random.default_rng(1))
    costs = [total_cost(asked.traffic, asked.prices, edges) for edges in starting_trees(asked)]
    assert result.cost == pytest.approx(min(costs))


def test_a_sample_shows_the_way_and_the_whole_traffic_has_the_last_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(global_search, "_SAMPLED_SETS", 20)
    asked = problem(8, sets=200)
    found = running(asked)
    found.descend_from_starts()
    state = TreeState(asked.traffic, asked.prices, found.best.edges)
    gains = [
        better.gain
        for link in sorted(state.links)
        for better in [state.best_exchange(link, asked.prices.communication)]
        if better is not None
    ]
    assert max(gains) <= 1e-9 * found.best.cost


def test_a_sample_is_about_the_same_traffic() -> None:
    traffic = problem(9, sets=60).traffic
    sample = traffic.sample(5_000, np.random.default_rng(2))
    assert sample.notifications == pytest.approx(traffic.notifications)
    assert sample.set_count <= traffic.set_count
    expected, weights = dict(groups_of(traffic)), dict(groups_of(sample))
    heaviest = max(expected, key=expected.__getitem__)
    assert weights[heaviest] == pytest.approx(expected[heaviest], rel=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_starting_trees_are_trees(seed: int) -> None:
    asked = problem(seed)
    for edges in starting_trees(asked):
        assert Topology(frozenset(asked.brokers), links_of(edges, asked.brokers)).is_tree

"""Underlays: connected, Internet-like, and distances that are shortest paths."""

from __future__ import annotations

from collections import Counter

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.generate.topologies.underlay import (
    Geometry,
    PlacedBrokers,
    Underlay,
    UnderlayParameters,
    make_underlay,
    place_brokers,
)


def _graph(underlay: Underlay) -> networkx.MultiGraph:
    graph = networkx.MultiGraph()
    graph.add_nodes_from(range(underlay.router_count))
    for (a, b), ms in zip(underlay.links.tolist(), underlay.latency_ms.tolist(), strict=True):
        graph.add_edge(a, b, ms=ms)
    return graph


@pytest.fixture(scope="module")
def full_size() -> Underlay:
    return make_underlay(np.random.default_rng(1))


@pytest.fixture(scope="module")
def placed(full_size: Underlay) -> PlacedBrokers:
    return place_brokers(full_size, 100, np.random.default_rng(2))


def test_the_default_is_the_scale_of_the_ci_evaluation(full_size: Underlay) -> None:
    assert full_size.router_count > 10_000
    assert len(np.unique(full_size.domain)) == 100
    assert networkx.is_connected(_graph(full_size))


def test_some_domains_are_hubs(full_size: Underlay) -> None:
    """Preferential attachment: the best linked domain has several times the mean of about 4."""
    ends = full_size.domain[full_size.links]
    between = ends[ends[:, 0] != ends[:, 1]]
    degrees = Counter(between.ravel().tolist())
    assert len(between) == 1 + 2 * 98
    assert max(degrees.values()) > 12
    assert min(degrees.values()) >= 1


def test_routers_link_to_near_ones(full_size: Underlay) -> None:
    """Waxman: links inside a domain are shorter than its random pairs (mean 0.52 of the side)."""
    a, b = full_size.links.T
    inside = full_size.domain[a] == full_size.domain[b]
    length = np.linalg.norm(full_size.position[a] - full_size.position[b], axis=1)
    assert length[inside].mean() < 0.8 * 52
    np.testing.assert_allclose(full_size.latency_ms, length * 0.025)


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 3), st.integers(0, 2**32))
def test_small_underlays_are_connected_and_distances_are_shortest_paths(
    domains: int, routers: int, links: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    parameters = UnderlayParameters(
        domains=domains, routers_per_domain=routers, domain_links=links, router_links=links
    )
    underlay = make_underlay(rng, parameters)
    graph = _graph(underlay)
    assert networkx.is_connected(graph)
    placed = place_brokers(underlay, min(5, underlay.router_count), rng)
    assert len(set(placed.routers)) == len(placed.brokers)
    for i, start in enumerate(placed.routers):
        shortest = networkx.single_source_dijkstra_path_length(graph, start, weight="ms")
        for j, end in enumerate(placed.routers):
            assert placed.distance_ms[i, j] == pytest.approx(shortest[end])


def test_in_brite_s_geometry_every_domain_has_a_plane_of_its_own() -> None:
    """Domains cover each other, so links between them are as long as any two places apart."""
    brite = make_underlay(np.random.default_rng(1), UnderlayParameters(geometry=Geometry.BRITE))
    for domain in (0, 57):
        places = brite.position[brite.domain == domain]
        assert places.min() < 60
        assert places.max() > 940
        assert (places >= 0).all()
        assert (places <= 1000).all()
    a, b = brite.links.T
    length = np.linalg.norm(brite.position[a] - brite.position[b], axis=1)
    np.testing.assert_allclose(brite.latency_ms, length * 0.025)
    inside = brite.domain[a] == brite.domain[b]
    assert length[~inside].mean() == pytest.approx(521, rel=0.15)
    assert length[inside].mean() < 0.8 * 521


def test_where_hops_count_all_links_are_alike() -> None:
    hops = make_underlay(
        np.random.default_rng(1),
        UnderlayParameters(domains=5, routers_per_domain=9, geometry=Geometry.HOPS, hop_ms=2.0),
    )
    assert set(hops.latency_ms.tolist()) == {2.0}


def test_costs_fill_their_range(placed: PlacedBrokers) -> None:
    costs = placed.link_costs(1.0, 10.0)
    pairs = ~np.eye(100, dtype=bool)
    assert costs[pairs].min() == pytest.approx(1.0)
    assert costs[pairs].max() == pytest.approx(10.0)
    assert not costs.diagonal().any()
    np.testing.assert_array_equal(costs, costs.T)


def test_a_single_broker_has_no_costs(full_size: Underlay) -> None:
    alone = place_brokers(full_size, 1, np.random.default_rng(0))
    assert alone.link_costs().tolist() == [[0.0]]
    assert alone.minimum_overlay().brokers == {"b1"}


def test_overlays_are_trees_with_the_distances_of_the_underlay(placed: PlacedBrokers) -> None:
    shortest = placed.minimum_overlay()
    random = placed.random_overlay(np.random.default_rng(3))
    for tree in (shortest, random):
        assert tree.is_tree
        assert len(tree.brokers) == 100
        for link, ms in tree.latency_ms.items():
            i, j = placed.brokers.index(link.a), placed.brokers.index(link.b)
            assert ms == pytest.approx(placed.distance_ms[i, j], abs=0.001)
    graph = networkx.from_numpy_array(placed.distance_ms)
    least = networkx.minimum_spanning_tree(graph).size(weight="weight")
    assert sum(shortest.latency_ms.values()) == pytest.approx(least, abs=0.1)
    assert sum(random.latency_ms.values()) > 2 * least


@pytest.mark.parametrize("count", [0, 10_101])
def test_brokers_beyond_the_routers_are_refused(full_size: Underlay, count: int) -> None:
    with pytest.raises(ValueError, match="room for 1 to 10100 brokers"):
        place_brokers(full_size, count, np.random.default_rng(0))


def test_bad_parameters_are_named() -> None:
    with pytest.raises(ValueError, match="domains must be at least 1"):
        UnderlayParameters(domains=0)
    with pytest.raises(ValueError, match="waxman_beta must be positive"):
        UnderlayParameters(waxman_beta=0)

"""Spanning trees of real networks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubweave.generate.topologies.latencies import draw_latencies
from pubweave.generate.topologies.real_networks import (
    SpanningTree,
    great_circle_km,
    read_network,
    spanning_tree,
)
from pubweave.generate.topologies.trees import chain, random_tree
from pubweave.model.ids import Link
from pubweave.model.topology import Topology, TopologyError
from tests.shared_data import shared_data

BERLIN, PARIS, MADRID = (52.52, 13.405), (48.857, 2.352), (40.417, -3.703)


@pytest.fixture
def small_map(tmp_path: Path) -> Path:
    """Berlin, Paris and Madrid in a triangle, a fourth site of unknown place, a part apart."""
    graph = networkx.Graph()
    for node, (latitude, longitude) in enumerate((BERLIN, PARIS, MADRID), start=2):
        graph.add_node(node, label=f"city{node}", Latitude=latitude, Longitude=longitude)
    graph.add_edges_from([(2, 3), (3, 4), (2, 4), (4, 10), (0, 1)])
    path = tmp_path / "map.graphml"
    networkx.write_graphml(graph, path)
    return path


def test_great_circles_are_right() -> None:
    assert great_circle_km(BERLIN, PARIS) == pytest.approx(878, abs=3)
    assert great_circle_km((0, 0), (0, 180)) == pytest.approx(20015, abs=1)
    assert great_circle_km(BERLIN, BERLIN) == 0


def test_a_map_becomes_its_largest_part_with_latencies_from_distances(small_map: Path) -> None:
    network = read_network(small_map)
    pairs = [("b1", "b2"), ("b2", "b3"), ("b1", "b3"), ("b3", "b4")]
    assert network == Topology.from_links(pairs)
    assert network.latency_ms[Link("b1", "b2")] == pytest.approx(878 / 200, abs=0.02)
    assert network.broker_attributes["b1"]["label"] == "city2"
    assert network.broker_attributes["b4"] == {}
    known = sorted(network.latency_ms[Link.between(a, b)] for a, b in pairs[:3])
    assert network.latency_ms[Link("b3", "b4")] == known[1], "the median of the known ones"


def test_the_minimum_tree_leaves_out_the_longest_side(small_map: Path) -> None:
    tree = spanning_tree(read_network(small_map), SpanningTree.MINIMUM, np.random.default_rng(0))
    assert tree.is_tree
    assert Link("b1", "b3") not in tree.links
    assert tree.latency_ms.keys() == tree.links


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tree = random_tree(draw(st.integers(1, 20)), rng)
    brokers = sorted(tree.brokers)
    pairs = rng.integers(len(brokers), size=(10, 2)).tolist()
    extra = {Link.between(brokers[i], brokers[j]) for i, j in pairs if i != j}
    links = tree.links | extra
    return Topology(tree.brokers, links, draw_latencies(links, rng))


@given(networks(), st.sampled_from(SpanningTree), st.integers(0, 99))
def test_spanning_trees_are_trees_of_the_networks_links(
    network: Topology, kind: SpanningTree, seed: int
) -> None:
    tree = spanning_tree(network, kind, np.random.default_rng(seed))
    assert tree.is_tree
    assert tree.brokers == network.brokers
    assert tree.links <= network.links
    assert all(tree.latency_ms[link] == network.latency_ms[link] for link in tree.links)


@given(networks())
def test_the_minimum_tree_is_as_short_as_the_one_of_networkx(network: Topology) -> None:
    graph = networkx.Graph()
    graph.add_nodes_from(network.brokers)
    graph.add_weighted_edges_from((*link, network.latency_ms[link]) for link in network.links)
    shortest = networkx.minimum_spanning_tree(graph).size(weight="weight")
    tree = spanning_tree(network, SpanningTree.MINIMUM, np.random.default_rng(0))
    assert sum(tree.latency_ms.values()) == pytest.approx(shortest)


def test_uniform_trees_are_uniform() -> None:
    """A square with one diagonal has 8 spanning trees."""
    square = chain(4).with_link(Link("b1", "b4")).with_link(Link("b1", "b3"))
    rng = np.random.default_rng(2)
    drawn = Counter(spanning_tree(square, SpanningTree.UNIFORM, rng).links for _ in range(4000))
    assert len(drawn) == 8
    assert all(420 < times < 580 for times in drawn.values())


def test_what_cannot_be_spanned_is_refused(tmp_path: Path) -> None:
    apart = Topology.from_links([("b1", "b2")], brokers=["b3"])
    with pytest.raises(TopologyError, match="not connected"):
        spanning_tree(apart, SpanningTree.MINIMUM, np.random.default_rng(0))
    path = tmp_path / "empty.graphml"
    networkx.write_graphml(networkx.Graph(), path)
    with pytest.raises(TopologyError, match=r"empty\.graphml: the map has no nodes"):
        read_network(path)


@pytest.mark.data
@pytest.mark.parametrize("name", ["Abilene", "AttMpls", "Colt", "Geant2012", "Interoute"])
def test_real_maps_have_spanning_trees(name: str) -> None:
    network = read_network(shared_data(f"topology/graphml/{name}.graphml"))
    assert min(network.latency_ms.values()) >= 0.1
    for kind in SpanningTree:
        tree = spanning_tree(network, kind, np.random.default_rng(0))
        assert tree.is_tree
        assert tree.brokers == network.brokers

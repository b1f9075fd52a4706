"""Hybrid networks as files: what can be, what is said of what cannot, who is told what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubweave.generate.topologies.real_networks import hybrid_network
from pubweave.model.topology import Topology
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay.clusters import block_of, cluster_of, ring_of
from pubweave.runtime.overlay.spec import OverlaySpec, make_spec
from pubweave.runtime.settings.tree import PlacementTable, Settings


def spec_of(topology: Topology) -> OverlaySpec:
    return make_spec(topology, base_port=0, strategy="rendezvous")


def topology_of(links: list[tuple[str, str]], **clusters: str) -> Topology:
    made = Topology.from_links(links)
    return replace(made, broker_attributes={b: {"cluster": c} for b, c in clusters.items()})


@given(
    st.integers(1, 4), st.integers(1, 3), st.integers(0, 20), st.integers(0, 2**32 - 1)
)  # fmt: skip
def test_a_hybrid_network_has_gateways_and_each_part_is_in_one_piece(
    clusters: int, gateways: int, more: int, seed: int
) -> None:
    brokers = (clusters + 1) * gateways + more
    made = hybrid_network(brokers, clusters, gateways, np.random.default_rng(seed))
    spec = spec_of(made)
    ring = [b for b in spec.brokers if spec.strategy_of(b) == "rendezvous"]
    positions = [spec.position_of(b) for b in ring]
    assert positions == sorted(set(positions), key=lambda p: p or 0)
    for cluster in {cluster_of(made, b) for b in spec.brokers} - {None}:
        inside = [b for b in spec.brokers if cluster_of(made, b) == cluster]
        linked = [b for b in inside if ring_of(made, b)]
        assert len(linked) == gateways
        assert all(spec.ring_of(b) == ring_of(made, b) for b in inside)
        assert len([link for link in made.links if {*link} <= set(inside)]) == len(inside) - 1


def test_only_gateways_are_told_of_the_border() -> None:
    spec = spec_of(topology_of([("b1", "b2"), ("b2", "c1"), ("c1", "c2")], c1="w", c2="w"))
    assert set(spec.neighbors("b2")) == {"b1"}
    assert set(spec.neighbors("c1")) == {"b2", "c2"}
    assert (spec.ring_of("c1"), spec.ring_of("c2"), spec.ring_of("b2")) == (("b2",), (), ())
    assert (spec.position_of("c1"), spec.position_of("b2")) == (None, 1 << 31)


@pytest.mark.parametrize(
    ("topology", "told"),
    [
        (topology_of([("c1", "c2")], c1="w", c2="w"), "no broker is on the ring"),
        (topology_of([("b1", "c1"), ("c1", "d1")], c1="w", d1="e"), "c1 - d1 joins two clusters"),
        (
            topology_of([("b1", "c1"), ("d1", "d2")], c1="w", d1="e", d2="e"),
            "cluster 'e' has no gateway",
        ),
    ],
)
def test_what_cannot_be_is_said(topology: Topology, told: str) -> None:
    with pytest.raises(OverlayError, match=told):
        spec_of(topology)


@given(st.integers(1, 30), st.integers(2, 9))
def test_placement_clusters_are_a_partition_of_about_that_size(count: int, size: int) -> None:
    brokers = [f"b{number}" for number in range(count)]
    blocks = [tuple(block_of(brokers, size, broker)) for broker in brokers]
    different = list(dict.fromkeys(blocks))
    assert [broker for block in different for broker in block] == brokers
    sizes = [len(block) for block in different]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(size, count)


def test_members_of_a_placement_cluster_are_neighbors() -> None:
    chain = Topology.from_links([(f"b{n}", f"b{n + 1}") for n in range(1, 6)])
    placed = Settings(placement=PlacementTable(update_s=2.0, size=3))
    spec = make_spec(chain, placed, base_port=0, strategy="rendezvous")
    assert spec.placement_of("b1") == PlacementTable(members=("b2", "b3"), update_s=2.0, size=3)
    assert set(spec.neighbors("b1")) == {"b2", "b3"}
    assert spec_of(chain).placement_of("b1") == PlacementTable()

"""Questions about a topology and the small changes that give another."""

from __future__ import annotations

import pytest

from pubweave.model.ids import Link
from pubweave.model.topology import Topology, TopologyError, validate_tree


@pytest.fixture
def fork() -> Topology:
    """b1 - b2 - b3, and b4 at b2."""
    latency_ms = {Link("b1", "b2"): 10.0, Link("b2", "b3"): 20.0, Link("b2", "b4"): 5.0}
    return Topology.from_links(latency_ms, latency_ms=latency_ms)


def test_neighbors_are_in_the_order_of_their_ids(fork: Topology) -> None:
    assert fork.neighbors["b2"] == ("b1", "b3", "b4")
    assert list(fork.neighbors) == ["b1", "b2", "b3", "b4"]


def test_degree_and_leaves(fork: Topology) -> None:
    assert fork.degree("b2") == 3
    assert fork.leaves == ("b1", "b3", "b4")


def test_distances_add_up_along_the_path(fork: Topology) -> None:
    assert fork.hops_from("b1") == {"b1": 0, "b2": 1, "b3": 2, "b4": 2}
    assert fork.ms_from("b1") == {"b1": 0.0, "b2": 10.0, "b3": 30.0, "b4": 15.0}
    assert fork.path("b3", "b4") == ("b3", "b2", "b4")


def test_distance_in_ms_names_the_link_whose_latency_is_missing() -> None:
    with pytest.raises(TopologyError, match="b1-b2 is not known"):
        Topology.from_links([("b1", "b2")]).ms_from("b1")


def test_a_link_can_be_added_and_taken_away(fork: Topology) -> None:
    changed = fork.without_link(Link("b2", "b4")).with_link(Link("b3", "b4"), 7.0)
    assert changed.is_tree
    assert changed.neighbors["b4"] == ("b3",)
    assert changed.latency_ms[Link("b3", "b4")] == 7.0
    assert Link("b2", "b4") not in changed.latency_ms
    assert fork.degree("b4") == 1, "the original is untouched"


def test_adding_a_present_link_or_removing_an_absent_one_is_refused(fork: Topology) -> None:
    with pytest.raises(TopologyError, match="already there"):
        fork.with_link(Link("b1", "b2"))
    with pytest.raises(TopologyError, match="not there"):
        fork.without_link(Link("b1", "b3"))
    with pytest.raises(TopologyError, match="unknown broker 'b9'"):
        fork.with_link(Link("b1", "b9"))


def test_a_link_out_of_order_is_refused() -> None:
    with pytest.raises(TopologyError, match="not in order"):
        Topology(frozenset({"b1", "b2"}), frozenset({Link("b2", "b1")}))


def test_an_unknown_broker_is_named(fork: Topology) -> None:
    with pytest.raises(TopologyError, match="no broker 'b9'"):
        fork.path("b9", "b1")


def test_components_come_largest_first() -> None:
    topology = Topology.from_links([("b5", "b6"), ("b2", "b3"), ("b3", "b4")], brokers=["b1"])
    assert topology.components == (("b2", "b3", "b4"), ("b5", "b6"), ("b1",))


def test_equality_is_about_brokers_and_links_only(fork: Topology) -> None:
    bare = Topology(fork.brokers, fork.links)
    assert bare == fork
    assert hash(bare) == hash(fork)


def test_validate_tree_says_what_is_wrong(fork: Topology) -> None:
    validate_tree(fork)
    with pytest.raises(TopologyError, match=r"1 link\(s\) too many"):
        validate_tree(fork.with_link(Link("b3", "b4")))
    with pytest.raises(TopologyError, match="cannot be reached from 'b1', for example 'b4'"):
        validate_tree(fork.without_link(Link("b2", "b4")))
    with pytest.raises(TopologyError, match="no brokers"):
        validate_tree(Topology(frozenset(), frozenset()))

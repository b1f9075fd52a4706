"""Questions about a topology and the small changes that give another."""

from __future__ import annotations

import numpy as np
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
    with pytest.raises(TopologyError, match=r"b4-b2 closes a cycle; remove one link of b2-b3-b4$"):
        validate_tree(fork.with_link(Link("b3", "b4")))
    with pytest.raises(TopologyError, match="cannot be reached from 'b1', for example 'b4'"):
        validate_tree(fork.without_link(Link("b2", "b4")))
    with pytest.raises(TopologyError, match="no brokers"):
        validate_tree(Topology(frozenset(), frozenset()))


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        (
            [("b4", "b1"), ("b1", "b2"), ("b2", "b3"), ("b3", "b4")],
            "b4-b1 closes a cycle; remove one link of b1-b2-b3-b4",
        ),
        (
            [("b1", "b9"), ("b9", "b10"), ("b10", "b11"), ("b9", "b11"), ("b1", "b0")],
            "b11-b9 closes a cycle; remove one link of b9-b10-b11",
        ),
        (
            [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e"), ("c", "e")],
            "c-a closes a cycle; remove one link of a-b-c, and 1 more link(s) for other cycles",
        ),
        (
            [(f"b{i}", f"b{i % 99 + 1}") for i in range(1, 100)],
            "b99-b1 closes a cycle; remove one link of b1-b2-b3-b4-b5-b6-b7-b8-b9-b10-b11-...-b99",
        ),
    ],
    ids=["ring", "with branches", "two cycles", "long"],
)
def test_a_cycle_is_named_link_by_link(pairs: list[tuple[str, str]], told: str) -> None:
    with pytest.raises(TopologyError) as caught:
        validate_tree(Topology.from_links(pairs))
    assert str(caught.value) == f"not a tree: {told}"


def test_the_named_cycle_is_one_whatever_the_topology() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        ids = [f"b{i}" for i in range(int(rng.integers(3, 12)))]
        tree = {Link.between(ids[i], ids[int(rng.integers(0, i))]) for i in range(1, len(ids))}
        extra = {Link.between(*map(str, rng.choice(ids, 2, replace=False))) for _ in range(3)}
        if not extra - tree:
            continue
        found = Topology(frozenset(ids), frozenset(tree | extra))
        with pytest.raises(TopologyError) as caught:
            validate_tree(found)
        cycle = str(caught.value).partition("remove one link of ")[2].partition(",")[0].split("-")
        assert len(cycle) == len(set(cycle)) >= 3
        for one, other in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            assert Link.between(one, other) in found.links

"""Brokers stay where they are in the picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pubweave.dashboard.documents import links_after
from pubweave.dashboard.snapshot import Positions
from pubweave.dashboard.state import PictureFrame
from pubweave.generate.topologies.trees import hierarchical_tree
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.plots.tree_layout import settled_layout
from tests.browser.made_overlay import make_steps


class CountingPlacer:
    """The real one, and how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, topologies: Sequence[Topology], start: Positions | None) -> Positions:
        self.calls += 1
        return settled_layout(topologies, start)


def tree(count: int = 30) -> Topology:
    return hierarchical_tree(count, 5, True, np.random.default_rng(4))


def test_nothing_is_worked_out_again_while_nothing_changes() -> None:
    placer = CountingPlacer()
    frame = PictureFrame(placer)
    topology = tree()
    first = frame.settle(topology.brokers, topology.links, None)
    assert first.keys() == topology.brokers
    assert frame.settle(topology.brokers, topology.links, None) == first
    assert placer.calls == 1


def test_nobody_moves_from_a_plans_proposal_to_its_last_step() -> None:
    frame = PictureFrame(settled_layout)
    topology = tree()
    steps = make_steps(topology, 4, np.random.default_rng(1))
    target = links_after(topology.links, steps)
    proposed = frame.settle(topology.brokers, topology.links, target)
    for done in range(len(steps) + 1):
        links = links_after(topology.links, steps[:done])
        assert frame.settle(topology.brokers, links, target) == proposed


def test_after_a_small_change_most_brokers_are_about_where_they_were() -> None:
    """A picture that is drawn from scratch would turn and mirror itself."""
    frame = PictureFrame(settled_layout)
    topology = tree(60)
    before = frame.settle(topology.brokers, topology.links, None)
    steps = make_steps(topology, 1, np.random.default_rng(2))
    after = frame.settle(topology.brokers, links_after(topology.links, steps), None)
    moved = sorted(math.dist(before[b], after[b]) for b in topology.brokers)
    assert moved[-1] > 0
    assert moved[len(moved) // 2] < 0.15
    assert moved[int(len(moved) * 0.9)] < 0.4


def test_brokers_that_join_get_a_place_and_those_that_left_have_none() -> None:
    frame = PictureFrame(settled_layout)
    topology = tree(10)
    frame.settle(topology.brokers, topology.links, None)
    joined = topology.links | {Link.between("b1", "new")}
    assert "new" in frame.settle(topology.brokers, joined, None)
    assert frame.settle(topology.brokers, topology.links, None).keys() == topology.brokers


def test_an_overlay_without_links_or_brokers_has_a_picture() -> None:
    frame = PictureFrame(settled_layout)
    assert frame.settle(frozenset(), frozenset(), None) == {}
    assert frame.settle(frozenset({"b1", "b2", "b3"}), frozenset(), None).keys() == {
        "b1",
        "b2",
        "b3",
    }

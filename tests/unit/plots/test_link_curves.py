"""Links in a picture: straight where they can be, bowed around brokers that are in the way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pubweave.generate.topologies.trees import random_tree
from pubweave.model.ids import Link
from pubweave.plots.plan import LinkCurves
from pubweave.plots.tree_layout import Positions, settled_layout

ON_A_LINE: Positions = {"b1": (-1.0, 0.0), "b2": (0.0, 0.0), "b3": (1.0, 0.0), "b4": (0.0, 1.0)}


def nearest(curves: LinkCurves, link: Link, positions: Positions) -> float:
    """How near the link comes to a broker that is not its own."""
    points = [curves.at(link, share) for share in np.linspace(0, 1, 41)]
    others = [place for broker, place in positions.items() if broker not in link]
    return min(math.dist(point, place) for point in points for place in others)


def test_a_free_link_is_straight() -> None:
    curves = LinkCurves(ON_A_LINE, clearance=0.1)
    assert curves.control(Link("b1", "b2")) == (-0.5, 0.0)
    assert curves.at(Link("b1", "b2"), 0.25) == (-0.75, 0.0)


def test_a_link_over_a_broker_is_bowed_around_it() -> None:
    curves = LinkCurves(ON_A_LINE, clearance=0.1)
    assert nearest(curves, Link("b1", "b3"), ON_A_LINE) > 0.1
    # So it does not hide the links that lie on the same line.
    assert curves.at(Link("b1", "b3"), 0.25)[1] != 0.0


def test_it_ends_at_its_brokers() -> None:
    curves = LinkCurves(ON_A_LINE, clearance=0.1)
    assert curves.at(Link("b1", "b3"), 0.0) == (-1.0, 0.0)
    assert curves.at(Link("b1", "b3"), 1.0) == (1.0, 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_links_of_a_tree_keep_clear_of_brokers(seed: int) -> None:
    tree = random_tree(20, np.random.default_rng(seed))
    positions = settled_layout([tree])
    curves = LinkCurves(positions, clearance=0.1)
    for link in sorted(tree.links):
        assert nearest(curves, link, positions) > 0.07


def test_two_brokers_have_nobody_in_the_way() -> None:
    curves = LinkCurves({"b1": (0.0, 0.0), "b2": (1.0, 0.0)}, clearance=0.1)
    assert curves.control(Link("b1", "b2")) == (0.5, 0.0)

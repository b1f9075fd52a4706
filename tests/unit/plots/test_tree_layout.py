"""Places of brokers in a picture."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from pubweave.generate.topologies.trees import chain, change_links, random_tree, star
from pubweave.model.topology import Topology
from pubweave.plots.tree_layout import Positions, centre_of, radial_layout, settled_layout


def test_the_centre_is_the_middle_of_a_longest_path() -> None:
    assert centre_of(chain(5)) == "b3"
    assert centre_of(star(6)) == "b1"


def test_a_ring_is_a_distance_from_the_centre() -> None:
    positions = radial_layout(chain(5))
    assert positions["b3"] == (0.0, 0.0)
    assert math.hypot(*positions["b2"]) == pytest.approx(0.5)
    assert math.hypot(*positions["b5"]) == pytest.approx(1.0)


def test_one_broker_has_a_place() -> None:
    assert radial_layout(Topology.from_links([], brokers=["b1"])) == {"b1": (0.0, 0.0)}


@pytest.mark.parametrize("seed", range(5))
def test_no_two_brokers_share_a_place(seed: int) -> None:
    positions = radial_layout(random_tree(40, np.random.default_rng(seed)))
    assert len(positions) == 40
    places = sorted((round(x, 6), round(y, 6)) for x, y in positions.values())
    assert len(set(places)) == 40


def nearest(positions: Positions) -> float:
    return min(math.dist(one, other) for one, other in combinations(positions.values(), 2))


def area(positions: Positions, *brokers: str) -> float:
    """Twice the area between three brokers: nothing where they lie on one line."""
    (ax, ay), (bx, by), (cx, cy) = (positions[broker] for broker in brokers)
    return abs((bx - ax) * (cy - ay) - (cx - ax) * (by - ay))


def test_three_neighbors_of_a_chain_do_not_lie_on_one_line() -> None:
    """Or the shift of one's link to the other would be drawn over the link it slides along."""
    positions = settled_layout([chain(9)])
    for number in range(1, 8):
        assert area(positions, *(f"b{number + step}" for step in range(3))) > 0.01


@pytest.mark.parametrize("seed", range(5))
def test_settled_brokers_keep_apart_and_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = random_tree(60, rng)
    positions = settled_layout([source, change_links(source, 0.3, rng)])
    assert nearest(positions) > 0.1
    assert max(abs(value) for place in positions.values() for value in place) == pytest.approx(1.0)


def test_links_of_the_target_are_short_too() -> None:
    rng = np.random.default_rng(3)
    source = random_tree(40, rng)
    target = change_links(source, 0.3, rng)

    def length(positions: Positions) -> float:
        new = target.links - source.links
        return sum(math.dist(positions[link.a], positions[link.b]) for link in new)

    assert length(settled_layout([source, target])) < 0.6 * length(settled_layout([source]))


def test_brokers_that_come_later_get_a_place() -> None:
    source = chain(3)
    target = Topology.from_links([("b2", "b3"), ("b3", "b4"), ("b4", "b5")])
    positions = settled_layout([source, target])
    assert sorted(positions) == ["b1", "b2", "b3", "b4", "b5"]
    assert nearest(positions) > 0.2


def test_few_brokers_and_very_many_have_places() -> None:
    assert settled_layout([Topology.from_links([], brokers=["b1"])]) == {"b1": (0.0, 0.0)}
    assert nearest(settled_layout([chain(2)])) > 1
    assert len(settled_layout([random_tree(400, np.random.default_rng(1))])) == 400


def test_the_same_trees_always_look_the_same() -> None:
    tree = random_tree(30, np.random.default_rng(2))
    assert settled_layout([tree]) == settled_layout([tree])

"""Places of brokers in a picture."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pubweave.cli.tree_layout import centre_of, radial_layout
from pubweave.generate.trees import chain, random_tree, star
from pubweave.model.topology import Topology


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

"""The demo's world and its sums, without starting anything."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.demo.measures import Moment, OverlayFigures, measured, table
from pubweave.demo.world import make_demo
from pubweave.model.ids import Link
from pubweave.model.topology import Topology


def test_a_seed_makes_the_same_world() -> None:
    one, other = make_demo(12, 5), make_demo(12, 5)
    assert one.topology == other.topology
    assert one.distances_ms == other.distances_ms
    assert one.workload.subscribers == other.workload.subscribers
    assert make_demo(12, 6).topology != one.topology


def test_distances_are_known_between_all_and_are_the_trees_latencies() -> None:
    world = make_demo(12, 5)
    assert world.topology.is_tree
    assert len(world.distances_ms) == 12 * 11 // 2
    for link in world.topology.links:
        assert world.topology.latency_ms[link] == pytest.approx(world.distances_ms[link], abs=2e-3)
    assert world.round_trips_ms[0, 1] / 2 == pytest.approx(
        world.distances_ms[Link("b1", "b2")], abs=1e-3
    )
    assert np.allclose(world.round_trips_ms, world.round_trips_ms.T)


def test_only_what_happened_between_the_moments_is_measured() -> None:
    chain = Topology.from_links([("b1", "b2"), ("b2", "b3")])
    received = {"near": [("p", 1), ("p", 2)], "far": [("p", 1), ("p", 2), ("p", 3)]}
    found = measured(
        Moment(2, 10, 2, {"near": 1, "far": 1}),
        Moment(5, 19, 5, {"near": 2, "far": 3}),
        latencies=[900.0, 900.0, 10.0, 20.0, 30.0],
        received=received,
        homes={"p": "b1", "near": "b2", "far": "b3"},
        topology=chain,
        cost_ms=4.0,
    )
    assert found == OverlayFigures(4.0, 20.0, 30.0, pytest.approx((1 + 2 + 2) / 3), 3.0)


def test_the_summary_says_what_changed_and_how_far_off_the_prediction_was() -> None:
    before, predicted = OverlayFigures(100, 50, 80, 4, 2), OverlayFigures(40, 20, 30, 2, None)
    after = OverlayFigures(50, 25, 40, 2, 1)
    first, *_, last = table(before, predicted, after)
    assert (first["change"], first["prediction_error"]) == (-0.5, -0.2)
    assert (last["predicted"], last["prediction_error"]) == (None, None)

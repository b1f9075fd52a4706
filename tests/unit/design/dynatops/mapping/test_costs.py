"""Routes, trees and costs of DYNATOPS against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.dynatops.mapping.problem import (
    MappingCost,
    MappingProblem,
    broker_costs,
    event_overhead,
    expected_rates,
    mapping_cost,
    validate_mapping,
)
from pubweave.design.dynatops.mapping.ring import RING_SIZE, Ring, key_of
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tree.traffic import DesignError
from tests.dynatops_problems import instance_of, problems
from tests.naive import dynatops as naive


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, RING_SIZE - 1), min_size=1, max_size=12, unique=True))
def test_fingers_and_routes_are_chords_on_any_positions(ids: list[int]) -> None:
    ring = Ring(np.array(sorted(ids)))
    for start in range(ring.size):
        assert ring.fingers[start].tolist() == naive.fingers(sorted(ids), start)
        for end in range(ring.size):
            assert ring.route(start, end) == naive.route(sorted(ids), start, end)


def test_hops_on_a_ring_of_a_power_of_two_are_the_ones_of_the_distance() -> None:
    ring = Ring.equidistant(64)
    for end in range(64):
        assert len(ring.route(5, end)) - 1 == ((end - 5) % 64).bit_count()


def test_the_key_of_a_name_is_the_head_of_its_sha1() -> None:
    # From the definition: sha1("abc") = a9993e36...
    assert key_of("abc") == 0xA9993E36


def test_the_position_responsible_for_a_key_is_its_successor() -> None:
    ring = Ring(np.array([10, 20, 30]))
    assert [ring.successor(key) for key in (10, 11, 20, 31, RING_SIZE + 5)] == [0, 1, 1, 0, 0]


@settings(deadline=None, max_examples=150)
@given(problems())
def test_costs_are_those_of_the_definitions(
    drawn: tuple[MappingProblem, np.ndarray],
) -> None:
    problem, mapping = drawn
    instance = instance_of(problem)
    costs = broker_costs(problem, mapping)
    assert list(zip(costs.overhead, costs.delay, strict=True)) == instance.broker_costs(mapping)
    found = mapping_cost(problem, mapping)
    assert found.notification_cost == instance.cost(mapping)
    # Eq. 12: the brokers' costs are the whole.
    assert costs.total.sum() == pytest.approx(found.notification_cost)


def test_figure_2_ends_with_no_relay_and_one_hop() -> None:
    """Eight positions, the rendezvous at 1: its fingers are 2, 3 and 5."""
    names = "ABCDEFGH"
    wanted = Subscriptions.of({name: ["t1"] if name in "AEGH" else ["t2"] for name in names})
    problem = MappingProblem.of(wanted, {"t1": 1})
    object.__setattr__(problem, "roots", np.array([1, 4]))
    good = [1, 0, 4, 6, 2, 7, 3, 5]
    assert mapping_cost(problem, np.array(good)) == MappingCost(0.0, 3.0, 1.0)
    far = [0, 1, 4, 6, 2, 7, 3, 5]
    assert mapping_cost(problem, np.array(far)) == MappingCost(1.0, 6.0, 1.0)
    assert event_overhead(problem, np.array(good)) == 3.0
    assert event_overhead(problem, np.array(far)) == 5.0


def test_rates_are_smoothed_and_new_topics_start_as_measured() -> None:
    first = expected_rates({}, {"x": 10.0})
    second = expected_rates(first, {"x": 20.0})
    assert second == {"x": pytest.approx(0.7 * 10 + 0.3 * 20)}
    assert expected_rates(second, {})["x"] == pytest.approx(0.7 * 13)


def test_what_cannot_be_a_problem_is_refused() -> None:
    wanted = Subscriptions.of({"a": ["x"], "b": ["x"]})
    with pytest.raises(DesignError, match="2 brokers need as many positions, not 3"):
        MappingProblem.of(wanted, {}, Ring.equidistant(3))
    with pytest.raises(DesignError, match="0 or more"):
        MappingProblem.of(wanted, {"x": -1})
    with pytest.raises(DesignError, match="weight of delay"):
        MappingProblem.of(wanted, {}, delay_weight=float("nan"))
    with pytest.raises(DesignError, match="position of its own"):
        validate_mapping(MappingProblem.of(wanted, {}), np.array([1, 1]))
    with pytest.raises(DesignError, match="different ids"):
        Ring(np.array([3, 3]))

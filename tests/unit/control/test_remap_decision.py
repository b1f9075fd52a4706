"""When brokers of a ring are remapped (Algorithm 2): never for nothing, and only if it pays."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.control.remap_decision import ObservedRing, RemapDecider
from pubweave.design.dynatops.mapping.ring import RING_SIZE
from pubweave.model.messages.rendezvous import Occupant, RendezvousStatus, TreeStatus
from pubweave.runtime.coordination.remap_run import observed_ring

COUNT = 12


@pytest.fixture
def scattered() -> ObservedRing:
    """Twelve brokers, each with two topics of one of three modes, in no good order."""
    rng = np.random.default_rng(5)
    topics = [f"t{number}" for number in range(9)]
    wanted = {
        f"b{number}": tuple(str(t) for t in rng.choice(topics[3 * (number % 3) :][:3], 2, False))
        for number in range(COUNT)
    }
    positions = {f"b{number}": RING_SIZE // COUNT * number for number in range(COUNT)}
    return ObservedRing(positions, wanted, dict.fromkeys(topics, 1.0))


def test_a_long_period_makes_a_mapping_pay(scattered: ObservedRing) -> None:
    decision = RemapDecider(period_s=3600.0).decide(scattered)
    assert decision.positions is not None
    assert decision.moved == sum(
        decision.positions[b] != position for b, position in scattered.positions.items()
    )
    assert sorted(decision.positions.values()) == sorted(scattered.positions.values())
    assert decision.benefit is not None
    assert decision.reconfiguration_cost is not None
    assert decision.benefit > decision.reconfiguration_cost > 0
    assert decision.cost_then == pytest.approx(decision.cost_now - decision.benefit)


def test_nobody_moves_for_a_short_period(scattered: ObservedRing) -> None:
    decision = RemapDecider(period_s=0.1).decide(scattered)
    assert decision.positions is None
    assert decision.reason.startswith("the cost is too low")
    decision = RemapDecider(period_s=1.0).decide(scattered)
    assert (decision.positions, decision.reason) == (None, "no change pays within a period")


def test_after_a_remapping_nothing_is_left_to_gain(scattered: ObservedRing) -> None:
    decider = RemapDecider(period_s=3600.0)
    decision = decider.decide(scattered)
    assert decision.positions is not None
    moved = ObservedRing(decision.positions, scattered.topics, scattered.rates)
    again = decider.decide(moved)
    assert again.cost_now == decision.cost_then
    assert again.positions is None


def test_rates_are_smoothed_from_one_period_to_the_next(scattered: ObservedRing) -> None:
    decider = RemapDecider(period_s=10.0)
    first = decider.decide(scattered)
    silent = ObservedRing(scattered.positions, scattered.topics, {})
    assert decider.decide(silent).cost_now == pytest.approx(0.7 * first.cost_now)  # Eq. 8


def test_what_brokers_say_becomes_what_is_decided_by() -> None:
    def status(position: int, *trees: TreeStatus) -> RendezvousStatus:
        return RendezvousStatus(1, (1,), Occupant(position, "b"), None, (), (), trees)

    root = TreeStatus("x", None, True, False, True, (), 4.0)
    leaf = TreeStatus("x", "b0", False, True, True, (), 3.5)
    ring = observed_ring({"b0": status(0, root), "b1": status(9, leaf)})
    assert ring == ObservedRing({"b0": 0, "b1": 9}, {"b0": (), "b1": ("x",)}, {"x": 4.0})

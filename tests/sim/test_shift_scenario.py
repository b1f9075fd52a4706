"""Shifts under load: many random runs, and one shift disturbed at every moment of its life."""

from __future__ import annotations

import pytest

from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.transformation.shift import OldPeer
from pubweave.model.ids import Link
from tests.sim.shift_drill import SHIFT, Drill
from tests.sim.shift_scenario import FAULTS, run_shifts

MOMENTS = [0.045 * number for number in range(14)]
"""From the request to well after the end: with seed 1 only the mover expects the link, is refused
by the new peer at first, and the decision falls at 0.37 s."""
ALL_MOMENTS = [0.0055 * number for number in range(85)]
KINDS = [fault for fault in FAULTS if fault != "any"]


@pytest.mark.parametrize("fault", KINDS)
def test_random_shifts_lose_double_disorder_and_misroute_nothing(fault: str) -> None:
    failed = {
        seed: result.violations[:3]
        for seed in range(2)
        if (result := run_shifts(seed, fault=fault)).violations
    }
    assert not failed, f"again with run_shifts({min(failed)}, fault={fault!r})"


@pytest.mark.slow
@pytest.mark.parametrize("fault", KINDS)
@pytest.mark.parametrize("first", range(2, 102, 20))
def test_many_random_shifts_lose_double_disorder_and_misroute_nothing(
    fault: str, first: int
) -> None:
    failed = {
        seed: result.violations[:3]
        for seed in range(first, first + 20)
        if (result := run_shifts(seed, fault=fault)).violations
    }
    assert not failed, f"again with run_shifts({min(failed)}, fault={fault!r})"


def test_the_runs_exercise_what_they_are_for() -> None:
    counts: dict[str, int] = {}
    for fault in ("drops", "overflow", "haste", "crashes"):
        for name, count in run_shifts(3, fault=fault).counts.items():
            counts[name] = counts.get(name, 0) + count
    for name in ("shifts", "aborted", "publications_held", "drop_in_shift", "broker_crash", "due"):
        assert counts.get(name, 0) > 0, name


@pytest.mark.parametrize("covering", [False, True])
def test_every_flow_through_the_three_brokers_survives_a_shift(covering: bool) -> None:
    drill = Drill(covering=covering)
    got: list[bool] = []
    drill.overlay.on_delivery = lambda client, publication: got.append(client in drill.steady)
    drill.run()
    assert drill.problems() == []
    assert drill.is_committed
    assert drill.record is not None
    assert sum(drill.record.held_messages.values()) > 50
    assert sum(got) == 70 * 6 * 6  # clients that pass get some, too
    assert drill.overlay.judge.due >= 70 * 6 * 6


def test_nothing_is_held_for_longer_than_four_ways_and_the_decision() -> None:
    drill = Drill()
    drill.run()
    assert drill.record is not None
    held_s = drill.record.held_s
    # i: i-k, k-j, j-k, k-i; then the store and back.
    assert held_s["i"] <= 0.015 + 0.025 + 0.025 + 0.015 + 2 * 0.01 + 0.001
    assert max(held_s.values()) == held_s["i"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["i", "j", "k"])
def test_a_crash_at_really_any_moment_leaves_the_decided_overlay(name: str) -> None:
    for number, moment in enumerate(ALL_MOMENTS):
        drill = Drill(covering=number % 2 == 0, seed=number)
        drill.run(lambda drill: drill.crash(name), moment)
        assert drill.problems() == [], moment


@pytest.mark.parametrize(
    "link", [SHIFT.removed_link, SHIFT.pivot_link, SHIFT.added_link], ids=["i-j", "j-k", "i-k"]
)
def test_a_connection_that_drops_at_any_moment_costs_nothing(link: Link) -> None:
    for number, moment in enumerate(MOMENTS):
        drill = Drill(covering=number % 2 == 0, seed=number)
        drill.run(lambda drill: drill.drop(link), moment)
        assert drill.problems() == [], moment
        assert drill.is_committed, moment


@pytest.mark.parametrize("name", ["i", "j", "k"])
def test_a_broker_that_crashes_at_any_moment_leaves_the_decided_overlay(name: str) -> None:
    outcomes = set()
    for number, moment in enumerate(MOMENTS):
        drill = Drill(covering=number % 2 == 0, seed=number)
        drill.run(lambda drill: drill.crash(name), moment)
        assert drill.problems() == [], moment
        outcomes.add(drill.is_committed)
    assert outcomes == {False, True}


def test_given_up_from_outside_at_any_moment_before_the_decision_nothing_is_lost() -> None:
    outcomes = []
    for number, moment in enumerate(MOMENTS):
        drill = Drill(covering=number % 2 == 0)

        def give_up(drill: Drill) -> None:
            assert drill.record is not None
            drill.arbiter.give_up(drill.record, "the operator wants it so")

        drill.run(give_up, moment)
        assert drill.problems() == [], moment
        outcomes.append(drill.is_committed)
    assert outcomes == sorted(outcomes)
    assert outcomes[0] is False
    assert outcomes[-1] is True


def test_a_hold_that_would_run_over_gives_the_shift_up_and_loses_nothing() -> None:
    drill = Drill(hold_limit_bytes=300)
    drill.run()
    assert drill.problems() == []
    assert not drill.is_committed
    assert drill.record is not None
    assert "hold too much" in drill.record.reason


def test_a_shift_that_holds_for_too_long_is_given_up_and_loses_nothing() -> None:
    drill = Drill(hold_limit_s=0.05)
    drill.run()
    assert drill.problems() == []
    assert not drill.is_committed
    assert drill.record is not None
    assert "waited too long" in drill.record.reason


def test_the_order_of_the_research_implementation_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If j does not wait for both markers, publications and table messages go astray."""
    monkeypatch.setattr(OldPeer, "MARKERS", 1)
    drill = Drill()
    drill.run()
    assert drill.problems()


def test_a_switch_without_catching_up_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_let_go(self: TreeRouting, link: object) -> list[str]:
        self.links[link].announced = None  # type: ignore[index]
        return []

    monkeypatch.setattr(TreeRouting, "catch_up", only_let_go)
    drill = Drill()
    drill.run()
    assert drill.problems()

"""Nothing is decided by a profile that does not tell enough."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pubweave.control.evidence import Soundness, shortcomings
from pubweave.control.settings import EvidenceDemands
from pubweave.design.tree.traffic import Traffic
from pubweave.model.files.plan import topology_hash
from tests.naive.control import naive_cost
from tests.unit.control.world import BROKERS, CHAIN, FAR, LATENCY, PROCESSING, evidence

DEMANDS = EvidenceDemands()


def test_a_sound_profile_has_no_shortcomings() -> None:
    assert shortcomings(evidence(), DEMANDS, 70.0) == ()


@pytest.mark.parametrize(
    ("sound", "words"),
    [
        (Soundness(records=100, quarantined=5), "4.8% of the records are in quarantine"),
        (Soundness(records=90, missing=10), "10.0% of the records were dropped"),
        (Soundness(records=9, lost=1), "1 lost, 0 duplicated, 0 unexpected"),
        (Soundness(records=9, duplicated=2), "0 lost, 2 duplicated, 0 unexpected"),
        (Soundness(records=9, unexpected=3), "0 lost, 0 duplicated, 3 unexpected"),
        (Soundness(silent_brokers=("b2", "b4")), "nothing was heard of b2, b4"),
        (Soundness(silent_brokers=BROKERS), "b1, b2, b3, b4, b5 and 1 more"),
    ],
)
def test_what_a_profile_says_of_itself_is_taken_seriously(sound: Soundness, words: str) -> None:
    (said,) = shortcomings(evidence(soundness=sound), DEMANDS, 70.0)
    assert words in said


def test_a_short_old_or_empty_window_is_not_enough() -> None:
    short = evidence(window_started_at=50.0)
    assert "10 s long, 60 s are needed" in shortcomings(short, DEMANDS, 70.0)[0]
    assert "ended 740 s ago" in shortcomings(evidence(), DEMANDS, 800.0)[0]
    few = evidence(traffic=Traffic.of(BROKERS, [(("b1", "b2"), 7.0)]))
    assert "7 notifications were seen, 200 are needed" in shortcomings(few, DEMANDS, 70.0)[0]


def test_unproven_deliveries_alone_do_not_stop_the_loop() -> None:
    sound = Soundness(records=1000, unproven=3)
    assert shortcomings(evidence(soundness=sound), DEMANDS, 70.0) == ()


def test_inputs_say_what_the_overlay_costs() -> None:
    inputs = evidence().inputs(())
    slow = naive_cost(CHAIN, FAR, PROCESSING, LATENCY)
    assert inputs.cost_ms_per_s == pytest.approx(slow / 60.0)
    assert inputs.cost_ms_per_notification == pytest.approx(slow / 3300.0)
    assert inputs.notifications_per_s == pytest.approx(55.0)
    assert inputs.topology_hash == topology_hash(CHAIN)


def test_what_was_measured_goes_before_the_model() -> None:
    assert evidence(measured_ms_per_notification=12.5).inputs(()).cost_ms_per_notification == 12.5


def test_a_window_without_length_costs_nothing_and_divides_by_nothing() -> None:
    seen = replace(evidence(), window_started_at=60.0)
    assert seen.inputs(()).cost_ms_per_s == 0.0
    assert seen.notifications_per_s == 0.0

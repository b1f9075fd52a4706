"""GRAPE's metrics by rerooting and its choice, against the paper's algorithms taken literally."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.relocation.publisher import metrics, select_broker
from pubweave.design.relocation.rules import (
    Candidate,
    DeliveryReport,
    Preference,
    Priority,
    Selection,
    closest_neighbor,
)
from pubweave.design.tree.traffic import DesignError
from tests.naive import relocation as naive

Reports = dict[str, DeliveryReport]
# Quarters of a millisecond: sums are exact, so that ties are ties for both sides.
delays = st.integers(0, 12).map(lambda quarters: quarters / 4)


@st.composite
def trees_of_reports(draw: st.DrawFn, most: int = 9) -> Reports:
    count = draw(st.integers(1, most))
    parents = [draw(st.integers(0, number - 1)) for number in range(1, count)]
    hops: list[dict[str, float]] = [{} for _ in range(count)]
    for child, parent in enumerate(parents, 1):
        hops[child][f"b{parent}"] = draw(delays)
        hops[parent][f"b{child}"] = draw(delays)
    width = draw(st.sampled_from([3, 64, 100]))
    return {
        f"b{number}": DeliveryReport(
            draw(st.integers(0, 5)), draw(st.integers(0, 2**width - 1)), hops[number], draw(delays)
        )
        for number in range(count)
    }


@st.composite
def problems(draw: st.DrawFn) -> tuple[Reports, str, dict[str, float], Preference]:
    reports = draw(trees_of_reports())
    names = sorted(reports)
    ping_ms = draw(st.dictionaries(st.sampled_from(names), delays))
    weight = draw(st.sampled_from([0, 1, 25, 50, 75, 99, 100]))
    preference = Preference(draw(st.sampled_from(Priority)), weight)
    return reports, draw(st.sampled_from(names)), ping_ms, preference


@settings(deadline=None, max_examples=150)
@given(trees_of_reports())
def test_both_metrics_are_those_of_every_candidate_by_itself(reports: Reports) -> None:
    for root in reports:
        delays, messages = metrics(reports, root)
        for broker in reports:
            assert messages[broker] == naive.message_rate(reports, broker, None)
            expected = float(naive.total_delay(reports, naive.Fraction(0), broker, None))
            assert delays[broker] == pytest.approx(expected, rel=1e-12, abs=1e-9)


@settings(deadline=None, max_examples=300)
@given(problems())
def test_the_choice_is_that_of_the_reference(
    problem: tuple[Reports, str, dict[str, float], Preference],
) -> None:
    reports, publisher_at, ping_ms, preference = problem
    found = select_broker(reports, publisher_at, ping_ms, preference)
    assert found.choice == naive.choice(reports, publisher_at, ping_ms, preference)
    assert found.of(found.choice).is_kept
    assert {c.broker for c in found.candidates} == {*ping_ms, publisher_at}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("priority", Priority)
def test_a_tree_of_sixty_three_brokers_gives_the_reference_choice(
    seed: int, priority: Priority
) -> None:
    rng = np.random.default_rng(seed)
    hops: list[dict[str, float]] = [{} for _ in range(63)]
    for child in range(1, 63):
        parent = (child - 1) // 2
        hops[child][f"b{parent}"], hops[parent][f"b{child}"] = rng.uniform(0, 20, 2).tolist()
    reports = {
        f"b{n}": DeliveryReport(
            int(rng.integers(0, 300)),
            int.from_bytes(rng.bytes(13), "little") >> 4,
            hops[n],
            float(rng.uniform(0, 3)),
        )
        for n in range(63)
    }
    ping_ms = {broker: float(rng.uniform(0, 200)) for broker in reports}
    for weight in (0, 25, 50, 75, 100):
        preference = Preference(priority, weight)
        found = select_broker(reports, "b7", ping_ms, preference)
        assert found.choice == naive.choice(reports, "b7", ping_ms, preference)


def chain(bits: tuple[int, ...], deliveries: tuple[int, ...]) -> Reports:
    count = len(bits)
    return {
        f"b{n}": DeliveryReport(
            deliveries[n],
            bits[n],
            {f"b{m}": 1.0 for m in (n - 1, n + 1) if 0 <= m < count},
            0.5,
        )
        for n in range(count)
    }


def test_load_goes_to_the_database_and_delay_to_the_crowd() -> None:
    """The paper's enterprise: all traffic at one end, most subscribers at the other."""
    reports = chain((0b0001, 0, 0b1111), (9, 0, 4))
    ping_ms = dict.fromkeys(reports, 0.0)
    load = select_broker(reports, "b1", ping_ms, Preference(Priority.LOAD, 100))
    delay = select_broker(reports, "b1", ping_ms, Preference(Priority.DELAY, 100))
    assert (load.choice, delay.choice) == ("b2", "b0")
    assert [c.message_rate for c in load.candidates] == [12, 9, 6]
    assert [c.normalized for c in load.candidates] == [100, 50, 0]
    assert select_broker(reports, "b1", ping_ms, Preference(Priority.LOAD, 0)).choice == "b0"
    middle = select_broker(reports, "b0", ping_ms, Preference(Priority.LOAD, 50))
    assert middle.choice == "b1"


def test_a_tie_keeps_the_publisher_where_it_is_however_delays_are_rounded() -> None:
    third = 1 / 3
    reports = {
        "b0": DeliveryReport(3, 1, {"b1": 0.1, "b2": third}, 0.7),
        "b1": DeliveryReport(3, 1, {"b0": 0.1}, 0.7),
        "b2": DeliveryReport(0, 0, {"b0": third}, 0.7),
    }
    for at in ("b0", "b1"):
        for priority in Priority:
            found = select_broker(reports, at, {"b0": 0, "b1": 0}, Preference(priority, 100))
            assert found.choice == at


def test_nothing_delivered_moves_nobody() -> None:
    found = select_broker(
        chain((0, 0), (0, 0)),
        "b1",
        {"b0": 1.0, "b1": 50.0},
        Preference(Priority.DELAY, 100),
    )
    assert not found.moves
    assert "nothing was delivered" in found.reason


def test_reports_that_are_no_tree_are_refused() -> None:
    reports = chain((1, 1, 1), (1, 1, 1))
    del reports["b1"]
    ring = chain((1, 1, 1), (1, 1, 1))
    for one, other in (("b0", "b2"), ("b2", "b0")):
        ring[one] = dataclasses.replace(ring[one], hop_ms={**ring[one].hop_ms, other: 1.0})
    for bad in (reports, ring):
        with pytest.raises(DesignError, match="no tree"):
            select_broker(bad, "b0", {}, Preference())


@pytest.mark.parametrize("weight", [-1, 101, float("nan")])
def test_a_weight_is_between_0_and_100(weight: float) -> None:
    with pytest.raises(DesignError, match="between 0 and 100"):
        Preference(Priority.LOAD, weight)


def selection(now: Candidate, then: Candidate, preference: Preference) -> Selection:
    return Selection(now.broker, preference, (now, then), then.broker, "because")


@pytest.mark.parametrize(
    ("preference", "is_kept", "gain"),
    [
        (Preference(Priority.LOAD, 100), False, 0.2),
        (Preference(Priority.DELAY, 100), False, 0.5),
        (Preference(Priority.LOAD, 50), True, 0.5),
        (Preference(Priority.DELAY, 50), True, 0.2),
    ],
)
def test_a_move_promises_by_the_metric_that_decides_it(
    preference: Preference, is_kept: bool, gain: float
) -> None:
    """Where the current broker is within the weight, too, the second metric decides."""
    now, then = Candidate("b1", 40.0, 100, 9.0, is_kept), Candidate("b2", 20.0, 80, 0.0, True)
    found = selection(now, then, preference)
    assert found.gain == pytest.approx(gain)
    assert found.unless_less_than(gain - 0.01) is found
    stays = found.unless_less_than(gain + 0.01)
    assert (stays.choice, stays.moves) == ("b1", False)
    assert "b2 promises" in stays.reason


def test_where_the_second_metric_is_equal_the_prior_one_counts() -> None:
    now, then = Candidate("b1", 40.0, 100, 9.0, True), Candidate("b2", 40.0, 80, 0.0, True)
    assert selection(now, then, Preference(Priority.LOAD, 50)).gain == pytest.approx(0.2)
    idle = Candidate("b1", 0.0, 0, 0.0, True)
    assert selection(idle, idle, Preference(Priority.LOAD, 50)).gain == 0


def test_pop_asks_for_a_majority_that_is_worth_a_hop() -> None:
    subscribers = {"b2": 13.0, "b3": 6.0}
    assert closest_neighbor(subscribers, 6.0) == "b2"
    assert closest_neighbor(subscribers, 6.0, least_gain=0.03) == "b2"
    assert closest_neighbor(subscribers, 6.0, least_gain=0.04) is None

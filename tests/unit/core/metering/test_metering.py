"""The records that metering makes, what it samples, and what it does when nobody takes them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pubweave.core.metering.metering import (
    MAX_REMEMBERED_PUBLISHERS,
    LinkTotals,
    LoadCounters,
    Metering,
)
from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Publication, make_publication
from pubweave.model.records.status import CounterStatus
from pubweave.model.telemetry import TABLES, ClientChange, LinkChange, Record, TableChange
from pubweave.telemetry.parquet import record_batch

NO_LOAD = LoadCounters(1.0, CounterStatus(), *([0] * 6))


def publication(publisher: str = "p1", sequence: int = 1) -> Publication:
    return make_publication(publisher, sequence, "STOCK", {"volume": 5}, b"payload", 10.0)


def named(table: str, record: Record) -> dict[str, object]:
    return dict(zip(TABLES[table].column_names, record, strict=True))


def everything_recorded() -> Metering:
    metering = Metering("b1", 0.5, epoch=7)
    wanted = parse_filter("class = 'STOCK' and volume > 3")
    metering.publication_accepted(publication(), 10.25, 10.125)
    metering.delivered(publication(), "c1", 10.5)
    metering.hop(publication(), "b2", 11.0, 11.25)
    metering.subscription_changed("c1", "c1/s1", wanted, TableChange.ADDED, 1.0)
    metering.advertisement_changed("p1", "p1/a1", wanted, TableChange.REMOVED, 2.0)
    metering.client_changed("c1", ClientChange.ATTACHED, 3.0)
    metering.link_changed("b2", LinkChange.UP, 4.0)
    metering.rtt_sampled("b2", 12.5, 5.0)
    metering.link_load_sampled("b2", 6.0, LinkTotals(10, 20, 1000, 2000, 1, 100))
    metering.link_load_sampled("b2", 8.0, LinkTotals(15, 26, 1700, 2800, 2, 200))
    metering.load_sampled(9.0, LoadCounters(2.0, CounterStatus(*range(1, 13)), *range(13, 19)))
    return metering


def test_every_table_has_a_recording_method_whose_records_fit_it() -> None:
    records = everything_recorded().pop()
    assert list(records) == list(TABLES)
    for table, rows in records.items():
        assert record_batch(table, rows).num_rows == 1


def test_records_say_what_happened() -> None:
    records = {t: named(t, rows[0]) for t, rows in everything_recorded().pop().items()}
    accepted = records["publications"]
    assert (accepted["published_at"], accepted["accepted_at"]) == (10.0, 10.25)
    assert accepted["queueing_ms"] == 125.0
    assert accepted["attributes"] == {"volume": 5}
    assert accepted["sample_ratio"] == 0.5
    assert records["deliveries"]["latency_ms"] == 500.0
    assert records["deliveries"]["client"] == "c1"
    hop = records["hops"]
    assert (hop["from_broker"], hop["to_broker"]) == ("b2", "b1")
    assert (hop["received_at"], hop["queueing_ms"], hop["matching_ms"]) == (11.0, 250.0, None)
    assert hop["size_bytes"] == publication().size_bytes
    added = records["subscription_changes"]
    assert (added["change"], added["topic"]) == ("added", "STOCK")
    assert parse_filter(str(added["filter"])) == parse_filter("class = 'STOCK' and volume > 3")
    assert records["advertisement_changes"]["change"] == "removed"
    assert records["client_changes"]["change"] == "attached"
    assert records["link_changes"]["change"] == "up"
    assert records["link_rtts"]["rtt_ms"] == 12.5
    assert {r["epoch"] for r in records.values()} == {7}


def test_a_load_record_holds_each_counter_under_its_own_name() -> None:
    load = named("broker_loads", everything_recorded().pop()["broker_loads"][0])
    fields = ["messages_in", "publications_accepted", "notifications_lost", "queue_bytes", "links"]
    assert [load[name] for name in fields] == [1, 4, 12, 14, 18]
    assert (load["sampled_at"], load["window_s"], load["cpu_s"]) == (9.0, 2.0, None)


def test_a_filter_that_is_not_known_at_removal_is_null() -> None:
    metering = Metering("b1", epoch=1)
    metering.subscription_changed("c1", "c1/s1", None, TableChange.REMOVED, 1.0)
    metering.subscription_changed("c1", "c1/s2", parse_filter("x > 1"), TableChange.ADDED, 1.0)
    rows = [named("subscription_changes", r) for r in metering.pop()["subscription_changes"]]
    assert [(r["filter"] is None, r["topic"]) for r in rows] == [(True, None), (False, None)]


def test_link_loads_are_the_growth_since_the_last_sample() -> None:
    load = named("link_loads", everything_recorded().pop()["link_loads"][0])
    assert load["window_s"] == 2.0
    assert (load["messages_in"], load["messages_out"]) == (5, 6)
    assert (load["bytes_in"], load["bytes_out"]) == (700, 800)
    assert (load["queue_messages"], load["queue_bytes"]) == (2, 200)


def test_a_link_counter_that_began_anew_counts_from_zero() -> None:
    metering = Metering("b1", epoch=1)
    metering.link_load_sampled("b2", 1.0, LinkTotals(100, 100, 100, 100, 0, 0))
    metering.link_load_sampled("b2", 2.0, LinkTotals(3, 104, 9, 109, 0, 0))
    load = named("link_loads", metering.pop()["link_loads"][0])
    assert [load[n] for n in ("messages_in", "messages_out", "bytes_in", "bytes_out")] == [
        3,
        4,
        9,
        9,
    ]


def test_a_removed_link_opens_a_new_window_when_it_returns() -> None:
    metering = Metering("b1", epoch=1)
    metering.link_load_sampled("b2", 1.0, LinkTotals(1, 1, 1, 1, 0, 0))
    metering.link_changed("b2", LinkChange.REMOVED, 2.0)
    metering.link_load_sampled("b2", 900.0, LinkTotals(9, 9, 9, 9, 0, 0))
    assert "link_loads" not in metering.pop()


def test_take_hands_over_once() -> None:
    metering = everything_recorded()
    assert metering.pop()
    assert metering.pop() == {}
    metering.rtt_sampled("b2", 1.0, 20.0)
    assert list(metering.pop()) == ["link_rtts"]


def test_records_beyond_the_bound_are_dropped_counted_and_leave_a_gap() -> None:
    metering = Metering("b1", epoch=1, max_pending_records=2)
    for _ in range(5):
        metering.delivered(publication(), "c1", 1.0)
    first = metering.pop()["deliveries"]
    metering.delivered(publication(), "c1", 2.0)
    metering.load_sampled(3.0, NO_LOAD)
    later = metering.pop()
    number = TABLES["deliveries"].index("record_number")
    assert [row[number] for row in first + later["deliveries"]] == [0, 1, 5]
    assert metering.dropped_records == 3
    assert named("broker_loads", later["broker_loads"][0])["dropped_records"] == 3


@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.5, 0.9])
def test_the_sampled_share_is_the_ratio_for_every_publisher(ratio: float) -> None:
    metering = Metering("b1", ratio, epoch=1)
    for publisher in range(20):
        count = sum(
            metering.is_sampled(publication(f"publisher-{publisher}", s)) for s in range(1, 4001)
        )
        spread = (4000 * ratio * (1 - ratio)) ** 0.5
        assert abs(count - 4000 * ratio) < 4 * spread


def test_sampling_follows_no_short_cycle_of_sequence_numbers() -> None:
    """A publisher that goes round its topics must not have one topic sampled and another not."""
    metering = Metering("b1", 0.1, epoch=1)
    sampled = [s for s in range(40_000) if metering.is_sampled(publication("p", s))]
    for period in (2, 3, 4, 5, 7, 8, 10, 16):
        expected = len(sampled) / period
        for phase in range(period):
            count = sum(s % period == phase for s in sampled)
            assert abs(count - expected) < 4.5 * expected**0.5


def test_publishers_are_sampled_independently() -> None:
    metering = Metering("b1", 0.5, epoch=1)
    sequences = range(4000)
    one = [metering.is_sampled(publication("p1", s)) for s in sequences]
    other = [metering.is_sampled(publication("p2", s)) for s in sequences]
    agreeing = sum(a == b for a, b in zip(one, other, strict=True))
    assert abs(agreeing - 2000) < 4 * 1000**0.5


def test_a_larger_ratio_samples_a_superset() -> None:
    few, many = Metering("b1", 0.1, epoch=1), Metering("b2", 0.3, epoch=9)
    drawn = [publication("p", s) for s in range(2000)]
    assert all(many.is_sampled(p) for p in drawn if few.is_sampled(p))


@pytest.mark.parametrize(("ratio", "expected"), [(0.0, False), (1.0, True)])
def test_the_extreme_ratios_are_exact(ratio: float, expected: bool) -> None:
    metering = Metering("b1", ratio, epoch=1)
    assert all(metering.is_sampled(publication("p", s)) is expected for s in range(2000))


def test_the_sample_is_the_same_in_every_process() -> None:
    program = (
        "from tests.unit.core.metering.test_metering import publication, Metering\n"
        "m = Metering('b9', 0.2, epoch=3)\n"
        "print([s for s in range(200) if m.is_sampled(publication('p\u00e4', s))])\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ".", "PYTHONUTF8": "1"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    here = Metering("b1", 0.2, epoch=1)
    expected = [s for s in range(200) if here.is_sampled(publication("p\u00e4", s))]
    assert printed == {f"{expected}\n"}


def test_remembered_publishers_are_bounded_and_forgetting_changes_no_answer() -> None:
    metering = Metering("b1", 0.5, epoch=1)
    before = [metering.is_sampled(publication("p", s)) for s in range(50)]
    for index in range(MAX_REMEMBERED_PUBLISHERS + 10):
        metering.is_sampled(publication(f"other-{index}"))
    assert len(metering._publisher_hashes) <= MAX_REMEMBERED_PUBLISHERS
    assert [metering.is_sampled(publication("p", s)) for s in range(50)] == before


@pytest.mark.parametrize("ratio", [-0.1, 1.5, float("nan")])
def test_a_ratio_outside_its_range_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="sample_ratio"):
        Metering("b1", ratio, epoch=1)

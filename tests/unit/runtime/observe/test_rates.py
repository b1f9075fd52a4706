"""Rates from counts, over restarts and changed links."""

from __future__ import annotations

import pytest

from pubweave.model.ids import Link
from pubweave.model.records.status import BrokerStatus, CounterStatus, RateStatus, SessionStatus
from pubweave.runtime.client.observer import OverlayStatuses
from pubweave.runtime.observe.rates import OverlayRates, Trips

LINK = Link("b1", "b2")


def session(remote: str, received: int, rtt_ms: float | None = 4.0) -> SessionStatus:
    return SessionStatus(remote, "established", 1, 100, received, rtt_ms, False)


def status(
    broker: str, accepted: int, links: tuple[SessionStatus, ...], uptime_s: float = 10.0
) -> BrokerStatus:
    return BrokerStatus(
        broker=broker,
        strategy="tree",
        uptime_s=uptime_s,
        subscriptions=3,
        advertisements=1,
        forwarded=0,
        links=links,
        client_count=1,
        clients=(session("$observer-1", 0),),
        queue_bytes=100,
        counters=CounterStatus(publications_accepted=accepted, deliveries=2 * accepted),
        rates=RateStatus(publications_in_per_s=10.0),
    )


def look(at: float, accepted: int, received: int, **options: float) -> OverlayStatuses:
    return OverlayStatuses(
        at,
        {
            "b1": status("b1", accepted, (session("b2", received),), **options),
            "b2": status("b2", 0, (session("b1", 2 * received),)),
        },
        (LINK,),
    )


def test_the_first_look_knows_no_rates() -> None:
    rates = OverlayRates()
    rates.take(look(100.0, 50, 10))
    assert rates.publications_per_s is None
    assert rates.links[0].messages_per_s == 0.0
    assert rates.cost_per_s({"b1": 1.0}) is None
    assert [(b.clients, b.queue_messages) for b in rates.brokers] == [(0, 2), (0, 2)]


def test_rates_are_differences_over_time_in_both_directions() -> None:
    rates = OverlayRates()
    rates.take(look(100.0, 50, 10))
    rates.take(look(102.0, 90, 30))
    assert (rates.publications_per_s, rates.deliveries_per_s) == (20.0, 40.0)
    assert rates.links[0].messages_per_s == (20 + 40) / 2.0


def test_looks_in_quick_succession_are_compared_with_one_that_is_long_enough_ago() -> None:
    rates = OverlayRates()
    for at, accepted in ((100.0, 0), (102.0, 20), (102.2, 20), (102.4, 20)):
        rates.take(look(at, accepted, 0))
    assert rates.publications_per_s == pytest.approx(20 / 2.4)
    rates.take(look(104.0, 40, 0))
    assert rates.publications_per_s == pytest.approx(10.0)
    assert len(rates._looks) < 6


def test_a_broker_that_began_anew_does_not_count_backwards() -> None:
    rates = OverlayRates()
    rates.take(look(100.0, 500, 100))
    rates.take(look(102.0, 10, 3, uptime_s=1.0))
    assert rates.publications_per_s == 5.0
    assert rates.links[0].messages_per_s == (3 + 6) / 2
    assert rates.totals.publications_accepted == 510


def test_when_nobody_answers_there_is_no_rate() -> None:
    rates = OverlayRates()
    rates.take(look(100.0, 50, 10))
    rates.take(OverlayStatuses(102.0, {"b1": None, "b2": None}, (LINK,)))
    assert rates.publications_per_s is None
    assert [broker.is_up for broker in rates.brokers] == [False, False]
    assert not rates.links[0].is_up


def test_cost_is_traffic_times_half_the_round_trip_and_handling_times_its_time() -> None:
    rates = OverlayRates()
    rates.take(look(100.0, 50, 10))
    rates.take(look(102.0, 90, 30))
    assert rates.cost_per_s({"b1": 0.5, "b2": 0.25}) == 30 * 4.0 / 2 + 10 * 0.5 + 10 * 0.25
    assert rates.cost_per_s({}) is None


def test_the_first_round_trips_of_a_link_do_not_count_for_much() -> None:
    trips = Trips()
    assert trips.usual_ms is None
    for rtt_ms in (90.0, 90.0, 2.0, 4.0):
        trips.take("b1", rtt_ms)
    assert trips.usual_ms == 2.0
    for rtt_ms in (5.0, 6.0, 7.0):
        trips.take("b2", rtt_ms)
    assert trips.usual_ms == 5.5

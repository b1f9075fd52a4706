"""Prices: a table goes before what is measured, and what nobody knows is probed."""

from __future__ import annotations

import pytest

from pubweave.core.config.self_organizing import LinkPrice, OrganizeConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.self_organizing.prices import (
    PROBED_FOR_INTERVALS,
    PROBES_PER_INTERVAL,
    LinkPrices,
)
from pubweave.core.session.session import Session

RTT = OrganizeConfig(link_price=LinkPrice.RTT, interval_s=1.0)


def link(rtt_ms: float | None) -> Session:
    made = Session("b2", own_epoch=1, is_client=False, limits=SessionLimits())
    made.rtt_ms = rtt_ms
    return made


def test_hops_cost_one_each_at_links_and_brokers() -> None:
    prices = LinkPrices(OrganizeConfig(link_price=LinkPrice.HOPS), lambda: 7.0)
    assert (prices.link_price(link(40.0)), prices.new_link_price("b9", 0.0)) == (1.0, 1.0)
    assert prices.broker_price() == 1.0


def test_a_table_goes_before_everything() -> None:
    config = OrganizeConfig(link_prices={"b2": 3.0}, broker_price=0.0)
    prices = LinkPrices(config, lambda: 7.0)
    assert (prices.link_price(link(40.0)), prices.new_link_price("b2", 0.0)) == (3.0, 3.0)
    assert prices.broker_price() == 0.0
    assert prices.to_probe(["b2"], 0.0) == []


def test_a_link_costs_half_its_shortest_round_trip_of_late() -> None:
    prices = LinkPrices(RTT, lambda: 7.0)
    assert prices.link_price(link(None)) is None
    for rtt_ms in (40.0, 20.0, 60.0):
        prices.sample([link(rtt_ms)])
    assert prices.link_price(link(60.0)) == 10.0
    for _ in range(3):
        prices.sample([link(60.0)])
    assert prices.link_price(link(60.0)) == 30.0
    prices.sample([])  # the link is gone, and what was known of it
    assert prices.link_price(link(60.0)) == 30.0
    assert prices.broker_price() == 7.0


def test_the_most_promising_are_probed_a_few_at_a_time_and_again_in_time() -> None:
    prices = LinkPrices(RTT, lambda: 7.0)
    names = [f"b{number}" for number in range(3, 12)]
    first = prices.to_probe(names, 0.0)
    assert first == names[:PROBES_PER_INTERVAL]
    assert prices.to_probe(names, 1.0) == names[PROBES_PER_INTERVAL : 2 * PROBES_PER_INTERVAL]
    prices.probed("b3", 30.0, 0.5)
    prices.probed("b4", None, 0.5)
    assert prices.new_link_price("b3", 1.0) == 15.0
    assert prices.new_link_price("b4", 1.0) is None
    assert prices.to_probe(["b3"], 0.5 + PROBED_FOR_INTERVALS / 2) == []
    assert prices.to_probe(["b3"], 0.6 + PROBED_FOR_INTERVALS / 2) == ["b3"]
    # While it is probed again, the last answer is still good; later it is not.
    assert prices.new_link_price("b3", 0.7 + PROBED_FOR_INTERVALS / 2) == 15.0
    assert prices.new_link_price("b3", 100.0) is None


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"eta": 1}, "eta"),
        ({"eta": 17}, "eta"),
        ({"cache_entries": 0}, "cache_entries"),
        ({"interval_s": 0.0}, "interval_s"),
        ({"least_gain": 1.0}, "least_gain"),
        ({"bloom_bits": 10}, "bits"),
        ({"broker_price": -1.0}, "prices"),
        ({"link_prices": {"b2": float("inf")}}, "prices"),
    ],
)
def test_a_setting_that_cannot_be_is_named(wrong: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        OrganizeConfig(**wrong)  # type: ignore[arg-type]

"""Recorded traffic on an overlay that stands still."""

from __future__ import annotations

import pytest

from pubweave.model.filters.text import parse_filter
from pubweave.model.records.recorded_traffic import (
    RecordedClient,
    RecordedPublication,
    RecordedTraffic,
)
from pubweave.model.topology import Topology
from pubweave.sim.whatif.replay import CLIENT_LATENCY_S, replay

CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
SHORT = Topology.from_links([("b1", "b4"), ("b2", "b3"), ("b3", "b4")])
WANTED = parse_filter("class = 'T'")
COUNT = 50
TRAFFIC = RecordedTraffic(
    5.0,
    (
        RecordedClient("publisher", "b1", (), (WANTED,)),
        RecordedClient("subscriber", "b4", (WANTED,)),
        RecordedClient("elsewhere", "b9", (WANTED,)),
    ),
    tuple(RecordedPublication(n / 10, "publisher", "T", {"x": n}) for n in range(COUNT)),
)


def test_every_delivery_takes_the_links_and_brokers_of_its_way() -> None:
    seen = replay(CHAIN, TRAFFIC, latency_ms=lambda link: 10.0, processing_ms=1.0)
    assert seen.violations == ()
    assert seen.publications == seen.deliveries == COUNT
    assert seen.hops_mean == 3.0
    way_ms = 3 * 10.0 + 4 * 1.0 + 2 * 1000 * CLIENT_LATENCY_S
    assert seen.latency_ms_mean == pytest.approx(way_ms, rel=1e-6)
    assert seen.latency_ms_p99 == pytest.approx(way_ms, rel=1e-6)
    assert seen.crossings == 3 * COUNT
    assert seen.handled_per_s == dict.fromkeys(["b1", "b2", "b3", "b4"], COUNT / 5.0)


def test_a_shorter_way_is_quicker_and_loads_fewer_brokers() -> None:
    seen = replay(SHORT, TRAFFIC, latency_ms=lambda link: 10.0, processing_ms=1.0)
    assert seen.violations == ()
    assert seen.deliveries == COUNT
    assert seen.hops_mean == seen.crossings_per_delivery == 1.0
    assert seen.handled_per_s["b2"] == seen.handled_per_s["b3"] == 0.0


def test_a_record_without_publications_replays_to_nothing() -> None:
    idle = RecordedTraffic(1.0, TRAFFIC.clients, ())
    seen = replay(CHAIN, idle, latency_ms=lambda link: 1.0, processing_ms=1.0)
    assert (seen.deliveries, seen.latency_ms_mean, seen.crossings_per_delivery) == (0, 0.0, 0.0)

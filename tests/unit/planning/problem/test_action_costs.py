"""Costs of actions by broker, latency and traffic."""

from __future__ import annotations

import pytest

from pubweave.model.ids import Link
from pubweave.model.plans import Shift
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import (
    BrokerActionCosts,
    LatencyCosts,
    PlanningError,
    traffic_costs,
)

CHAIN = Topology.from_links([("a", "b"), ("b", "c"), ("c", "d")])


def with_latencies(latency_ms: dict[Link, float]) -> Topology:
    return Topology(CHAIN.brokers, CHAIN.links, latency_ms)


def test_an_action_costs_what_its_brokers_cost_together() -> None:
    costs = BrokerActionCosts({"a": 1.0, "b": 2.0, "c": 4.0, "d": 8.0})
    assert costs[Shift("a", "b", "c")] == 7.0
    assert costs.get(Shift("d", "c", "b"), 1.0) == 14.0
    assert costs.get(Shift("d", "c", "unknown"), 1.0) == 1.0


def test_every_shift_is_a_key_without_being_written_out() -> None:
    costs = BrokerActionCosts(dict.fromkeys("abcd", 1.0))
    assert len(costs) == len(list(costs)) == 24
    assert len(BrokerActionCosts({f"b{n}": 1.0 for n in range(1000)})) == 1000 * 999 * 998


def test_latency_counts_the_hops_of_the_action_and_fills_gaps_with_the_mean() -> None:
    source = with_latencies({Link("a", "b"): 10.0, Link("b", "c"): 20.0})
    target = with_latencies({Link("c", "d"): 60.0})
    costs = LatencyCosts(source, target)
    assert costs[Shift("a", "b", "c")] == 30.0
    assert costs[Shift("a", "d", "c")] == 30.0 + 60.0


def test_latencies_must_be_known_somewhere() -> None:
    with pytest.raises(PlanningError, match="neither topology has latencies"):
        LatencyCosts(CHAIN, CHAIN)


def test_traffic_is_the_rate_at_the_brokers_and_idle_ones_are_not_free() -> None:
    rates = {"a": 0, "b": 2.5, "c": 4, "d": 1}
    busy = Topology(
        CHAIN.brokers,
        CHAIN.links,
        broker_attributes={broker: {"rate_per_s": rate} for broker, rate in rates.items()},
    )
    assert traffic_costs(busy, CHAIN)[Shift("a", "b", "c")] == 9.5
    with pytest.raises(PlanningError, match="broker 'a' has no rate_per_s"):
        traffic_costs(CHAIN, CHAIN)

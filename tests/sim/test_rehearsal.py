"""A plan rehearsed in simulation: the same every time, complete, and honest about its cost."""

from __future__ import annotations

from pubweave.model.filters.text import parse_filter
from pubweave.model.ids import Link
from pubweave.model.plans import Append, Plan, Shift
from pubweave.model.records.recorded_traffic import (
    RecordedClient,
    RecordedPublication,
    RecordedTraffic,
)
from pubweave.model.topology import Topology
from pubweave.sim.whatif.rehearsal import Rehearsal

CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5")])
PLAN = Plan(((Shift("b1", "b2", "b3"),), (Shift("b5", "b4", "b3"),)))
WANTED = parse_filter("class = 'T'")


def traffic(latency_ms: float = 20.0) -> RecordedTraffic:
    brokers = sorted(CHAIN.brokers)
    subscribers = tuple(RecordedClient(f"s{b}", b, (WANTED,)) for b in brokers)
    publishers = tuple(RecordedClient(f"p{b}", b, (), (WANTED,)) for b in brokers)
    publications = tuple(
        RecordedPublication(number / 100, f"p{brokers[number % 5]}", "T", {"x": number})
        for number in range(150)
    )
    latencies = dict.fromkeys(CHAIN.links, latency_ms)
    return RecordedTraffic(1.5, (*publishers, *subscribers), publications, latencies)


def test_a_plan_is_rehearsed_under_traffic_and_nothing_is_lost() -> None:
    result = Rehearsal(CHAIN, PLAN, traffic()).run()
    assert result.violations == ()
    assert (result.counts["actions_committed"], result.counts["plans_done"]) == (2, 1)
    assert result.counts["deliveries"] == result.counts["due"] == 5 * result.counts["publications"]
    # Traffic flows a second before and a second after, and all the time in between.
    assert result.counts["publications"] >= 100 * (2.0 + result.measures["plan_s"]) - 1
    assert 0 < result.measures["affected_share"] < 1


def test_the_same_rehearsal_gives_the_same_figures() -> None:
    assert Rehearsal(CHAIN, PLAN, traffic()).run() == Rehearsal(CHAIN, PLAN, traffic()).run()


def test_slow_links_make_a_plan_slow() -> None:
    near, far = (Rehearsal(CHAIN, PLAN, traffic(ms)).run().measures for ms in (1.0, 50.0))
    assert near["plan_s"] < far["plan_s"]
    assert near["hold_ms_max"] < far["hold_ms_max"] < 500.0


def test_links_that_were_never_measured_are_as_slow_as_the_others() -> None:
    rehearsal = Rehearsal(CHAIN, PLAN, RecordedTraffic(latency_ms={Link("b1", "b2"): 7.0}))
    assert rehearsal.latency_s(Link("b1", "b5")) == 0.007
    assert rehearsal.overlay.topology.latency_ms[Link("b4", "b5")] == 7.0


def test_an_idle_overlay_can_be_rehearsed_and_brokers_can_join() -> None:
    plan = Plan(((Append("b6", "b1"),), (Shift("b6", "b1", "b2"),)))
    result = Rehearsal(CHAIN, plan, RecordedTraffic()).run()
    assert result.violations == ()
    assert result.counts["actions_committed"] == 2

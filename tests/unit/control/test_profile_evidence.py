"""What a profile tells about an overlay, and what it says about itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pubweave.control.evidence import evidence_of
from pubweave.design.tree.traffic import DesignError
from pubweave.model.ids import Link
from pubweave.model.profile import ProfileDescription, SourceSummary
from pubweave.model.topology import Topology

CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3")])


def gap(table: str, broker: str, first_at: float, last_at: float, records: int = 10) -> dict:  # type: ignore[type-arg]
    return {
        "table": table, "broker": broker, "epoch": 1, "records": records, "duplicates": 0,
        "missing": 0, "first_at": first_at, "last_at": last_at,
    }  # fmt: skip


class FakeProfile:
    """A profile of three brokers in a row, as tables in memory."""

    def __init__(self) -> None:
        self.description = ProfileDescription(
            source="run", run="demo", clock="unix", window_started_at=0.0, window_ended_at=200.0,
            settings={}, quarantine={}, tables={}, spark_version="", master="", stage_seconds={},
            sources={
                "publications": SourceSummary(1, 90, 0, 10, 0),
                "deliveries": SourceSummary(1, 95, 0, 0, 5),
            },
        )  # fmt: skip
        self.tables: dict[str, list[dict[str, Any]]] = {
            "telemetry_gaps": [
                gap("publications", "b1", 105.0, 190.0),
                gap("publications", "b3", 120.0, 199.0),
                gap("broker_loads", "b2", 100.0, 198.0),
                gap("subscription_changes", "b1", 1.0, 1.0),
            ],
            "links": [
                {"broker_a": "b1", "broker_b": "b2", "is_present": True, "cost_ms": 4.0},
                {"broker_a": "b2", "broker_b": "b3", "is_present": True, "cost_ms": 6.0},
            ],
            "broker_costs": [{"broker": b, "processing_ms": 0.5} for b in ("b1", "b2", "b3")],
            "delivery_trees": [
                {"tree": 1, "broker": "b1", "weight": 30.0},
                {"tree": 2, "broker": "b3", "weight": 10.0},
            ],
            "tree_receivers": [{"tree": 1, "broker": "b3"}, {"tree": 2, "broker": "b2"}],
            "broker_subscriptions": [{"broker": "b3", "subscriptions": 7}],
            "overlay_cost": [{"cost_ms": 440.0, "weight": 40.0}],
            "audit": [{"lost": 1, "duplicated": 2, "unexpected": 0, "unproven": 4}],
            "latency": [
                {"deliveries": 10, "latency_ms_mean": 5.0},
                {"deliveries": 30, "latency_ms_mean": 9.0},
            ],
        }

    def rows(self, name: str) -> list[dict[str, Any]]:
        return self.tables[name]

    def table(self, name: str) -> Any:
        return pa.Table.from_pylist(self.tables[name])


def test_the_window_is_that_of_the_publications() -> None:
    seen = evidence_of(FakeProfile(), CHAIN, assumed_ms=3.0)
    assert (seen.window_started_at, seen.window_ended_at) == (105.0, 199.0)
    assert seen.profile_id == "demo@105-199"
    assert seen.traffic.notifications == 40.0


def test_prices_of_links_that_nobody_measured_are_assumed() -> None:
    prices = evidence_of(FakeProfile(), CHAIN, assumed_ms=3.0).prices
    assert prices.of_link(Link("b1", "b2")) == 4.0
    assert prices.of_link(Link("b1", "b3")) == 3.0


def test_without_a_price_for_another_link_it_says_what_to_give() -> None:
    with pytest.raises(DesignError, match="--assume-latency"):
        evidence_of(FakeProfile(), CHAIN)


def test_measured_cost_latency_and_state_are_taken_over() -> None:
    seen = evidence_of(FakeProfile(), CHAIN, assumed_ms=3.0)
    assert seen.measured_ms_per_notification == 11.0
    assert seen.latency_ms_mean == 8.0
    assert seen.entries == {"b3": 7.0}


def test_the_profile_is_as_sound_as_it_says() -> None:
    sound = evidence_of(FakeProfile(), CHAIN, assumed_ms=3.0).soundness
    assert (sound.records, sound.quarantined, sound.missing) == (185, 10, 5)
    assert (sound.lost, sound.duplicated, sound.unexpected, sound.unproven) == (1, 2, 0, 4)
    assert sound.silent_brokers == ()


def test_a_broker_that_fell_silent_is_named() -> None:
    profile = FakeProfile()
    profile.tables["telemetry_gaps"][2] = gap("broker_loads", "b2", 100.0, 150.0)
    silent = evidence_of(profile, CHAIN, assumed_ms=3.0).soundness.silent_brokers
    assert silent == ("b2",)
    del profile.tables["telemetry_gaps"][2]
    assert evidence_of(profile, CHAIN, assumed_ms=3.0).soundness.silent_brokers == ("b2",)


def test_a_window_without_publications_is_no_evidence() -> None:
    profile = FakeProfile()
    profile.tables["telemetry_gaps"] = [gap("broker_loads", "b2", 1.0, 2.0)]
    with pytest.raises(DesignError, match="nothing was published"):
        evidence_of(profile, CHAIN, assumed_ms=3.0)


def test_nothing_delivered_is_no_latency_and_no_measured_cost() -> None:
    profile = FakeProfile()
    profile.tables["latency"] = []
    profile.tables["overlay_cost"] = [{"cost_ms": 0.0, "weight": 0.0}]
    seen = evidence_of(profile, CHAIN, assumed_ms=3.0)
    assert seen.latency_ms_mean is None
    assert seen.measured_ms_per_notification is None

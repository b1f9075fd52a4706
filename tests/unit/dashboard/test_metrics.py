"""Metrics, read back by Prometheus' own parser."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pubweave.dashboard.metrics import metrics_text
from pubweave.dashboard.snapshot import Alert, BrokerView, Severity, Snapshot
from tests.browser.made_overlay import MadeOverlay, with_history

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(snapshot: Snapshot) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(metrics_text(snapshot)):
        assert family.documentation
        assert family.type in ("gauge", "counter")
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def test_every_figure_of_the_page_is_a_metric_in_base_units() -> None:
    overlay = with_history(MadeOverlay(20))
    overlay.deploy(((), ()))
    snapshot = asyncio.run(overlay.snapshot())
    assert snapshot.latency is not None
    assert snapshot.cost_per_s is not None
    found = parsed(snapshot)
    made = (("overlay", "made"),)
    assert found["pubweave_brokers", made] == 20
    assert found["pubweave_publications_per_second", made] == snapshot.publications_per_s
    assert found["pubweave_cost_seconds_per_second", made] == snapshot.cost_per_s / 1000
    assert found["pubweave_decisions_waiting", made] == 1
    p99 = found["pubweave_latency_seconds", (("quantile", "0.99"),)]
    assert p99 == pytest.approx(snapshot.latency.p99_ms / 1000)
    first = snapshot.brokers[0]
    assert first.counters is not None
    counted = found["pubweave_broker_publications_accepted_total", (("broker", first.id),)]
    assert counted == first.counters.publications_accepted
    link = snapshot.links[0]
    assert link.rtt_ms is not None
    labels = (("a", link.a), ("b", link.b))
    assert found["pubweave_link_round_trip_seconds", labels] == link.rtt_ms / 1000
    assert sum(name == "pubweave_link_up" for name, _ in found) == 19
    assert any(name == "pubweave_plan_progress_ratio" for name, _ in found)


def test_a_broker_that_is_down_says_only_that() -> None:
    overlay = MadeOverlay(5)
    overlay.down = frozenset({"b2"})
    found = parsed(asyncio.run(overlay.snapshot()))
    about = [name for name, labels in found if ("broker", "b2") in labels]
    assert about == ["pubweave_broker_up"]
    assert found["pubweave_broker_up", (("broker", "b2"),)] == 0


def test_what_is_not_known_is_left_out() -> None:
    found = parsed(Snapshot(1.5, "quiet"))
    names = {name for name, _ in found}
    assert "pubweave_latency_seconds" not in names
    assert "pubweave_cost_seconds_per_second" not in names
    assert "pubweave_plan_progress_ratio" not in names
    assert found["pubweave_snapshot_timestamp_seconds", (("overlay", "quiet"),)] == 1.5


def test_names_that_need_escaping_come_back_as_they_were() -> None:
    odd = 'a"b\\c\nd'
    trouble = Alert("odd", Severity.NOTE, "text", 0.0)
    snapshot = Snapshot(0.0, odd, brokers=(BrokerView(odd, is_up=True),), troubles=(trouble,))
    found = parsed(snapshot)
    assert found["pubweave_broker_up", (("broker", odd),)] == 1
    assert found["pubweave_trouble", (("kind", "odd"), ("severity", "note"))] == 1
    assert parsed(msgspec.structs.replace(snapshot, overlay="plain"))

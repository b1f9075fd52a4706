"""Broker processes that organize themselves: the cost falls, and nothing is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from soak.run_reorganize import SKEW, SkewedTraffic, run

from pubweave.generate.topologies.trees import chain
from pubweave.model.publications import make_publication
from tests.contract.zookeeper_users import needs_zookeeper


def check_clean(figures: dict[str, Any]) -> None:
    troubles = ("lost", "duplicated", "unexpected", "out_of_order")
    assert {name: figures["verdict"][name] for name in troubles} == dict.fromkeys(troubles, 0)
    assert figures["verdict"]["delivered"] == figures["verdict"]["expected"] > 0
    assert figures["is_tree"]
    assert figures["broker_deaths"] == figures["notifications_lost"] == 0


@pytest.mark.sockets
@needs_zookeeper()
def test_a_small_overlay_organizes_itself_and_nothing_is_lost() -> None:
    figures = run(brokers=8, topics=6, rate=60.0, seconds=25.0, interval_s=2.0, seed=3)
    check_clean(figures)
    assert figures["done"] > 0
    assert figures["links_changed"] > 0


@pytest.mark.slow
@pytest.mark.sockets
@needs_zookeeper()
def test_twenty_brokers_save_a_fifth_of_the_cost() -> None:
    figures = run(seed=21)
    check_clean(figures)
    assert figures["cost_saved"] >= 0.2
    assert figures["worked_out_saved"] >= 0.2


def test_traffic_is_skewed_and_no_broker_is_twice_in_a_topic() -> None:
    traffic = SkewedTraffic.draw(
        chain(8), np.random.default_rng(1), topics=5, places=3, rate_per_s=100.0
    )
    rates = [publisher.rate_per_s for publisher in traffic.publishers]
    assert sum(rates) == pytest.approx(100.0)
    assert rates[0] == pytest.approx(5**SKEW * rates[4])
    published = [make_publication("p1", n, "topic1", {}, b"", 0.0) for n in (1, 2)]
    ((interest, count),) = traffic.interests(published).items()
    assert count == 2
    assert interest[0] == traffic.publishers[1].broker
    assert len(set(interest)) == 4

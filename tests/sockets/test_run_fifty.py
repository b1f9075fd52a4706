"""The bar of a running overlay: fifty broker processes, nothing lost, memory flat."""

from __future__ import annotations

import pytest
from soak.run_fifty import MemorySample, memory_summary, run

pytestmark = pytest.mark.sockets


def check_clean(figures: dict[str, object]) -> None:
    verdict = figures["verdict"]
    assert isinstance(verdict, dict)
    troubles = ("lost", "duplicated", "unexpected", "out_of_order")
    assert {name: verdict[name] for name in troubles} == dict.fromkeys(troubles, 0)
    assert verdict["delivered"] == verdict["expected"] > verdict["publications"]
    assert figures["broker_deaths"] == 0
    assert figures["notifications_lost"] == 0


def test_a_small_twin_loses_nothing() -> None:
    figures = run(seconds=2.0, brokers=6, subscribers=120, publishers=4, rate=10.0)
    check_clean(figures)
    verdict = figures["verdict"]
    assert isinstance(verdict, dict)
    assert verdict["publications"] == 80


@pytest.mark.slow
def test_fifty_brokers_run_two_minutes_with_nothing_lost_and_memory_flat() -> None:
    figures = run(seconds=120.0, brokers=50, subscribers=1000, publishers=20, rate=5.0)
    check_clean(figures)
    assert figures["memory"]["rss_growth_after_warm_up"] < 0.05


def test_growth_is_told_from_noise_and_from_warming_up() -> None:
    sizes = [50.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 110.0]
    summary = memory_summary(
        [MemorySample(float(at), size, 2 * size, at / 2) for at, size in enumerate(sizes)]
    )
    assert summary["pss_mb_first_quarter"] == 75.0
    assert summary["pss_mb_last_quarter"] == 105.0
    assert summary["pss_growth"] == 0.4
    assert summary["rss_growth_after_warm_up"] == 0.05
    assert summary["broker_cores_busy"] == 0.5

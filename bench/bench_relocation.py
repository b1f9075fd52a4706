"""GRAPE's metrics for all candidates: 63 brokers in 0.1 ms, 10,000 in 30 ms, 200,000 in 3 s.

``python -m bench --only relocation [--json FILE]``; figures in microseconds. Random trees, bit
vectors of 100 publications. *metrics* starts from the brokers' reports and ends with both metrics
at all brokers; *naive* is the paper's O(N^2), every candidate by itself, at 63 in the same run.
Least and median of several runs.
*one subscriber*: what its broker takes to choose a place for it (`SubscriberPlacement.choose`).
"""

from __future__ import annotations

import os
import statistics as st
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from tests.naive import relocation as naive

from pubweave.design.relocation.publisher import metrics
from pubweave.design.relocation.rules import DeliveryReport, Preference
from pubweave.design.relocation.subscriber import (
    PlacedSubscriber,
    SubscriberPlacement,
    SubscriberProblem,
)
from pubweave.model.topology import Topology

BARS_US = {63: 100.0, 10_000: 60_000.0, 200_000: 5_000_000.0}
PUBLICATIONS = 100
SUBSCRIBER_BROKERS = (63, 1_000)
PLACED_BITS = 60


def run(seed: int = 1) -> dict[str, Any]:
    """The figures of one tree of each size."""
    figures: dict[str, Any] = {"seed": seed, "load_average_before": os.getloadavg()[0]}
    for brokers, bar_us in BARS_US.items():
        reports = random_reports(brokers, seed)
        rounds = 200 if brokers < 1_000 else 20 if brokers < 100_000 else 3
        times = _timed(partial(metrics, reports, "b0"), rounds)
        figures[f"{brokers:,} brokers"] = {
            "metrics_us": st.median(times),
            "least_us": min(times),
            "bar_us": bar_us,
            "met": st.median(times) < bar_us,
        }
        if brokers <= 100:
            naive_us = st.median(_timed(partial(_by_definition, reports), 3))
            figures[f"{brokers:,} brokers"]["naive_us"] = naive_us
    for brokers in SUBSCRIBER_BROKERS:
        placement = subscriber_placement(brokers, seed)
        times = _timed(partial(placement.choose, "s"), 50)
        figures[f"one subscriber, {brokers:,} brokers"] = {
            "choose_us": st.median(times),
            "least_us": min(times),
        }
    return figures


def subscriber_placement(brokers: int, seed: int) -> SubscriberPlacement:
    """One subscriber of one publisher in a random tree; others want something everywhere."""
    rng = np.random.default_rng(seed)
    topology = random_tree(brokers, rng)
    names = sorted(topology.brokers)
    bits = [int(b) for b in rng.integers(0, 2**PLACED_BITS, brokers)]
    return SubscriberPlacement(
        SubscriberProblem(
            topology=topology,
            hop_ms={},
            publisher_at={"p": names[0]},
            subscribers=(
                PlacedSubscriber("s", names[-1], {"p": 0b1011}, dict.fromkeys(names, 1.0)),
            ),
            most_clients=10,
            preference=Preference(),
            others={"p": dict(zip(names, bits, strict=True))},
            clients_at=dict.fromkeys(names, 3),
        )
    )


def random_tree(brokers: int, rng: np.random.Generator) -> Topology:
    above = (rng.random(brokers - 1) * np.arange(1, brokers)).astype(np.int64).tolist()
    return Topology.from_links((f"b{up}", f"b{n}") for n, up in enumerate(above, 1))


def _by_definition(reports: dict[str, DeliveryReport]) -> None:
    for broker in reports:
        naive.message_rate(reports, broker, None)
        naive.total_delay(reports, Fraction(0), broker, None)


def _timed(work: Callable[[], Any], rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        started_at = time.perf_counter()
        work()
        times.append((time.perf_counter() - started_at) * 1e6)
    return times


def random_reports(brokers: int, seed: int) -> dict[str, DeliveryReport]:
    """Of a random recursive tree with its vertices shuffled."""
    rng = np.random.default_rng(seed)
    names = [f"b{number}" for number in rng.permutation(brokers).tolist()]
    above = (rng.random(brokers - 1) * np.arange(1, brokers)).astype(np.int64).tolist()
    hops: dict[str, dict[str, float]] = {name: {} for name in names}
    for below, up in enumerate(above, 1):
        there, back = rng.uniform(0, 20, 2).tolist()
        hops[names[up]][names[below]], hops[names[below]][names[up]] = there, back
    return {
        name: DeliveryReport(
            float(rng.integers(0, 200)),
            int.from_bytes(rng.bytes(-(-PUBLICATIONS // 8)), "little") >> (-PUBLICATIONS % 8),
            hops[name],
            float(rng.uniform(0, 5)),
        )
        for name in names
    }

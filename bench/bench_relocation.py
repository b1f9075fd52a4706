"""GRAPE's metrics for all candidates: 63 brokers in 0.1 ms, 10,000 in 2 ms, 1,000,000 in 0.5 s.

``python -m bench --only relocation [--json FILE]``; figures in microseconds. Random trees, bit
vectors of 100 publications. *metrics* starts from arrays and ends with both metrics at all
brokers; *built* also makes the arrays from one report per broker (up to 10,000); *naive* is the
paper's O(N^2), every candidate by itself, at 63 in the same run. Least and median of several runs.
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

from pubweave.design.relocation.publisher import DeliveryStatistics, metrics
from pubweave.design.relocation.rules import DeliveryReport, Preference
from pubweave.design.relocation.subscriber import (
    PlacedSubscriber,
    SubscriberPlacement,
    SubscriberProblem,
)
from pubweave.model.topology import Topology

BARS_US = {63: 100.0, 10_000: 2_000.0, 1_000_000: 500_000.0}
PUBLICATIONS = 100
SUBSCRIBER_BROKERS = (63, 1_000)
PLACED_BITS = 60


def run(seed: int = 1) -> dict[str, Any]:
    """The figures of one tree of each size."""
    figures: dict[str, Any] = {"seed": seed, "load_average_before": os.getloadavg()[0]}
    metrics(random_statistics(10, seed), 0)
    for brokers, bar_us in BARS_US.items():
        arrays = random_statistics(brokers, seed)
        rounds = 200 if brokers < 1_000 else 20 if brokers < 100_000 else 7
        times = _timed(partial(metrics, arrays, 0), rounds)
        figures[f"{brokers:,} brokers"] = {
            "metrics_us": st.median(times),
            "least_us": min(times),
            "bar_us": bar_us,
            "met": st.median(times) < bar_us,
            **(_slower_ways(arrays) if brokers <= 10_000 else {}),
        }
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


def _slower_ways(arrays: DeliveryStatistics) -> dict[str, float]:
    reports = as_reports(arrays)
    built = _timed(lambda: metrics(DeliveryStatistics.of(reports), 0), 5)
    found = {"built_us": st.median(built)}
    if len(reports) <= 100:
        found["naive_us"] = st.median(_timed(lambda: _by_definition(reports), 3))
    return found


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


def random_statistics(brokers: int, seed: int) -> DeliveryStatistics:
    """A random recursive tree with its vertices shuffled, so that memory is visited at random."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(brokers)
    above = (rng.random(brokers - 1) * np.arange(1, brokers)).astype(np.int64)
    words = rng.integers(0, 2**64, (brokers, -(-PUBLICATIONS // 64)), dtype=np.uint64)
    words[:, -1] >>= np.uint64(-PUBLICATIONS % 64)
    return DeliveryStatistics(
        tuple(f"b{number}" for number in range(brokers)),
        np.stack([names[above], names[1:]], axis=1),
        rng.uniform(0, 20, (brokers - 1, 2)),
        rng.uniform(0, 5, brokers),
        rng.integers(0, 200, brokers).astype(np.float64),
        words,
    )


def as_reports(arrays: DeliveryStatistics) -> dict[str, DeliveryReport]:
    hops: list[dict[str, float]] = [{} for _ in arrays.brokers]
    for (a, b), (there, back) in zip(arrays.edges.tolist(), arrays.hop_ms.tolist(), strict=True):
        hops[a][arrays.brokers[b]] = there
        hops[b][arrays.brokers[a]] = back
    return {
        broker: DeliveryReport(
            float(arrays.deliveries[index]),
            int.from_bytes(arrays.bits[index].astype("<u8").tobytes(), "little"),
            hops[index],
            float(arrays.client_ms[index]),
        )
        for index, broker in enumerate(arrays.brokers)
    }

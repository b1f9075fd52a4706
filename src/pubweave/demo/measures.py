"""What the demo measures of an overlay at work, between two moments, and how it sums up.

Latencies are the subscribers' own; hops and messages come from the brokers' counters and the tree.
What was predicted stands between what was before and what came after.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.topology import Topology
from pubweave.runtime.client.observer import OverlayStatuses
from pubweave.runtime.observe.delivery_oracle import PublicationKey
from pubweave.runtime.observe.workload import percentile


@dataclass(frozen=True)
class OverlayFigures:
    """An overlay in numbers; None where nobody measured or predicted one."""

    cost_ms: float | None
    """Per notification (CI Eqs. 1 and 2)."""
    latency_ms_mean: float | None
    latency_ms_p99: float | None
    hops: float | None
    """From the publisher's broker to the subscriber's, by delivery."""
    messages: float | None
    """Publications over links, by delivery."""


ROWS = (
    ("cost per notification, ms", "cost_ms"),
    ("latency, average, ms", "latency_ms_mean"),
    ("latency, 99th percentile, ms", "latency_ms_p99"),
    ("hops per delivery", "hops"),
    ("messages per delivery", "messages"),
)


@dataclass(frozen=True)
class Moment:
    """How far everything had come at one instant."""

    latencies: int
    crossings: int
    deliveries: int
    received: Mapping[ClientId, int]


def moment(
    snapshot: OverlayStatuses,
    latencies: Sequence[float],
    received: Mapping[ClientId, Sequence[PublicationKey]],
) -> Moment:
    counters = [status.counters for status in snapshot.up]
    return Moment(
        len(latencies),
        # Whatever a broker took in and no client of it had published came over a link.
        sum(c.publications_in - c.publications_accepted for c in counters),
        sum(c.deliveries for c in counters),
        {client: len(keys) for client, keys in received.items()},
    )


def measured(
    begin: Moment,
    end: Moment,
    *,
    latencies: Sequence[float],
    received: Mapping[ClientId, Sequence[PublicationKey]],
    homes: Mapping[ClientId, BrokerId],
    topology: Topology,
    cost_ms: float | None,
) -> OverlayFigures:
    """What happened between two moments, on the tree of that time."""
    between = sorted(latencies[begin.latencies : end.latencies])
    hops: dict[tuple[BrokerId, BrokerId], int] = {}
    total = count = 0
    for client, keys in received.items():
        for key in keys[begin.received.get(client, 0) : end.received[client]]:
            pair = homes[key[0]], homes[client]
            if pair not in hops:
                hops[pair] = len(topology.path(*pair)) - 1
            total += hops[pair]
            count += 1
    deliveries = end.deliveries - begin.deliveries
    return OverlayFigures(
        cost_ms=cost_ms,
        latency_ms_mean=statistics.fmean(between) if between else None,
        latency_ms_p99=percentile(between, 0.99),
        hops=total / count if count else None,
        messages=(end.crossings - begin.crossings) / deliveries if deliveries else None,
    )


def table(
    before: OverlayFigures, predicted: OverlayFigures, after: OverlayFigures
) -> list[dict[str, Any]]:
    """One row per figure; shares are of what they are compared with."""
    rows = []
    for title, name in ROWS:
        was, said, is_now = (getattr(each, name) for each in (before, predicted, after))
        rows.append(
            {
                "figure": title,
                "name": name,
                "before": _rounded(was),
                "predicted": _rounded(said),
                "after": _rounded(is_now),
                "change": _share(is_now, was),
                "prediction_error": _share(said, is_now),
            }
        )
    return rows


def _share(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else round(one / other - 1.0, 4)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)

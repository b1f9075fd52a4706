"""The rows of DYNATOPS' figures 6 to 9: what one system has cost in one setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any


@dataclass(frozen=True)
class SystemRun:
    """Rates are per hour. Delay is in hops in the Poisson model, in ms in the location model."""

    model: str
    system: str
    pattern: str
    rate: float
    cluster_size: int
    load_weight: float
    free_period_h: int
    seed: int
    subscription_changes: float
    management_messages: float
    handovers: float
    most_loaded_over_mean: float
    """At the end."""
    highest_load_over_mean: float
    """In any hour."""
    load_deviation: float
    delay: float
    """From publishers to users."""
    tree_delay: float
    """From the rendezvous on, as in Eq. 4; with TCO it is the same."""
    messages_per_publication: float
    relays_per_publication: float
    reconfigurations: int
    reconfiguration_cost: float
    """DYNATOPS: Eq. 7, by which it decides; TCO: links changed."""
    reconfiguration_messages: float
    """DYNATOPS: counted step by step."""


def mean_over_seeds(rows: Sequence[SystemRun], metric: str, **setting: Any) -> float | None:
    """The mean of a metric over the rows with these values; None if there are none.

    >>> mean_over_seeds([], "delay", system="tco") is None
    True
    """
    values = [
        float(getattr(row, metric))
        for row in rows
        if all(getattr(row, name) == value for name, value in setting.items())
    ]
    return mean(values) if values else None


def saved(ours: float | None, theirs: float | None) -> float | None:
    """The share by which ours is below theirs.

    >>> saved(3.0, 4.0)
    0.25
    """
    if ours is None or not theirs:
        return None
    return 1 - ours / theirs

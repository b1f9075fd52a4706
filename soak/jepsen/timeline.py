"""How much was published and delivered in each second of a trial, and how fast; bounded memory."""

from __future__ import annotations

from typing import Any

from soak.jepsen.history import Line

BOUNDS_MS = [2.0**power for power in range(19)]
"""Latencies are counted in bins that double: 1 ms to 4 minutes."""


class Timeline:
    """Feed it the lines of histories."""

    def __init__(self) -> None:
        self._published: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        self._latencies: dict[int, list[int]] = {}
        """By the second in which they came."""

    def feed(self, line: Line) -> None:
        second = int(line[0])
        if line[1] == "pub":
            self._published[second] = self._published.get(second, 0) + 1
        elif line[1] == "got" and not line[10]:
            self._delivered[second] = self._delivered.get(second, 0) + 1
            ms = max(0.0, (line[0] - line[8]) * 1000.0)
            place = next((n for n, bound in enumerate(BOUNDS_MS) if ms <= bound), len(BOUNDS_MS))
            bins = self._latencies.setdefault(second, [0] * (len(BOUNDS_MS) + 1))
            bins[place] += 1

    def document(self, began: float) -> dict[str, Any]:
        """Columns by second since the beginning."""
        seconds = sorted({*self._published, *self._delivered})
        all_bins = [sum(bins) for bins in zip(*self._latencies.values(), strict=True)]
        return {
            "second": [s - int(began) for s in seconds],
            "published": [self._published.get(s, 0) for s in seconds],
            "delivered": [self._delivered.get(s, 0) for s in seconds],
            "median_ms": [_quantile(self._latencies.get(s), 0.5) for s in seconds],
            "p99_ms": [_quantile(self._latencies.get(s), 0.99) for s in seconds],
            "all_median_ms": _quantile(all_bins, 0.5),
            "all_p99_ms": _quantile(all_bins, 0.99),
        }


def _quantile(bins: list[int] | None, share: float) -> float | None:
    """The upper bound of the bin where a share of all is reached."""
    if not bins or not sum(bins):
        return None
    wanted, so_far = share * sum(bins), 0
    for place, count in enumerate(bins):
        so_far += count
        if so_far >= wanted:
            return BOUNDS_MS[min(place, len(BOUNDS_MS) - 1)]
    return BOUNDS_MS[-1]

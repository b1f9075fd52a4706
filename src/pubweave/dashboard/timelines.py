"""Time lines: the last points of an overlay's figures, in a ring of fixed size."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from pubweave.dashboard.snapshot import Snapshot

POINTS_MAX = 900
"""Fifteen minutes at a point per second; about 200 bytes each."""
APART_S = 0.5
"""Looks that follow each other closer than this make no points of their own."""


class Point(msgspec.Struct, frozen=True):
    """An overlay's figures at one instant; None where nobody has measured."""

    number: int
    at: float
    publications_per_s: float | None
    deliveries_per_s: float | None
    latency_mean_ms: float | None
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    latency_p99_ms: float | None
    queue_messages: int | None
    queue_bytes: int | None
    cost_per_s: float | None

    @classmethod
    def of(cls, snapshot: Snapshot, number: int) -> Point:
        latency = snapshot.latency
        is_there = snapshot.brokers_up > 0
        return cls(
            number=number,
            at=snapshot.taken_at,
            publications_per_s=snapshot.publications_per_s,
            deliveries_per_s=snapshot.deliveries_per_s,
            latency_mean_ms=None if latency is None else latency.mean_ms,
            latency_p50_ms=None if latency is None else latency.p50_ms,
            latency_p95_ms=None if latency is None else latency.p95_ms,
            latency_p99_ms=None if latency is None else latency.p99_ms,
            queue_messages=snapshot.queue_messages if is_there else None,
            queue_bytes=snapshot.queue_bytes if is_there else None,
            cost_per_s=snapshot.cost_per_s,
        )


class TimeLines:
    """The last points, the oldest first."""

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self._points: deque[Point] = deque(maxlen=points_max)

    def add(self, point: Point) -> None:
        if not self._points or point.at - self._points[-1].at >= APART_S:
            self._points.append(point)

    def after(self, number: int) -> list[Point]:
        """The points with a greater number; their oldest may be gone."""
        found: list[Point] = []
        for point in reversed(self._points):
            if point.number <= number:
                break
            found.append(point)
        found.reverse()
        return found

    def __iter__(self) -> Iterator[Point]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)

"""The state of the page on the server's side: levels with versions, and who waits for news.

A snapshot is cut into parts; a part has the number of the look at which it last changed. Whoever
follows the board remembers the last number it was told and asks for what is newer. So a follower
that is slow, away or new costs no memory and misses nothing that still holds: there is no queue to
fill. Invariant: numbers only grow, and a part's number is never above the board's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from pubweave.dashboard.documents import (
    Mark,
    brokers_of,
    decisions_document,
    deployment_marks,
    links_after,
    loads_document,
    picture_document,
    plan_document,
    proposal_marks,
    status_document,
    steps_of,
    troubles_document,
)
from pubweave.dashboard.snapshot import Alert, Placer, Positions, Severity, Snapshot, SnapshotSource
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology

POINTS = "points"


@dataclass(frozen=True)
class Part:
    """One part of the page as JSON, and the look at which it became so."""

    name: str
    data: bytes
    number: int


@dataclass(frozen=True)
class News:
    """What is newer than a follower knows: all of it at ``number``."""

    number: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Picture:
    """Where brokers are and what the plan does with links, worked out for one snapshot."""

    positions: Positions
    marks: dict[Link, Mark]


class PageState:
    """What all followers see. In one event loop; `draw` may run in another thread."""

    def __init__(self, place: Placer, points_max: int | None = None) -> None:
        self.snapshot: Snapshot | None = None
        self.number = 0
        self.is_closed = False
        self.timelines = TimeLines() if points_max is None else TimeLines(points_max)
        self._frame = PictureFrame(place)
        self._parts: dict[str, Part] = {}
        self._changed = asyncio.Event()

    def draw(self, snapshot: Snapshot) -> Picture:
        """Work the picture out: at hundreds of brokers a matter of tenths of a second."""
        links = frozenset(link.link for link in snapshot.links)
        brokers = frozenset(broker.id for broker in snapshot.brokers)
        deployment, waiting = snapshot.deployment, snapshot.waiting
        marks: dict[Link, Mark] = {}
        target: frozenset[Link] | None = None
        if deployment is not None and deployment.is_in_motion:
            marks = deployment_marks(links, deployment)
            rest = deployment.steps[deployment.steps_done :]
            target = links_after(links, rest)
            brokers |= brokers_of(rest)
        elif waiting is not None and (steps := steps_of(waiting)):
            marks = proposal_marks(links, steps)
            target = links_after(links, steps)
            brokers |= brokers_of(steps)
        return Picture(self._frame.settle(brokers, links, target), marks)

    def take(self, snapshot: Snapshot, picture: Picture) -> None:
        """Show a snapshot and its picture; wakes all who wait."""
        self.number += 1
        self.snapshot = snapshot
        self.timelines.add(Point.of(snapshot, self.number))
        documents: dict[str, Any] = {
            "troubles": troubles_document(snapshot),
            "status": status_document(snapshot),
            "picture": picture_document(snapshot, picture.positions, picture.marks),
            "loads": loads_document(snapshot),
            "plan": plan_document(snapshot.deployment),
            "decisions": decisions_document(snapshot),
        }
        for name, document in documents.items():
            data = msgspec.json.encode(document)
            before = self._parts.get(name)
            if before is None or before.data != data:
                self._parts[name] = Part(name, data, self.number)
        self._wake()

    def close(self) -> None:
        """There will be no more news: whoever waits is told so."""
        self.is_closed = True
        self._wake()

    def part(self, name: str) -> bytes | None:
        """A part's JSON; None before the first snapshot."""
        found = self._parts.get(name)
        return None if found is None else found.data

    def news(self, after: int) -> News:
        """What changed after that number, in the order the page is built in."""
        parts = [part for part in self._parts.values() if part.number > after]
        points = self.timelines.after(after)
        if points:
            data = msgspec.json.encode([msgspec.structs.astuple(point) for point in points])
            parts.append(Part(POINTS, data, self.number))
        return News(self.number, tuple(parts))

    async def wait_for_news(self, after: int, limit_s: float) -> News | None:
        """What changed after that number, as soon as something has; None after the limit
        or when there will be none."""
        try:
            async with asyncio.timeout(limit_s):
                while self.number <= after and not self.is_closed:
                    await self._changed.wait()
        except TimeoutError:
            return None
        return None if self.is_closed else self.news(after)

    def _wake(self) -> None:
        waiters, self._changed = self._changed, asyncio.Event()
        waiters.set()


# Where brokers are in the picture: as long as possible where they were.
#
# A picture in which everything moves with every link tells nothing about the link. So while a
# plan is in motion or waits for a person nobody moves: the places suit the topology before it and
# after it alike. Otherwise a changed topology settles anew from the places it had, so that only
# what changed moves much, and the page lets it glide there.


class PictureFrame:
    """Keeps the places of one overlay's brokers. Not for two threads at once."""

    def __init__(self, place: Placer) -> None:
        self.positions: Positions = {}
        self._place = place
        self._suits: tuple[frozenset[Link], frozenset[Link] | None] = (frozenset(), None)

    def settle(
        self, brokers: frozenset[BrokerId], links: frozenset[Link], target: frozenset[Link] | None
    ) -> Positions:
        """Places for the brokers with these links; ``target``: where a plan leads, if one is."""
        brokers = brokers | {end for link in links | (target or frozenset()) for end in link}
        is_placed = brokers <= self.positions.keys()
        is_same = (links, target) == self._suits
        is_on_its_way = target is not None and target == self._suits[1]
        if is_placed and (is_same or is_on_its_way):
            return {broker: self.positions[broker] for broker in sorted(brokers)}
        self._suits = links, target
        kept = {b: at for b, at in self.positions.items() if b in brokers}
        topologies = [Topology(brokers, links)]
        if target is not None:
            topologies.append(Topology(brokers, target))
        self.positions = self._place(topologies, kept or None) if brokers else {}
        return self.positions


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


# The loop that looks at the source now and then and shows what it saw on the board.
#
# A look that fails is not the end: what was last seen stays, with a trouble that says since when
# nothing new is known, and the next look comes as always.


log = logging.getLogger(__name__)
INTERVAL_S = 1.0
MOTION_SHARE = 0.25
"""A plan's steps may take tenths of a second: while one is under way looks follow closely."""


class Poller:
    """Looks every ``interval_s``, or less often where a look takes longer than half of that."""

    def __init__(
        self, source: SnapshotSource, board: PageState, interval_s: float = INTERVAL_S
    ) -> None:
        self._source = source
        self._board = board
        self._interval_s = interval_s
        self._failing_since: float | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            began = time.monotonic()
            await self.poll()
            took_s = time.monotonic() - began
            every_s = self._interval_s * (MOTION_SHARE if self._is_in_motion else 1.0)
            await self._source.wait_for_news(max(every_s - took_s, every_s / 2))

    @property
    def _is_in_motion(self) -> bool:
        seen = self._board.snapshot
        return seen is not None and seen.deployment is not None and seen.deployment.is_under_way

    async def poll(self) -> None:
        """Look once."""
        try:
            snapshot = await self._source.snapshot()
            picture = await asyncio.to_thread(self._board.draw, snapshot)
        except Exception as error:
            log.exception("the overlay could not be looked at")
            snapshot = self._without_news(error)
            picture = await asyncio.to_thread(self._board.draw, snapshot)
        else:
            self._failing_since = None
        self._board.take(snapshot, picture)

    def _without_news(self, error: Exception) -> Snapshot:
        now = time.time()
        since = self._failing_since = self._failing_since or now
        text = f"the overlay cannot be looked at: {error or type(error).__name__}"
        trouble = Alert("source_failed", Severity.ERROR, text, since)
        last = self._board.snapshot or Snapshot(now, "")
        others = tuple(t for t in last.troubles if t.kind != trouble.kind)
        return msgspec.structs.replace(last, taken_at=now, troubles=(trouble, *others))

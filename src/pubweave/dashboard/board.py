"""The state of the page on the server's side: levels with versions, and who waits for news.

A snapshot is cut into parts; a part has the number of the look at which it last changed. Whoever
follows the board remembers the last number it was told and asks for what is newer. So a follower
that is slow, away or new costs no memory and misses nothing that still holds: there is no queue to
fill. Invariant: numbers only grow, and a part's number is never above the board's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from pubweave.dashboard.documents import (
    decisions_document,
    loads_document,
    picture_document,
    plan_document,
    status_document,
    troubles_document,
)
from pubweave.dashboard.places import PictureFrame
from pubweave.dashboard.plan_marks import (
    Mark,
    brokers_of,
    deployment_marks,
    links_after,
    proposal_marks,
    steps_of,
)
from pubweave.dashboard.snapshot import Snapshot
from pubweave.dashboard.source import Placer, Positions
from pubweave.dashboard.timelines import Point, TimeLines
from pubweave.model.ids import Link

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


class Board:
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

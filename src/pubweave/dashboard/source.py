"""Where snapshots come from, and who does what a person asks for: two protocols.

The page's server knows only these. An implementation watches a real overlay; tests have one that
makes overlays up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pubweave.dashboard.snapshot import Snapshot
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology

Positions = dict[BrokerId, tuple[float, float]]
"""Where brokers are in a picture, each coordinate within [-1, 1]."""
Placer = Callable[[Sequence[Topology], Positions | None], Positions]
"""Finds places that suit all the topologies, near the places given if any are."""


class CommandError(ValueError):
    """What a person asked for cannot be done now; the message says why."""


class SnapshotSource(Protocol):
    """Watches one overlay."""

    async def snapshot(self) -> Snapshot:
        """How things are now. Troubles are in the snapshot; it does not raise for them."""
        ...

    async def wait_for_news(self, limit_s: float) -> None:
        """Until something has happened that is worth a look at once, or the time is over."""
        ...


class Commands(Protocol):
    """What a person with the token can ask for. Each raises CommandError where it cannot be
    done, and returns what was done, in words."""

    async def approve(self, decision: str) -> str: ...

    async def reject(self, decision: str) -> str: ...

    async def pause(self, deployment: str) -> str: ...

    async def abort(self, deployment: str) -> str: ...

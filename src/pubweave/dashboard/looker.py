"""The loop that looks at the source now and then and shows what it saw on the board.

A look that fails is not the end: what was last seen stays, with a trouble that says since when
nothing new is known, and the next look comes as always.
"""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from pubweave.dashboard.board import Board
from pubweave.dashboard.snapshot import Severity, Snapshot, Trouble
from pubweave.dashboard.source import SnapshotSource

log = logging.getLogger(__name__)
INTERVAL_S = 1.0
MOTION_SHARE = 0.25
"""A plan's steps may take tenths of a second: while one is under way looks follow closely."""


class Looker:
    """Looks every ``interval_s``, or less often where a look takes longer than half of that."""

    def __init__(
        self, source: SnapshotSource, board: Board, interval_s: float = INTERVAL_S
    ) -> None:
        self._source = source
        self._board = board
        self._interval_s = interval_s
        self._failing_since: float | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            began = time.monotonic()
            await self.look()
            took_s = time.monotonic() - began
            every_s = self._interval_s * (MOTION_SHARE if self._is_in_motion else 1.0)
            await self._source.wait_for_news(max(every_s - took_s, every_s / 2))

    @property
    def _is_in_motion(self) -> bool:
        seen = self._board.snapshot
        return seen is not None and seen.deployment is not None and seen.deployment.is_under_way

    async def look(self) -> None:
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
        trouble = Trouble("source_failed", Severity.ERROR, text, since)
        last = self._board.snapshot or Snapshot(now, "")
        others = tuple(t for t in last.troubles if t.kind != trouble.kind)
        return msgspec.structs.replace(last, taken_at=now, troubles=(trouble, *others))

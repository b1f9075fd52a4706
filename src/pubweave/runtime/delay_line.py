"""A delay line: what goes in comes out in the same order, each thing as late as the other.

With one per link, brokers on one machine behave as if they were apart: what a neighbor sends is
handled only after the time it would have been under way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

Deed = Callable[[], None]


class DelayLine:
    """Deeds that are done ``delay_s`` after they were put in. Memory is bounded by whoever puts
    them in: a link's window bounds what can be under way."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self._waiting: deque[tuple[float, Deed]] = deque()
        self._loop = asyncio.get_running_loop()

    def put(self, deed: Deed) -> None:
        due = self._loop.time() + self.delay_s
        self._waiting.append((due, deed))
        if len(self._waiting) == 1:
            self._loop.call_at(due, self._come_out)

    def _come_out(self) -> None:
        # One timer for the first, so that equal instants cannot be served in another order.
        now = self._loop.time()
        while self._waiting and self._waiting[0][0] <= now:
            self._waiting[0][1]()
            self._waiting.popleft()
        if self._waiting:
            self._loop.call_at(self._waiting[0][0], self._come_out)

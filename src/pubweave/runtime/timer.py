"""The one re-armed timer of a core: fires when its next deadline has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pubweave.core.events import LOCAL_PAUSE_S
from pubweave.runtime.clock import UnixClock


class DeadlineTimer:
    """Calls back at the earliest deadline it was told of; a later one waits for the callback."""

    def __init__(self, clock: UnixClock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self._due_at = float("inf")

    def arm(self, deadline: float) -> None:
        if self._handle is not None:
            if deadline >= self._due_at:
                return
            self._handle.cancel()
        now = self._clock.now()
        # A core that wants to be called at once may name an instant long past: nobody is late yet.
        self._due_at = max(deadline, now)
        self._handle = asyncio.get_running_loop().call_later(self._due_at - now, self._fire)

    def take_pause(self, now: float) -> float:
        """How much too late this timer is, if that is so much that the process cannot have run;
        else 0. Said once."""
        late_s = now - self._due_at
        if late_s <= LOCAL_PAUSE_S:
            return 0.0
        self._due_at += late_s
        return late_s

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._due_at = float("inf")
        self._callback()

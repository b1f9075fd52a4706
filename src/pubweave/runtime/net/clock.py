"""The one clock of a process: unix time that never runs backwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from pubweave.core.vocabulary.events import LOCAL_PAUSE_S


class UnixClock:
    """Seconds since 1970, read once from the wall and carried on by the monotonic clock.

    Timers would misfire and latencies turn negative if somebody set the wall clock meanwhile.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def not_before(self, instant: float) -> None:
        """From now on it says no less than ``instant``: the wall may have been set back since an
        earlier process said so, and what that one was to do would be long in coming."""
        self._offset += max(0.0, instant - self.now())

    def epoch(self) -> int:
        """A number for an incarnation: later ones are larger."""
        return round(self.now() * 1e6)


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
        self._callback()  # which may want to know how late it is
        if self._handle is None:
            self._due_at = float("inf")

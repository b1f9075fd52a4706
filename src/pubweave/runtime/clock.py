"""The one clock of a process: unix time that never runs backwards."""

from __future__ import annotations

import time


class UnixClock:
    """Seconds since 1970, read once from the wall and carried on by the monotonic clock.

    Timers would misfire and latencies turn negative if somebody set the wall clock meanwhile.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def epoch(self) -> int:
        """A number for an incarnation: later ones are larger."""
        return time.time_ns() // 1000

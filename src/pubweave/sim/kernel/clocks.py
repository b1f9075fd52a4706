"""Clocks of simulated machines: each process reads its own, and no two need agree.

As `runtime.net.clock`: a process reads the wall once when it starts and goes on by the monotonic
clock. So what it says never runs backwards while it lives, but may run fast or slow, jump forward
(a machine that was suspended or moved), and say something earlier in the process's next life.
"""

from __future__ import annotations

import math
from typing import Protocol

DRIFT = 0.03
"""A clock is at most so much too fast or too slow."""
APART_S = 60.0
"""What walls say differs by at most so much, also before and after a restart."""


class Draws(Protocol):
    """Who draws numbers and knows the time: the world."""

    now: float

    def uniform(self, low: float, high: float) -> float: ...


class Clock:
    """What a process takes for the time, by the world's; at first it is right."""

    def __init__(self, offset_s: float = 0.0, rate: float = 1.0) -> None:
        self._ahead_s = offset_s
        self._rate = rate

    @classmethod
    def draw(cls, world: Draws) -> Clock:
        """The clock of a process that starts now: wrong, and too fast or too slow."""
        rate = world.uniform(1.0 - DRIFT, 1.0 + DRIFT)
        return cls(world.uniform(0.0, APART_S) + world.now * (1.0 - rate), rate)

    def read(self, instant: float) -> float:
        """What it says at an instant of the world."""
        return self._ahead_s + instant * self._rate

    def when(self, reading: float) -> float:
        """The first instant of the world at which it says no less."""
        instant = (reading - self._ahead_s) / self._rate
        while self.read(instant) < reading:
            instant = math.nextafter(instant, math.inf)
        return instant

    def not_before(self, instant: float, reading: float) -> None:
        """At this instant it says no less than ``reading``."""
        self._ahead_s += max(0.0, reading - self.read(instant))

    def jump(self, seconds: float) -> None:
        """From now on it says so much more."""
        self._ahead_s += seconds

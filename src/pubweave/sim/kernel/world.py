"""Virtual time: a heap of things to happen, ordered by instant and then by insertion.

The heap is all there is of a clock; the same seed gives the same order, whatever the machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, TypeVar

import numpy as np

from pubweave.sim.kernel.clocks import Clock
from pubweave.sim.kernel.trace import Trace

T = TypeVar("T")


class World:
    """Virtual time, randomness and the trace of one simulated run."""

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        """For the generators of topologies; one number at a time is quicker had from `random`."""
        self.random = random.Random(seed).random
        """A number from 0 to 1, below 1."""
        self.trace = trace
        self.now = 0.0
        self.draw_clock: Callable[[], Clock] = Clock
        """The clock of a broker's process that is about to start."""
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = 0

    def at(self, instant: float, what: Callable[..., None], *args: Any) -> None:
        """Let ``what(*args)`` happen at an instant; at once if that has passed."""
        self._numbers += 1
        now = self.now
        heappush(self._heap, (instant if instant > now else now, self._numbers, what, args))

    def after(self, delay_s: float, what: Callable[..., None], *args: Any) -> None:
        self.at(self.now + delay_s, what, *args)

    @property
    def steps(self) -> int:
        """How many things have happened."""
        return self._numbers - len(self._heap)

    def run_until(self, instant: float) -> None:
        """Let everything happen that is due up to an instant."""
        heap = self._heap
        while heap and heap[0][0] <= instant:
            self.now, _, what, args = heappop(heap)
            what(*args)
        self.now = instant

    def note(self, who: str, text: str) -> None:
        """Write a line of the trace, if there is one."""
        if self.trace is not None:
            self.trace.write(self.now, who, text)

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + int(self.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def choice(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

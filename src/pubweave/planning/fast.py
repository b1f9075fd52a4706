"""Ever better plans for problems too large to be solved exactly: the greedy and repairs by turns.

Turns are counted in runs, not seconds: the same seed takes the same way, however slow the machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pubweave.planning.greedy import Greedy
from pubweave.planning.indexed import IndexedProblem, NumberedSteps
from pubweave.planning.repair import Repair
from pubweave.planning.stop import Stop

# The greedy has its turn until so many runs in a row have saved no step.
_RUNS_IN_VAIN = 600


class FastSearch:
    """Plans of one problem, none proven best."""

    def __init__(self, indexed: IndexedProblem, greedy: Greedy, rng: np.random.Generator) -> None:
        self._greedy = greedy
        self._repair = Repair(indexed, rng) if Repair.knows(indexed) else None

    def run(self, best: NumberedSteps, stop: Stop) -> Iterator[NumberedSteps]:
        """Plans better than ``best`` for the most part, until stopped or nothing is left."""
        if self._repair is None:
            yield from self._greedy.improve(best, stop)
            return
        while best and not stop():
            patience = _Patience(stop)
            for better in self._greedy.improve(best, patience.is_over):
                if len(better) < len(best):
                    patience.renew()
                best = better
                yield best
            mended = self._repair.mended(best, stop)
            if len(mended) < len(best):
                yield mended
            # Also where no step was saved: the next turn starts from fewer late tokens.
            best = mended


class _Patience:
    """A stop that also comes after too many questions in vain."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._left = _RUNS_IN_VAIN

    def renew(self) -> None:
        self._left = _RUNS_IN_VAIN

    def is_over(self) -> bool:
        self._left -= 1
        return self._left < 0 or self._stop()

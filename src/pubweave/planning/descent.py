"""Fewer steps from many plans: each greedy plan taken down as far as its close surroundings go.

Whether a step can be saved within one slide of a plan is decided in a tenth of a second at 100
brokers, where the whole question takes minutes. Most plans have no better one so close by, but the
greedy has hundreds of plans of about the same length to offer, and it takes only one of them. Wider
surroundings of the best plan are tried in between.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pubweave.planning.greedy import Greedy
from pubweave.planning.indexed import NumberedSteps
from pubweave.planning.reachability import Reach, Reachability
from pubweave.planning.token_plans import plan_around

_CLOSE = 1
# After so many fruitless starts the surroundings of the best plan with this radius.
_WIDER = {8: 2, 24: 3, 48: 4}
_STARTS = 64
_CONFLICTS = 20_000
_GREEDY_RUNS = 500


class Descent:
    """Ever shorter plans of one problem, until it runs out of ideas."""

    def __init__(self, reachability: Reachability, rng: np.random.Generator) -> None:
        self._reachability = reachability
        self._rng = rng
        self._reaches: dict[int, Reach | None] = {}

    def run(self, best: NumberedSteps, at_least: int) -> Iterator[NumberedSteps]:
        """Each plan has fewer steps than ``best`` and all before; none has fewer than
        ``at_least``."""
        start: NumberedSteps | None = best
        longest, fruitless = len(best), 0
        while len(best) > at_least and fruitless < _STARTS:
            found = best if start is None else self._down(start, at_least)
            if len(found) >= len(best) and fruitless in _WIDER:
                found = self._around(best, _WIDER[fruitless]) or found
            fruitless += 1
            if len(found) < len(best):
                best, fruitless = found, 0
                yield best
            start = self._another(longest)

    def within(self, steps: int) -> Reach | None:
        """What so many steps can reach, worked out once."""
        if steps not in self._reaches:
            self._reaches[steps] = self._reachability.within(steps)
        return self._reaches[steps]

    def _down(self, plan: NumberedSteps, at_least: int) -> NumberedSteps:
        """As far down as each next plan is close to the one before."""
        while len(plan) > at_least:
            found = self._around(plan, _CLOSE)
            if found is None:
                break
            plan = found
        return plan

    def _around(self, plan: NumberedSteps, radius: int) -> NumberedSteps | None:
        reach = self.within(len(plan) - 1)
        if reach is None:
            return None
        return plan_around(self._reachability, reach, plan, radius, _CONFLICTS)

    def _another(self, longest: int) -> NumberedSteps | None:
        """A greedy plan, mostly of no more than so many steps."""
        problem = self._reachability.indexed.problem
        if problem.max_degree is not None:
            return None  # the source may lie above the limit, of which the greedy knows nothing
        greedy = Greedy(self._reachability.indexed, self._rng)
        first = greedy.first()
        if first is None:
            return None
        runs = iter(range(_GREEDY_RUNS))
        better = list(greedy.improve(first, lambda: next(runs, None) is None, longest))
        return better[-1] if better else first

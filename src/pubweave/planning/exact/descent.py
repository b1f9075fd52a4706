"""Fewer steps from many plans: each greedy plan taken down as far as its close surroundings go.

Whether a step can be saved within one slide of a plan is decided in a tenth of a second at 100
brokers, where the whole question takes minutes. Most plans have no better one so close by, but the
greedy has hundreds of plans of about the same length to offer, and it takes only one of them. In
between, now and then, more room: tokens may be two steps ahead of the plan, which takes a second or
two and finds what close surroundings miss; two slides away, which takes ten.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pubweave.planning.bounds.reachability import Reach, Reachability
from pubweave.planning.exact.sat import SearchRadius, plan_around
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.problem.indexed import NumberedSteps

_CLOSE = SearchRadius(radius=1, ahead=1, conflicts=20_000)
_AHEAD = SearchRadius(radius=1, ahead=2, conflicts=40_000)
_WIDE = SearchRadius(radius=2, ahead=1, conflicts=20_000)
# After this many starts in vain, again and again.
_AHEAD_EVERY = 4
_WIDE_EVERY = 20
_STARTS = 40
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
        start, longest, in_vain = best, len(best), 0
        while len(best) > at_least and in_vain < _STARTS:
            found = self._down(start, at_least)
            in_vain += 1
            if len(found) >= len(best):
                found = self._further(found if len(found) == len(best) else best, in_vain)
            if len(found) < len(best):
                best, in_vain = found, 0
                yield best
            start = self._another(longest) or best

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

    def _further(self, plan: NumberedSteps, in_vain: int) -> NumberedSteps:
        """One step less with more room, if it is time for that; else the plan itself."""
        found = None
        if in_vain % _WIDE_EVERY == 0:
            found = self._around(plan, _WIDE)
        elif in_vain % _AHEAD_EVERY == 0:
            found = self._around(plan, _AHEAD)
        return plan if found is None else found

    def _around(self, plan: NumberedSteps, where: SearchRadius) -> NumberedSteps | None:
        reach = self.within(len(plan) - 1)
        return None if reach is None else plan_around(self._reachability, reach, plan, where)

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

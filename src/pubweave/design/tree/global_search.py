"""The best tree that a search with global knowledge finds: an upper mark for every heuristic.

Starts from several trees and exchanges links as long as one exchange gains anything, each priced
exactly; then kicks the best tree at a random place, repairs it there, and keeps what is better
(iterated local search). Links whose ring did not change are not looked at again until nothing
else is left, and then all of them once more: what ends undisturbed is a local optimum for every
exchange of two links.

The generator and the stop come from outside, and how many kicks there are depends on the problem
only: the same seed gives the same tree unless somebody stops it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pubweave.design.tree.cost import edges_of, links_of, total_cost
from pubweave.design.tree.limits import Allowance
from pubweave.design.tree.link_exchange import Exchange, Pair, TreeState
from pubweave.design.tree.problem import (
    DesignProblem,
    DesignProgress,
    DesignResult,
    DesignStatus,
    OnProgress,
    Stop,
    ignore_progress,
)
from pubweave.design.tree.spanning import starting_trees
from pubweave.design.tree.traffic import Integers

LEAST_GAIN = 1e-10
"""As a share of the whole cost; below it lies the noise of adding up."""

_KICK_SHARES = (0.1, 0.5)
"""A kick moves a share of all links between these: trees that differ in few links have all been
looked at by the exchanges."""
_KICKS_PER_BROKER = 3
_KICK_WORK = 3e9
"""Steps of the kernels in all kicks together: about ten seconds."""
_SAMPLED_SETS = 20_000
"""Where there are many more sets than these, the way down is first found with a sample."""


@dataclass(frozen=True)
class FoundTree:
    """A tree as indices, with its cost."""

    edges: Integers
    cost: float


class GlobalSearch:
    """One search; ``best`` is always a tree within the limits once `first` has returned."""

    def __init__(
        self,
        problem: DesignProblem,
        *,
        stop: Stop,
        rng: np.random.Generator,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        self._problem = problem
        self._stop = stop
        self._rng = rng
        self._tell = on_progress
        self._allowance = Allowance(problem)
        source = edges_of(problem.source, problem.brokers)
        self._state = TreeState(problem.traffic, problem.prices, source)
        self.exchanges = 0
        self._looks = 0
        self._allowance.bring_within(self._state)
        self.best = FoundTree(self._state.edges, self._state.cost)

    def run(self) -> FoundTree:
        """All starts, then kicks."""
        self.descend_from_starts()
        self.kick(self.kick_count())
        return self.best

    def descend_from_starts(self) -> None:
        """Improve the source and, unless changes are bounded, trees built from the prices."""
        starts = [self.best]
        if self._problem.limits.max_changes is None:
            for edges in starting_trees(self._problem):
                self._state.reset(edges)
                self._allowance.bring_within(self._state)
                starts.append(FoundTree(self._state.edges, self._state.cost))
            # A start that is cheaper is a result already, should somebody stop the search now.
            self.best = min(starts, key=lambda found: found.cost)
        else:
            self._spend_changes()
        if self._problem.traffic.set_count > 4 * _SAMPLED_SETS:
            starts = [self._descended_by_sample(starts)]
        for number, start in enumerate(sorted(starts, key=lambda found: found.cost)):
            if self._stop():
                return
            self._state.reset(start.edges)
            self._descend(sorted(self._state.links), is_whole=True)
            self._keep_if_better(f"from start {number + 1} of {len(starts)}")

    def kick_count(self) -> int:
        return _KICKS_PER_BROKER * len(self._problem.brokers)

    def kick(self, count: int) -> None:
        """Disturb the best tree and repair it, again and again, while the work is bearable."""
        if len(self._problem.brokers) < 4:
            return
        traffic = self._problem.traffic
        # A look at a link walks over the delivery trees of some brokers' sets.
        per_look = 2000 + 250 * len(traffic.members) / len(self._problem.brokers)
        looks_max = self._looks + _KICK_WORK / per_look
        self._state.reset(self.best.edges)
        cost = self.best.cost
        for number in range(count):
            if self._stop() or self._looks > looks_max:
                break
            before = self._state.edges
            touched, change = self._disturb()
            change -= self._descend(touched, is_whole=False)
            if change < -LEAST_GAIN * cost:
                cost += change
                self.best = FoundTree(self._state.edges, cost)
                self._tell(DesignProgress(f"kick {number + 1} of {count}", cost))
            elif change > LEAST_GAIN * cost:
                self._state.reset(before)
        self._state.reset(self.best.edges)
        self._descend(sorted(self._state.links), is_whole=True)
        self._keep_if_better("looked at every link again")

    def _descend(self, links: Iterable[Pair], *, is_whole: bool) -> float:
        """Exchange links while that gains; returns how much it gained.

        ``is_whole``: before ending, look at every link once more.
        """
        queue = deque(links)
        waiting = set(queue)
        gained, least = 0.0, LEAST_GAIN * self.best.cost
        has_changed = False
        while not self._stop():
            if not queue:
                if not (is_whole and has_changed):
                    break
                queue.extend(sorted(self._state.links))
                waiting = set(queue)
                has_changed = False
            link = queue.popleft()
            waiting.discard(link)
            if link not in self._state.links:
                continue
            self._looks += 1
            found = self._allowance.best_exchange(self._state, link)
            if found is None or found.gain <= least:
                continue
            gained += found.gain
            has_changed = True
            self.exchanges += 1
            for touched in self._state.apply(found):
                if touched not in waiting:
                    waiting.add(touched)
                    queue.append(touched)
        return gained

    def _spend_changes(self) -> None:
        """Where changes are bounded the best exchange of all comes first, not the first good."""
        while not self._stop():
            options = [
                found
                for link in sorted(self._state.links)
                for found in [self._allowance.best_exchange(self._state, link)]
                if found is not None
            ]
            best = max(options, key=lambda each: (each.gain, each.added), default=None)
            if best is None or best.gain <= LEAST_GAIN * self.best.cost:
                return
            self._state.apply(best)
            self.exchanges += 1
            self._keep_if_better(f"{self._allowance.changes(self._state)} links changed")

    def _descended_by_sample(self, starts: list[FoundTree]) -> FoundTree:
        """The best start after going down with a sample of the sets in place of all of them."""
        problem, whole = self._problem, self._state
        sample = problem.traffic.sample(_SAMPLED_SETS, self._rng)
        found = []
        for number, start in enumerate(starts):
            self._state = TreeState(sample, problem.prices, start.edges)
            self._descend(sorted(self._state.links), is_whole=True)
            edges = self._state.edges
            found.append(FoundTree(edges, total_cost(problem.traffic, problem.prices, edges)))
            message = f"from start {number + 1} of {len(starts)}, by a sample"
            self._tell(DesignProgress(message, found[-1].cost))
        self._state = whole
        chosen = min(found, key=lambda each: each.cost)
        self.best = min(self.best, chosen, key=lambda each: each.cost)
        return chosen

    def _disturb(self) -> tuple[list[Pair], float]:
        """Random exchanges of a share of the links: the links touched, and what it cost."""
        links = sorted(self._state.links)
        count = max(2, round(self._rng.uniform(*_KICK_SHARES) * len(links)))
        touched: list[Pair] = []
        change = 0.0
        for place in self._rng.permutation(len(links))[:count].tolist():
            exchange = self._random_exchange(links[place])
            if exchange is not None:
                change -= exchange.gain
                touched = [*self._state.apply(exchange), *touched]
        return list(dict.fromkeys(touched)), change

    def _random_exchange(self, link: Pair) -> Exchange | None:
        """A link for a random end that is kept and the best of the other ends."""
        state, allowance = self._state, self._allowance
        if link not in state.links or link in allowance.pinned:
            return None
        bounded = allowance.max_changes
        if bounded is not None and allowance.changes(state) >= bounded:
            return None
        broker = int(self._rng.integers(len(self._problem.brokers)))
        candidates = np.full_like(allowance.candidates, np.inf)
        candidates[broker] = allowance.candidates[broker]
        candidates[:, broker] = allowance.candidates[:, broker]
        self._looks += 1
        return state.best_exchange(link, candidates, allowance.max_degree)

    def _keep_if_better(self, message: str) -> None:
        cost = self._state.cost
        if cost < self.best.cost:
            self.best = FoundTree(self._state.edges, cost)
        self._tell(DesignProgress(message, self.best.cost))


def search(
    problem: DesignProblem,
    *,
    stop: Stop,
    rng: np.random.Generator,
    on_progress: OnProgress = ignore_progress,
) -> DesignResult:
    """The cheapest tree within the limits that the search finds."""
    running = GlobalSearch(problem, stop=stop, rng=rng, on_progress=on_progress)
    found = running.run()
    return DesignResult(
        "exact",
        links_of(found.edges, problem.brokers),
        found.cost,
        DesignStatus.BEST_FOUND,
        exchanges=running.exchanges,
    )

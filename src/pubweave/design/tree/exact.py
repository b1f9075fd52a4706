"""The cheapest tree of all, proven where there are few brokers (the paper's PSOOP is NP-hard).

Branch and bound over the candidate links, starting from what the global search found, which is
nearly always the optimum already: what takes time is the proof. Where there are too many brokers,
or somebody stops it, the answer is the best found, and a bound that is cheap to have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pubweave.design.tree import _kernels as kernels
from pubweave.design.tree.cost import links_of, total_cost, weighted_sum
from pubweave.design.tree.global_search import LEAST_GAIN, search
from pubweave.design.tree.limits import Allowance
from pubweave.design.tree.link_exchange import Pair
from pubweave.design.tree.problem import (
    DesignProblem,
    DesignProgress,
    DesignResult,
    DesignStatus,
    OnProgress,
    Stop,
    ignore_progress,
)
from pubweave.design.tree.traffic import Floats, Integers

PROVEN_BROKERS_MAX = 10
"""Up to here a proof takes seconds, mostly; each broker more takes about ten times as long."""


def cheapest_tree(
    problem: DesignProblem,
    *,
    stop: Stop,
    rng: np.random.Generator,
    on_progress: OnProgress = ignore_progress,
) -> DesignResult:
    """The optimum within the limits, or the best found; ``status`` says which."""
    found = search(problem, stop=stop, rng=rng, on_progress=on_progress)
    bound = cheap_bound(problem)
    if len(problem.brokers) > PROVEN_BROKERS_MAX:
        return replace(found, bound=bound)
    proof = _BranchAndBound(problem, found, stop, on_progress)
    edges = proof.run()
    if not proof.is_complete:
        return replace(found, bound=bound)
    if edges is None:
        return replace(found, status=DesignStatus.OPTIMAL, bound=found.cost)
    cost = total_cost(problem.traffic, problem.prices, edges)
    links = links_of(edges, problem.brokers)
    return replace(found, links=links, cost=cost, status=DesignStatus.OPTIMAL, bound=cost)


def cheap_bound(problem: DesignProblem) -> float:
    """No tree costs less: every member processes, and all but one need a link of their own.

    Rooted at any member, each other member has a link above it, and no two have the same.
    """
    traffic = problem.traffic
    if not traffic.set_count:
        return 0.0
    nearest = problem.prices.without(problem.limits.forbidden).communication.min(axis=1)
    nearest = np.where(np.isfinite(nearest), nearest, 0.0)
    begins = traffic.starts[:-1]
    each = problem.prices.processing[traffic.members] + nearest[traffic.members]
    sums = np.add.reduceat(each, begins)
    least = np.minimum.reduceat(nearest[traffic.members], begins)
    return weighted_sum(traffic.weights, sums - least)


@dataclass
class _Forest:
    """The links that are in: each vertex' part, and the ways within the parts."""

    label: Integers
    ways: Integers


class _BranchAndBound:
    """Depth-first branch and bound; ``run`` returns a cheaper tree, or None if there is none."""

    def __init__(
        self, problem: DesignProblem, found: DesignResult, stop: Stop, on_progress: OnProgress
    ) -> None:
        self._allowance = Allowance(problem)
        self._processing = problem.prices.processing
        self._masks, self._weights = _masks(problem)
        self._links = self._ordered_links(problem, found)
        self._ends = np.array(self._links, dtype=np.int64).reshape(-1, 2)
        self._prices = np.array([self._allowance.candidates[link] for link in self._links])
        self._ceiling = found.cost * (1 - LEAST_GAIN)
        self._best: list[Pair] | None = None
        self._stop = stop
        self._tell = on_progress
        self._visits = 0
        self.is_complete = True

    def run(self) -> Integers | None:
        count = len(self._processing)
        ways = np.zeros((count, count, 2), np.int64)
        for broker in range(count):
            ways[broker, broker, 0] = 1 << broker
        self._decide(0, _Forest(np.arange(count), ways), [])
        return None if self._best is None else np.array(self._best, dtype=np.int64)

    def _ordered_links(self, problem: DesignProblem, found: DesignResult) -> list[Pair]:
        """Links of the best tree first, then by price: good trees and high bounds come early."""
        index_of = {broker: index for index, broker in enumerate(problem.brokers)}
        best = {tuple(sorted((index_of[link.a], index_of[link.b]))) for link in found.links}
        prices = self._allowance.candidates
        count = len(problem.brokers)
        links = [(a, b) for a in range(count) for b in range(a + 1, count)]
        known = [link for link in links if np.isfinite(prices[link])]
        return sorted(known, key=lambda link: (link not in best, prices[link], link))

    def _decide(self, depth: int, forest: _Forest, taken: list[Pair]) -> None:
        self._visits += 1
        if self._visits % 1000 == 0:
            self._tell(DesignProgress(f"proving: {self._visits:,} forests", self._ceiling))
        if not self.is_complete or self._stop():
            self.is_complete = False
            return
        if len(taken) == len(self._processing) - 1:
            self._take(forest, taken)
            return
        if self._bound(depth, forest) >= self._ceiling:
            return
        link = self._links[depth]
        if self._may_add(link, forest, taken):
            self._decide(depth + 1, self._joined(depth, forest), [*taken, link])
        if link not in self._allowance.pinned:
            self._decide(depth + 1, forest, taken)

    def _take(self, forest: _Forest, taken: list[Pair]) -> None:
        if not self._allowance.pinned <= set(taken):
            return
        cost = self._cost(forest, np.zeros(len(self._processing)))
        if cost < self._ceiling:
            self._best, self._ceiling = taken, cost

    def _bound(self, depth: int, forest: _Forest) -> float:
        cheapest = np.empty(len(self._processing))
        if not kernels.ways_out(depth, self._ends, self._prices, forest.label, cheapest):
            return np.inf
        return self._cost(forest, cheapest)

    def _cost(self, forest: _Forest, cheapest: Floats) -> float:
        return float(
            kernels.lower_bound(
                forest.label,
                forest.ways,
                cheapest,
                self._masks,
                self._weights,
                self._processing,
                self._prices,
                self._ceiling,
            )
        )

    def _may_add(self, link: Pair, forest: _Forest, taken: list[Pair]) -> bool:
        allowance = self._allowance
        if forest.label[link[0]] == forest.label[link[1]]:
            return False
        ends = [end for other in taken for end in other]
        if any(ends.count(end) >= allowance.max_degree for end in link):
            return False
        changes = len({*taken, link} - allowance.original)
        return allowance.max_changes is None or changes <= allowance.max_changes

    def _joined(self, depth: int, forest: _Forest) -> _Forest:
        label, ways = np.empty_like(forest.label), np.empty_like(forest.ways)
        a, b = self._links[depth]
        kernels.join(depth, a, b, forest.label, forest.ways, label, ways)
        return _Forest(label, ways)


def _masks(problem: DesignProblem) -> tuple[Integers, Floats]:
    """The sets as bits of words, the heaviest first: they fill a bound soonest."""
    traffic = problem.traffic
    bits = np.left_shift(np.int64(1), traffic.members.astype(np.int64))
    masks = np.bitwise_or.reduceat(bits, traffic.starts[:-1]) if len(bits) else bits
    order = np.argsort(-traffic.weights * traffic.sizes, kind="stable")
    return masks[order], traffic.weights[order]

"""One heuristic in one world of CI's evaluation: what it costs, interval by interval.

In each interval the notifications pay for the tree as it is; then the brokers broadcast what they
saw, and exchange links by the rules of `ci/rules`. Control messages pay like notifications: the
latency of each link they cross and the processing of each broker they reach. A request goes along
the path; an exchange that was agreed on takes two more messages over every link of its cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pubweave.design.ci.cycle_traffic import SideCounts, Union, Unions, union_of_histogram
from pubweave.design.ci.rounds import LIVE, LocalOverlay, LocalSettings, TripleCounts
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.design.tree.cost import links_of, total_cost
from pubweave.design.tree.global_search import GlobalSearch
from pubweave.design.tree.problem import DesignProblem
from pubweave.design.tree.traffic import Floats, Integers, Prices, Traffic
from pubweave.experiments.ci.setting import CiWorld
from pubweave.model.topology import Topology

# What brokers of CI's evaluation find out by their filters, errors included.
#
# Pairs and triples by Bloom filters of the paper's size; sides by filters of one hash, whose bits
# count the different notifications of a union (linear counting). Their collisions are played out,
# not estimated: every notification of an interval has its bit.


BLOOM_BITS, BLOOM_HASHES = 100_000, 5
CACHE_ENTRIES = 8_192


class FilterInterest:
    """Common interest as a broker finds it: its own entries looked up in others' filters."""

    def __init__(
        self, common: Floats, traffic: Traffic, estimate: Estimate, rng: np.random.Generator
    ) -> None:
        entries = np.minimum(np.diag(common), CACHE_ENTRIES)
        filled = 1.0 - np.exp(-BLOOM_HASHES * entries / BLOOM_BITS)
        # Of the entries that the other has not, the filter affirms this share all the same.
        false_share = filled**BLOOM_HASHES
        seen = common + (np.diag(common)[:, None] - common) * false_share[None, :]
        self._common: list[list[float]] = seen.tolist()
        # The same of two filters at once is their false shares' product: nothing.
        self._triples = TripleCounts(traffic) if estimate is Estimate.CONJUNCTION else None
        self._traffic = traffic
        self._unions = filter_unions(traffic, rng) if estimate is Estimate.SIDES else None

    def own(self, broker: int) -> float:
        return self._common[broker][broker]

    def common(self, broker: int) -> Sequence[float]:
        return self._common[broker]

    def triple(self, broker: int, via: int, far: int) -> float | None:
        return None if self._triples is None else self._triples.of(broker, via, far)

    def sides(self, neighbors: Sequence[Sequence[int]]) -> SideCounts:
        return SideCounts(self._traffic, neighbors, self._unions)


def filter_unions(traffic: Traffic, rng: np.random.Generator, bits: int = BLOOM_BITS) -> Unions:
    """Unions counted by bits: each notification sets one, and some share theirs."""
    set_of = np.repeat(np.arange(traffic.set_count), traffic.weights.astype(np.int64))
    bit_of = rng.integers(bits, size=len(set_of))
    order = np.argsort(bit_of, kind="stable")
    by_bit = set_of[order]
    _, starts = np.unique(bit_of[order], return_index=True)

    def unions(patterns: Integers, size: int) -> Union:
        of_bits = np.bitwise_or.reduceat(patterns[by_bit], starts) if len(by_bit) else patterns[:0]
        of_bits = of_bits[of_bits > 0]
        union_bits = union_of_histogram(np.bincount(of_bits, minlength=1 << size), size)

        def union(first: int, count: int) -> float:
            return -bits * math.log1p(-union_bits(first, count) / bits)

        return union

    return unions


DAMPED_GAIN = 0.3
"""The share of its cycle's cost that a damped exchange must save; found on seeds 1001 and 1002."""
STATIC, BEST = "static", "best"


VARIANTS = {
    "ci": LocalSettings(),
    "ci-conjunction": LocalSettings(estimate=Estimate.CONJUNCTION),
    "ci-damped": LocalSettings(least_gain=DAMPED_GAIN),
    "ci-once": LocalSettings(exchanges=1),
    "ci-sides": LIVE,
    "ci-sides-once": replace(LIVE, exchanges=1),
    "lmst": LocalSettings(Heuristic.MST),
    "lmit": LocalSettings(Heuristic.MIT),
}
"""The paper's own have no switches; those that end in once let a broker take part in one exchange
per interval."""
ALL = (STATIC, *VARIANTS, BEST)
"""best is the global search with each interval's notifications known in advance and nothing paid
for its changes: what no heuristic can hope for."""


@dataclass(frozen=True)
class Series:
    """Costs of each interval of one run."""

    variant: str
    eta: int
    notifications: list[float]
    broadcasts: list[float]
    asking: list[float]
    """For requests, most of which come to nothing."""
    reconfigurations: list[float]
    requests: int
    exchanges: int

    @property
    def total(self) -> Floats:
        parts = np.array([self.notifications, self.broadcasts, self.asking, self.reconfigurations])
        summed: Floats = parts.sum(axis=0)
        return summed


def run_variant(
    world: CiWorld, variant: str, *, eta: int = 4, seed: int = 0, until: int | None = None
) -> Series:
    """Play a world with one heuristic, from its beginning up to a tick."""
    intervals = world.setting.intervals if until is None else until // world.setting.interval_ticks
    if variant == STATIC:
        costs = [_paid(world, k, world.start) for k in range(intervals)]
        return _unmanaged(variant, eta, costs)
    if variant == BEST:
        return _unmanaged(variant, eta, _best_costs(world, intervals, seed))
    return _reorganizing(world, variant, eta, seed, intervals)


def _unmanaged(variant: str, eta: int, costs: list[float]) -> Series:
    nothing = [0.0] * len(costs)
    return Series(variant, eta, costs, nothing, nothing, nothing, 0, 0)


def _reorganizing(world: CiWorld, variant: str, eta: int, seed: int, intervals: int) -> Series:
    rng = np.random.default_rng([seed, 1])
    settings = replace(VARIANTS[variant], eta=eta)
    neighbors: list[list[int]] = [[] for _ in world.names]
    for a, b in world.start.tolist():
        neighbors[a].append(b)
        neighbors[b].append(a)
    overlay: LocalOverlay | None = None
    paid: list[float] = []
    broadcasts: list[float] = []
    asking: list[float] = []
    reconfigurations: list[float] = []
    requests = exchanges = 0
    edges = world.start
    for k in range(intervals):
        prices = world.prices(k)
        interest = FilterInterest(world.common(k), world.traffic[k], settings.estimate, rng)
        if overlay is None:
            overlay = LocalOverlay(neighbors, [], [], interest, settings)
        overlay.processing = prices.processing.tolist()
        overlay.prices = prices.communication.tolist()
        overlay.knowledge = interest
        paid.append(_paid(world, k, edges))
        made = overlay.play(rng)
        broadcasts.append(_crossing_cost(made.crossed, prices))
        asking.append(_crossing_cost(_hops(made.requested), prices))
        rings = [(*path, path[0]) for path in made.agreed]
        reconfigurations.append(2 * _crossing_cost(_hops(rings), prices))
        requests += len(made.requested)
        exchanges += len(made.exchanges)
        if made.exchanges:
            edges = _edges(overlay.neighbors)
    return Series(variant, eta, paid, broadcasts, asking, reconfigurations, requests, exchanges)


def _paid(world: CiWorld, interval: int, edges: Integers) -> float:
    return total_cost(world.traffic[interval], world.prices(interval), edges)


def _crossing_cost(crossed: Iterable[tuple[int, int]], prices: Prices) -> float:
    ends = np.array(list(crossed), dtype=np.int64).reshape(-1, 2)
    links = prices.communication[ends[:, 0], ends[:, 1]].sum()
    return float(links + prices.processing[ends[:, 1]].sum())


def _hops(paths: Iterable[tuple[int, ...]]) -> list[tuple[int, int]]:
    return [hop for path in paths for hop in pairwise(path)]


def _edges(neighbors: list[list[int]]) -> Integers:
    pairs = [(a, b) for a, ends in enumerate(neighbors) for b in ends if a < b]
    return np.array(pairs, dtype=np.int64)


def _best_costs(world: CiWorld, intervals: int, seed: int) -> list[float]:
    """What the global search's tree for every four intervals costs, built anew each time."""
    costs: list[float] = []
    edges = world.start
    for first in range(0, intervals, 4):
        block = range(first, min(first + 4, intervals))
        traffic = _joined([world.traffic[k] for k in block])
        links = links_of(edges, world.names)
        problem = DesignProblem(
            Topology(frozenset(world.names), links), traffic, world.prices(first)
        )
        search = GlobalSearch(problem, stop=lambda: False, rng=np.random.default_rng(seed))
        search.descend_from_starts()
        edges = search.best.edges
        costs.extend(_paid(world, k, edges) for k in block)
    return costs


def _joined(parts: list[Traffic]) -> Traffic:
    sizes = np.concatenate([part.sizes for part in parts])
    return Traffic.from_pairs(
        parts[0].brokers,
        np.repeat(np.arange(len(sizes)), sizes),
        np.concatenate([part.members for part in parts]),
        np.concatenate([part.weights for part in parts]),
        sum(part.deliveries for part in parts),
    )

"""A mapping that is improved by swaps, its costs kept up to date; Algorithm 3 (SSBR-Greedy).

`_kernels/swaps` says how swaps are priced; `best` chooses them better than the paper.

The bottleneck broker takes its best swap, again and again. How it is read: a bottleneck is a broker
with the highest cost c_b (Eq. 12); its neighborhood is all n - 1 swaps with another broker, of
equally good ones the first. Costs are sums of counts, so several brokers may have the highest one,
and the paper does not say which of them is meant: they are tried in their order, and the first that
has a swap which strictly lowers the notification cost takes it. It ends when none of them has one.
minC, which the paper never initialises, starts as the cost of the first mapping. Brokers come in
the order of `Subscriptions.nodes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pubweave.design.dynatops._kernels import swaps as kernels
from pubweave.design.dynatops._kernels import trees as tree_kernels
from pubweave.design.dynatops._kernels.trees import Floats, Indices, Integers
from pubweave.design.dynatops.mapping.problem import (
    BrokerMapping,
    MappingCost,
    MappingProblem,
    Spread,
    validate_mapping,
)

ROUNDING = 1e-12
"""Of the cost: what a swap must save where sums carry rounding; otherwise it could go for ever."""


@dataclass(frozen=True, eq=False)
class SwapState:
    """The arrays of a search; kernels change ``current``."""

    problem: MappingProblem
    given: kernels.SwapInputs
    current: kernels.Current
    prices: kernels.SwapPrices
    least_gain: float

    @classmethod
    def of(cls, problem: MappingProblem, mapping: BrokerMapping) -> SwapState:
        """O(|P| n) time and 9 bytes for each topic and position.

        >>> from pubweave.design.tco.interests import Subscriptions
        >>> wanted = Subscriptions.of({"a": ["x"], "b": ["x", "y"], "c": ["y"]})
        >>> problem = MappingProblem.of(wanted, {"x": 10, "y": 5})
        >>> state = SwapState.of(problem, problem.in_order())
        >>> state.swap(0, 2)
        >>> state.mapping.tolist()
        [2, 1, 0]
        """
        validate_mapping(problem, mapping)
        count, trees = problem.broker_count, problem.trees
        spread = Spread.of(problem, mapping)
        relayed, delayed = np.zeros(count), np.zeros(count)
        tree_kernels.charge(
            trees.roots, trees.row_of, trees.depths, problem.publications, spread.here,
            spread.below, relayed, delayed,
        )  # fmt: skip
        current = kernels.Current(
            mapping.astype(np.int64),
            np.argsort(mapping).astype(np.int64),
            spread.here,
            spread.below,
            np.zeros_like(spread.below),
            relayed,
            delayed,
            np.zeros(count),
            np.array([relayed.sum(), delayed.sum()]),
        )
        topics = problem.wanted.topic_count
        prices = kernels.SwapPrices(
            np.zeros(count),
            np.zeros(count),
            np.zeros(count, np.int32),
            np.zeros(topics),
            np.zeros(topics),
        )
        cost = float(relayed.sum() + problem.delay_weight * delayed.sum())
        least_gain = 0.0 if problem.is_exact else ROUNDING * cost
        given = _given(problem)
        kernels.count_alone(given, current)
        return cls(problem, given, current, prices, least_gain)

    @property
    def mapping(self) -> BrokerMapping:
        return self.current.position_of.copy()

    @property
    def cost(self) -> MappingCost:
        overhead, delay = self.current.sums.tolist()
        return MappingCost(overhead, delay, self.problem.delay_weight)

    def swap(self, a: int, b: int) -> None:
        kernels.swap(self.given, self.current, a, b)


def _given(problem: MappingProblem) -> kernels.SwapInputs:
    wanted, trees = problem.wanted, problem.trees
    owners = np.repeat(np.arange(wanted.node_count, dtype=np.int32), wanted.sizes)
    topic_starts = np.zeros(wanted.topic_count + 1, np.int64)
    np.cumsum(np.bincount(wanted.topics, minlength=wanted.topic_count), out=topic_starts[1:])
    topic_brokers: Indices = owners[np.argsort(wanted.topics, kind="stable")]
    return kernels.SwapInputs(
        trees.parents, trees.depths, trees.roots, trees.row_of, wanted.starts, wanted.topics,
        topic_starts, topic_brokers, problem.publications, float(problem.delay_weight),
    )  # fmt: skip


OnSwaps = Callable[[int, MappingCost], None]
"""Hears how many swaps were made, and what is reached."""


def ignore_swaps(count: int, cost: MappingCost) -> None:
    """Who listens to no progress."""


@dataclass(frozen=True, eq=False)
class ImprovementPath:
    """The ``List`` of Algorithm 3: at place 0 the first mapping, at place k that after k swaps."""

    first: BrokerMapping
    first_cost: MappingCost
    swaps: Integers
    sums: Floats
    """Relay overhead and delay after each swap."""
    is_complete: bool
    """False if it was stopped before it had come to its end."""

    def __len__(self) -> int:
        return len(self.swaps) + 1

    @property
    def last(self) -> BrokerMapping:
        return self.mapping_at(len(self.swaps))

    @property
    def last_cost(self) -> MappingCost:
        return self.cost_at(len(self.swaps))

    def cost_at(self, place: int) -> MappingCost:
        if place == 0:
            return self.first_cost
        overhead, delay = self.sums[place - 1].tolist()
        return MappingCost(overhead, delay, self.first_cost.delay_weight)

    def mapping_at(self, place: int) -> BrokerMapping:
        """O(n + place)."""
        mapping = self.first.copy()
        for a, b in self.swaps[:place].tolist():
            mapping[a], mapping[b] = mapping[b], mapping[a]
        return mapping

    def changed_counts(self, origin: BrokerMapping) -> Integers:
        """Gamma of Eq. 7 by place: how many brokers are not where they were. O(n + swaps)."""
        mapping = self.first.copy()
        counts = np.empty(len(self), np.int64)
        counts[0] = (mapping != origin).sum()
        for place, (a, b) in enumerate(self.swaps.tolist(), 1):
            was = int(mapping[a] != origin[a]) + int(mapping[b] != origin[b])
            mapping[a], mapping[b] = mapping[b], mapping[a]
            now = int(mapping[a] != origin[a]) + int(mapping[b] != origin[b])
            counts[place] = counts[place - 1] + now - was
        return counts


SWAPS_AT_ONCE = 256
"""Between two looks at the stop."""


def never() -> bool:
    return False


def ssbr_greedy(
    problem: MappingProblem,
    mapping: BrokerMapping,
    *,
    stop: Callable[[], bool] = never,
    on_progress: OnSwaps = ignore_swaps,
) -> ImprovementPath:
    """The improvement path of Algorithm 3. O(n |S_b| + subscriptions) for each broker that is
    tried; there is one for each swap unless costs are equal.

    >>> from pubweave.design.tco.interests import Subscriptions
    >>> wanted = Subscriptions.of({"a": ["x"], "b": ["y"], "c": ["y"], "d": ["x"]})
    >>> problem = MappingProblem.of(wanted, {"x": 10, "y": 10})
    >>> path = ssbr_greedy(problem, problem.in_order())
    >>> path.first_cost.notification_cost, path.last_cost.notification_cost
    (60.0, 20.0)
    """
    state = SwapState.of(problem, mapping)
    first_cost = state.cost
    swaps, sums = [np.empty((0, 2), np.int64)], [np.empty((0, 2))]
    made, is_complete = 0, False
    while not is_complete and not stop():
        room, costs = np.empty((SWAPS_AT_ONCE, 2), np.int64), np.empty((SWAPS_AT_ONCE, 2))
        done = kernels.improve_bottleneck(
            state.given, state.current, state.prices, state.least_gain, room, costs
        )
        swaps.append(room[:done])
        sums.append(costs[:done])
        made += done
        is_complete = done < SWAPS_AT_ONCE
        on_progress(made, state.cost)
    return ImprovementPath(
        mapping.copy(), first_cost, np.concatenate(swaps), np.concatenate(sums), is_complete
    )

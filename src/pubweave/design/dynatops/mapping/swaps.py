"""A mapping that is being improved by swaps, with all its costs kept up to date.

`_kernels/swaps` says how swaps are priced. One idea of how to choose them is a module of its own:
`ssbr` the paper's, `best` ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubweave.design.dynatops._kernels import swaps as kernels
from pubweave.design.dynatops._kernels import trees as tree_kernels
from pubweave.design.dynatops._kernels.trees import Indices
from pubweave.design.dynatops.mapping.costs import MappingCost
from pubweave.design.dynatops.mapping.problem import (
    BrokerMapping,
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

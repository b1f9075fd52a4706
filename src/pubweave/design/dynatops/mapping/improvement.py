"""An improvement path: a first mapping and the swaps that lead from it to cheaper ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pubweave.design.dynatops._kernels.trees import Floats, Integers
from pubweave.design.dynatops.mapping.costs import MappingCost
from pubweave.design.dynatops.mapping.problem import BrokerMapping

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

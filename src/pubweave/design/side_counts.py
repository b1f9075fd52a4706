"""The sides of a ring's brokers in a tree (`ring_sides`), found from traffic that is known whole.

What a broker of a live overlay notes as notifications pass, this computes: which sets of brokers
have members beyond a link. One pass over the tree, O(brokers x sets) bits; then a ring's sides are
a few rows. Counting is a strategy: exact by weights here, by the bits of filters in experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pubweave.design.ring_sides import Union
from pubweave.design.traffic import Floats, Integers, Traffic

Mask = npt.NDArray[np.bool_]
Unions = Callable[[Integers, int], Union]
"""From the sets' patterns (bit m: member m's side has the set) and the ring's size to counts."""


class SideCounts:
    """What is seen over each link of one tree; ``neighbors`` by broker, as they are now."""

    def __init__(
        self, traffic: Traffic, neighbors: Sequence[Sequence[int]], unions: Unions | None = None
    ) -> None:
        self._neighbors = [tuple(ends) for ends in neighbors]
        self._unions = unions or exact_unions(traffic.weights)
        self._own = np.zeros((len(neighbors), traffic.set_count), dtype=np.bool_)
        self._own[traffic.members, np.repeat(np.arange(traffic.set_count), traffic.sizes)] = True
        self._beyond: dict[tuple[int, int], Mask] = {}
        self._look_beyond_links()

    def union(self, ring: Sequence[int]) -> Union:
        """Counts of the sides of a path's brokers, as `removal_costs_by_sides` wants them."""
        patterns = np.zeros(self._own.shape[1], dtype=np.int64)
        for member, broker in enumerate(ring):
            patterns[self._side(broker, ring)] |= 1 << member
        return self._unions(patterns, len(ring))

    def _side(self, broker: int, ring: Sequence[int]) -> Mask:
        side: Mask = self._own[broker].copy()
        for neighbor in self._neighbors[broker]:
            if neighbor not in ring:
                side |= self._beyond[broker, neighbor]
        return side

    def _look_beyond_links(self) -> None:
        """For every link and direction: the sets with members beyond it."""
        above = {0: 0}
        order = [0]
        for broker in order:
            for neighbor in self._neighbors[broker]:
                if neighbor not in above:
                    above[neighbor] = broker
                    order.append(neighbor)
        for broker in reversed(order[1:]):
            self._beyond[above[broker], broker] = self._all_but(broker, above[broker])
        for broker in order[1:]:
            self._beyond[broker, above[broker]] = self._all_but(above[broker], broker)

    def _all_but(self, broker: int, left_out: int) -> Mask:
        """What a broker's own clients or its links but one have."""
        seen: Mask = self._own[broker].copy()
        for neighbor in self._neighbors[broker]:
            if neighbor != left_out:
                seen |= self._beyond[broker, neighbor]
        return seen


def exact_unions(weights: Floats) -> Unions:
    """Every set counts by its weight."""

    def unions(patterns: Integers, size: int) -> Union:
        return union_of_histogram(np.bincount(patterns, weights, minlength=1 << size), size)

    return unions


def union_of_histogram(by_pattern: npt.NDArray[Any], size: int) -> Union:
    """Unions from how much there is of each pattern of members."""
    patterns = np.arange(len(by_pattern))

    def union(first: int, count: int) -> float:
        arc = sum(1 << ((first + place) % size) for place in range(count))
        return float(by_pattern[(patterns & arc) != 0].sum())

    return union

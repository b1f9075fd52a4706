"""What a cycle costs when each of its links is removed, relayed notifications included.

CI prices a cycle by what its brokers' own clients have in common (Eqs. 7-9). Most of what crosses a
link in the middle of a tree is of interest to neither end: it is relayed, and invisible to that
estimate. Here every broker of the cycle contributes its *side*: the notifications that concern it
or come or go over any of its links outside the cycle. That is local knowledge, and all there is to
know: without one link the cycle is a path, a link of it carries what has a side on either end, a
broker what passes it or is its own.

Those counts need no intersections. Let u(X) be the number of different notifications in the sides
of an arc X of the cycle. With arcs F and B left and right of a link, it carries u(F) + u(B) -
u(cycle); a broker, being in both its arcs, handles the same sum of them. So whoever can count
unions of neighboring sides, exactly or by the bits of Bloom filters, can price all removals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pubweave.design.tree.traffic import Floats, Integers, Traffic

Union = Callable[[int, int], float]
"""How many different notifications the sides of ``count`` members from ``first`` on have, members
being numbered along the cycle and round it."""


def removal_costs_by_sides(
    processing: Sequence[float], link_costs: Sequence[float], union: Union
) -> list[float]:
    """Cost of the whole cycle after each link's removal, by cycle link (compare CI Eq. 9).

    Ring link r joins the members r and r + 1; the last one is the proposed one, and what its
    "removal" costs is what the cycle costs now. O(members^2) sums and unions.

    >>> sides = [{1, 2}, {2}, {1}]   # 1 goes from the first broker to the last, 2 to the next
    >>> def union(first, count):
    ...     return len(set().union(*(sides[(first + m) % 3] for m in range(count))))
    >>> removal_costs_by_sides([0, 0, 0], [5, 5, 3], union)
    [11.0, 8.0, 15.0]
    """
    size = len(processing)
    arcs = [[0.0, *(union(first, count) for count in range(1, size + 1))] for first in range(size)]
    return [_path_cost(removed, processing, link_costs, arcs) for removed in range(size)]


def _path_cost(
    removed: int,
    processing: Sequence[float],
    link_costs: Sequence[float],
    arcs: Sequence[Sequence[float]],
) -> float:
    """What the cycle costs as a path, from behind the removed link round to before it."""
    size = len(processing)
    first = (removed + 1) % size
    everything = arcs[first][size]
    cost = 0.0
    for place in range(size):
        member = (first + place) % size
        up_to, from_here = arcs[first][place + 1], arcs[member][size - place]
        # Counts by filters err: no load is below nothing.
        cost += processing[member] * max(0.0, up_to + from_here - everything)
        if place + 1 < size:
            behind = arcs[(member + 1) % size][size - place - 1]
            cost += link_costs[member] * max(0.0, up_to + behind - everything)
    return cost


def link_promise(
    path_processing: Sequence[float], path_link_costs: Sequence[float], direct_cost: float
) -> float:
    """How much less a direct link between a path's ends would cost than the dearest on the path.

    A link is priced with half the processing of both its ends: who is cheap to pass through is
    worth a link. More than that is not to be known before the cycle has been asked.
    """

    def price(link_cost: float, one: float, other: float) -> float:
        return link_cost + (one + other) / 2

    dearest = max(
        price(cost, path_processing[m], path_processing[m + 1])
        for m, cost in enumerate(path_link_costs)
    )
    return dearest - price(direct_cost, path_processing[0], path_processing[-1])


# The sides of a cycle's brokers in a tree (`ci/cycle_traffic`), found from traffic that is known
# whole.
#
# What a broker of a live overlay notes as notifications pass, this computes: which sets of
# brokers have members beyond a link. One pass over the tree, O(brokers x sets) bits; then a
# cycle's sides are a few rows. Counting is a strategy: exact by weights here, by the bits of
# filters in experiments.


Mask = npt.NDArray[np.bool_]
Unions = Callable[[Integers, int], Union]
"""From the sets' patterns (bit m: member m's side has the set) and the cycle's size to counts."""


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

    def union(self, cycle: Sequence[int]) -> Union:
        """Counts of the sides of a path's brokers, as `removal_costs_by_sides` wants them."""
        patterns = np.zeros(self._own.shape[1], dtype=np.int64)
        for member, broker in enumerate(cycle):
            patterns[self._side(broker, cycle)] |= 1 << member
        return self._unions(patterns, len(cycle))

    def _side(self, broker: int, cycle: Sequence[int]) -> Mask:
        side: Mask = self._own[broker].copy()
        for neighbor in self._neighbors[broker]:
            if neighbor not in cycle:
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

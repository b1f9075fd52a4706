"""A tree under exchanges of links, each priced exactly against the whole traffic.

`TreeState` is the working tree of a search: it knows what taking a link away and putting it back
elsewhere would save, for all places at once, and what a new link would let go. Indices inside,
no names; which exchange to make is decided by whoever holds it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubweave.design.tree import _kernels as kernels
from pubweave.design.tree.cost import RootedTree, total_cost
from pubweave.design.tree.traffic import Floats, Integers, Prices, Traffic

UNUSED_LINK_SHARE = 1e-9
"""A link counts as if it carried this share of all notifications more than it does, so that of
links that carry nothing the cheaper one wins."""

Pair = tuple[int, int]


class Exchange(NamedTuple):
    """Link ``removed`` goes, ``added`` comes; the cost falls by ``gain``."""

    removed: Pair
    added: Pair
    gain: float


class TreeState:
    """A tree of broker indices with everything that pricing its exchanges needs."""

    def __init__(self, traffic: Traffic, prices: Prices, edges: Integers) -> None:
        self.traffic = traffic
        self.prices = prices
        self._unused = UNUSED_LINK_SHARE * traffic.notifications
        self._first, self._sets = traffic.by_broker
        self._seen_sets = np.zeros(traffic.set_count, np.int32)
        self._stamp = 0
        self._costs = np.zeros(len(prices.brokers))
        self.links: set[Pair] = set()
        self.reset(edges)

    def reset(self, edges: Integers) -> None:
        """Begin anew with another tree."""
        self.links = {pair_of(a, b) for a, b in edges.tolist()}
        self._rebuild()

    @property
    def edges(self) -> Integers:
        return np.array(sorted(self.links), dtype=np.int64).reshape(-1, 2)

    @property
    def cost(self) -> float:
        """cost(N, T), computed anew."""
        return total_cost(self.traffic, self.prices, self.edges)

    def degree(self, broker: int) -> int:
        return int(self._degree[broker])

    def best_exchange(
        self, link: Pair, candidates: Floats, max_degree: int = 1 << 30
    ) -> Exchange | None:
        """The best link to have instead of this one, however good; None if there is no other.

        ``candidates`` are the prices of the links that may come, infinite for all others.
        """
        tree = self._tree
        below = link[0] if tree.parent[link[0]] == link[1] else link[1]
        crossing = self._side_costs(below) + self._unused
        i, j, cost = kernels.best_pair(
            below,
            crossing,
            self._costs,
            tree.order,
            tree.enter,
            tree.leave,
            tree.parent,
            candidates,
            self._degree,
            max_degree,
        )
        if i < 0:
            return None
        top = int(tree.parent[below])
        now = self._costs[below] + self._costs[top] + crossing * self._above[below]
        return Exchange(link, pair_of(int(i), int(j)), float(now - cost))

    def removals(self, added: Pair) -> list[Exchange]:
        """What each link on the ring of a new link would save by going."""
        ring = self.path(*added)
        link_costs = np.array(
            [self.prices.communication[ring[m - 1], ring[m]] for m in range(1, len(ring))]
            + [self.prices.communication[added]]
        )
        saved = np.zeros(len(ring))
        tree, traffic = self._tree, self.traffic
        kernels.ring_savings(
            np.array(ring, dtype=np.int64),
            link_costs,
            self.prices.processing,
            traffic.starts,
            traffic.members,
            traffic.weights,
            tree.parent,
            tree.order,
            saved,
        )
        return [
            Exchange(pair_of(ring[m], ring[m + 1]), added, float(saved[m] - saved[-1]))
            for m in range(len(ring) - 1)
        ]

    def apply(self, exchange: Exchange) -> list[Pair]:
        """Make an exchange; returns the links on its ring, whose traffic has changed."""
        ring = self.path(*exchange.added)
        touched = [pair_of(ring[m - 1], ring[m]) for m in range(1, len(ring))]
        self.links.remove(exchange.removed)
        self.links.add(exchange.added)
        self._rebuild()
        return [exchange.added, *(pair for pair in touched if pair != exchange.removed)]

    def path(self, start: int, end: int) -> list[int]:
        """The brokers from start to end."""
        parent, enter, leave = self._tree.parent, self._tree.enter, self._tree.leave
        up, down = [start], [end]
        while not enter[up[-1]] <= enter[end] < leave[up[-1]]:
            up.append(int(parent[up[-1]]))
        while down[-1] != up[-1]:
            down.append(int(parent[down[-1]]))
        return up + down[-2::-1]

    def _side_costs(self, below: int) -> float:
        self._stamp += 1
        tree, traffic = self._tree, self.traffic
        return float(
            kernels.side_costs(
                below,
                traffic.starts,
                traffic.members,
                traffic.weights,
                self._first,
                self._sets,
                tree.parent,
                tree.order,
                tree.enter,
                tree.leave,
                self.prices.processing,
                self._above,
                self._seen_sets,
                self._stamp,
                self._costs,
            )
        )

    def _rebuild(self) -> None:
        edges = self.edges
        count = len(self.prices.brokers)
        self._degree = np.bincount(edges.ravel(), minlength=count).astype(np.int64)
        # A busy broker as the root keeps the ways up to it short.
        self._tree = RootedTree(count, edges, int(self._degree.argmax()))
        parent = self._tree.parent
        self._above = np.zeros(count)
        below = np.flatnonzero(parent >= 0)
        self._above[below] = self.prices.communication[below, parent[below]]


def pair_of(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)

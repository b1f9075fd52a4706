"""CI section 4 played message by message, as printed: a broadcast is a list of hops, whoever gets
one evaluates at once, and what the brokers of a cycle agree on is done before the next one gets it.

Independent of `design.ci`: no surroundings, no views, no sums along a cycle in two directions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from tests.naive.design import indirect_cost, removal_cost

Link = frozenset[int]
Prices = Sequence[Sequence[float]]


class PrintedOverlay:
    """Brokers by number; ``common[i][j]`` is I_ij and ``common[i][i]`` is I_i."""

    def __init__(
        self,
        rule: str,
        links: set[Link],
        processing: Sequence[float],
        prices: Prices,
        common: Prices,
        eta: int,
    ) -> None:
        self.rule, self.links, self.eta = rule, links, eta
        self.processing, self.prices, self.common = processing, prices, common
        self.now = 0
        self.heard: dict[tuple[int, int], int] = {}
        self.overlap: dict[int, float | None] = {}

    def play(self, order: Sequence[int]) -> list[tuple[Link, Link]]:
        """One interval in which brokers broadcast in this order: the links removed and added."""
        self.now += 1
        for broker in order:
            self.overlap[broker] = self.phi(broker)
        done: list[tuple[Link, Link]] = []
        for origin in order:
            hearers = self.spread(origin)
            for way in hearers:
                self.heard[way[-1], origin] = self.now
            for way in hearers:
                exchange = self.evaluate(way)
                if exchange is not None:
                    self.links.remove(exchange[0])
                    self.links.add(exchange[1])
                    done.append(exchange)
        return done

    def spread(self, origin: int) -> list[list[int]]:
        """The path in every copy of a broadcast, in the order in which they arrive."""
        arrived = []
        under_way = deque([[origin]])
        while under_way:
            way = under_way.popleft()
            if len(way) > 1:
                arrived.append(way)
            if len(way) <= self.eta:
                near = sorted(b for link in self.links if way[-1] in link for b in link)
                under_way.extend([*way, b] for b in near if b not in way)
        return arrived

    def knows(self, broker: int, other: int) -> bool:
        return self.heard.get((broker, other), -9) >= self.now - 1

    def phi(self, broker: int) -> float | None:
        """Eq. 6."""
        near = [o for b, o in self.heard if b == broker and self.heard[b, o] == self.now - 1]
        if len(near) < 2:
            return None
        shared = sum(self.common[broker][other] for other in near)
        return max(0.0, (shared - self.common[broker][broker]) / (len(near) - 1))

    def evaluate(self, way: list[int]) -> tuple[Link, Link] | None:
        """Whoever got a broadcast over this way asks for a link to its origin, and gets it."""
        cycle = way[::-1]
        new = frozenset((cycle[0], cycle[-1]))
        if len(cycle) < 3 or any(frozenset(hop) not in self.links for hop in pairwise(cycle)):
            return None
        ring = [frozenset(hop) for hop in pairwise(cycle)]
        if self.rule != "ci":
            heaviest = max(ring, key=self.weight)
            return (heaviest, new) if self.weight(new) < self.weight(heaviest) else None
        if not self.wants(cycle):
            return None
        if any(not self.knows(a, b) for a in cycle for b in cycle if a != b):
            return None
        costs = [self.cost_without(cycle, removed) for removed in range(len(cycle))]
        best = min(range(len(cycle)), key=costs.__getitem__)
        is_gain = costs[best] < costs[-1] - 1e-12 * abs(costs[-1])
        return (ring[best], new) if is_gain else None

    def weight(self, link: Link) -> float:
        a, b = link
        return self.prices[a][b] if self.rule == "mst" else -self.common[a][b]

    def wants(self, cycle: list[int]) -> bool:
        """Eq. 5 in its general form."""
        broker, far = cycle[0], cycle[-1]
        if not self.common[broker][far] or self.overlap[broker] is None:
            return False
        cost = indirect_cost(
            cycle,
            self.processing,
            lambda a, b: self.prices[a][b],
            self.common[broker],
            lambda via, to: self.triple(broker, via, to),
        )
        return self.prices[broker][far] < cost

    def triple(self, broker: int, via: int, far: int) -> float:
        row = self.common[broker]
        return min(self.overlap[broker] or 0.0, row[far], row[via])

    def cost_without(self, cycle: list[int], removed: int) -> float:
        """Eqs. 8 and 9."""
        size = len(cycle)
        total = 0.0
        for member, broker in enumerate(cycle):
            row = [self.common[broker][other] for other in cycle]
            total += removal_cost(
                member,
                removed,
                [self.processing[other] for other in cycle],
                [self.prices[cycle[m]][cycle[(m + 1) % size]] for m in range(size)],
                row,
                lambda via, far, broker=broker: self.triple(broker, cycle[via], cycle[far]),
            )
        return total

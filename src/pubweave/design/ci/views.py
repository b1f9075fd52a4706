"""How brokers see a cycle, by heuristic and estimate: whether they would like to have its link
(evaluation), and what each removal would cost (consensus).

Three views: by cost and common interest as CI prints it, by all that passes the cycle (`sides`),
and by the weight of links (lMST, lMIT). The arithmetic is that of `ci/rules` and
`ci/cycle_traffic`, the same that brokers use; here it is fed from prices and knowledge in plain
lists, by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pubweave.design.ci.cycle_traffic import SideCounts, link_promise, removal_costs_by_sides
from pubweave.design.ci.rules import (
    Heuristic,
    TripleEstimate,
    add_costs,
    link_weight,
    path_costs,
    removal_costs,
    removal_weights,
    wants_lighter_link,
    wants_link,
)


class Knowledge(Protocol):
    """What brokers can find out about common interest, by index."""

    def own(self, broker: int) -> float:
        """I_i."""
        ...

    def common(self, broker: int) -> Sequence[float]:
        """I_ij for every j."""
        ...

    def triple(self, broker: int, via: int, far: int) -> float | None:
        """I(i, k, j), or None where only the paper's estimate is to be had."""
        ...

    def sides(self, neighbors: Sequence[Sequence[int]]) -> SideCounts:
        """What passed over each link of the tree."""
        ...


@dataclass
class Surroundings:
    """The brokers within eta hops, nearest first, each with the one before it on the path."""

    via: dict[int, int]
    hops: dict[int, int]

    def path_to(self, far: int) -> tuple[int, ...]:
        return self.path_from(far)[::-1]

    def path_from(self, far: int) -> tuple[int, ...]:
        way = [far]
        while self.hops[way[-1]] > 0:
            way.append(self.via[way[-1]])
        return tuple(way)

    def crossed(self) -> list[tuple[int, int]]:
        """The links that a broadcast of the nearest crosses, as (from, to)."""
        return [(self.via[broker], broker) for broker, hops in self.hops.items() if hops > 0]


class View(Protocol):
    """What brokers make of their knowledge as long as the tree stays as it is."""

    def promise(self, path: tuple[int, ...]) -> float | None:
        """What its first broker hopes for from a link to the last; None if it wants none."""
        ...

    def costs(self, cycle: tuple[int, ...]) -> list[float]:
        """Of every cycle link's removal, all members together; the last is the proposed link's."""
        ...


@dataclass
class PriceLists:
    """p_v and c_e by index; infinite where a link is no candidate."""

    processing: Sequence[float]
    links: Sequence[Sequence[float]]

    def of_brokers(self, path: Sequence[int]) -> list[float]:
        return [self.processing[broker] for broker in path]

    def of_cycle(self, cycle: Sequence[int]) -> list[float]:
        """Of its links, the one that closes it last."""
        size = len(cycle)
        return [self.links[cycle[m]][cycle[(m + 1) % size]] for m in range(size)]


class WeightView:
    """lMST and lMIT: a link lighter than the heaviest on the path that it would close."""

    def __init__(self, heuristic: Heuristic, prices: PriceLists, knowledge: Knowledge) -> None:
        self._heuristic = heuristic
        self._prices = prices
        self._knowledge = knowledge

    def promise(self, path: tuple[int, ...]) -> float | None:
        if self._prices.links[path[0]][path[-1]] == math.inf:
            return None
        *of_path, direct = self._weights(path)
        return max(of_path) - direct if wants_lighter_link(direct, of_path) else None

    def costs(self, cycle: tuple[int, ...]) -> list[float]:
        size = len(cycle)
        return add_costs(
            removal_weights(m, weight, size) for m, weight in enumerate(self._weights(cycle))
        )

    def _weights(self, cycle: Sequence[int]) -> list[float]:
        size = len(cycle)
        return [self._weight(cycle[m], cycle[(m + 1) % size]) for m in range(size)]

    def _weight(self, a: int, b: int) -> float:
        common = self._knowledge.common(a)[b]
        return link_weight(self._heuristic, self._prices.links[a][b], common)


class SidesView:
    """Promises by prices alone, costs by all that passes the cycle."""

    def __init__(self, prices: PriceLists, sides: SideCounts) -> None:
        self._prices = prices
        self._sides = sides

    def promise(self, path: tuple[int, ...]) -> float | None:
        *path_links, direct = self._prices.of_cycle(path)
        if direct == math.inf:
            return None
        promise = round(link_promise(self._prices.of_brokers(path), path_links, direct), 9)
        return promise if promise >= 0 else None

    def costs(self, cycle: tuple[int, ...]) -> list[float]:
        return removal_costs_by_sides(
            self._prices.of_brokers(cycle), self._prices.of_cycle(cycle), self._sides.union(cycle)
        )


class InterestView:
    """CI as printed: every broker by what its own clients have in common with others'."""

    def __init__(
        self, prices: PriceLists, knowledge: Knowledge, overlaps: Sequence[float | None]
    ) -> None:
        """``overlaps``: phi (Eq. 6) of each broker; None where it knows too few others."""
        self._prices = prices
        self._knowledge = knowledge
        self._overlaps = overlaps

    def promise(self, path: tuple[int, ...]) -> float | None:
        """Eqs. 5 and 7, weighed with the common interest."""
        broker, far = path[0], path[-1]
        common = self._knowledge.common(broker)[far]
        direct = self._prices.links[broker][far]
        # The evaluation is to end without common interest: that is most pairs.
        if common <= 0.0 or direct == math.inf or self._overlaps[broker] is None:
            return None
        cost = path_costs(
            self._prices.of_brokers(path),
            self._prices.of_cycle(path),
            *self._interests(broker, path),
        )[-1]
        return (cost - direct) * common if wants_link(direct, cost, common) else None

    def costs(self, cycle: tuple[int, ...]) -> list[float]:
        """Eqs. 8 and 9."""
        processing, link_costs = self._prices.of_brokers(cycle), self._prices.of_cycle(cycle)
        return add_costs(
            removal_costs(member, processing, link_costs, *self._interests(broker, cycle))
            for member, broker in enumerate(cycle)
        )

    def _interests(
        self, broker: int, cycle: tuple[int, ...]
    ) -> tuple[Sequence[float], TripleEstimate]:
        """I(broker, member) of all members, and its I(broker, via, far)."""
        row = self._knowledge.common(broker)
        common = [row[other] for other in cycle]
        overlap = self._overlaps[broker] or 0.0

        def estimate(via: int, far: int) -> float:
            known = self._knowledge.triple(broker, cycle[via], cycle[far])
            return min(overlap, common[via], common[far]) if known is None else known

        return common, estimate

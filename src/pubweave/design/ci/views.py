"""How brokers see a cycle, by heuristic and estimate: which links they would like to have
(evaluation), and what each removal would cost (consensus).

Three views: by cost and common interest as CI prints it, by all that passes the cycle (`sides`),
and by the weight of links (lMST, lMIT). The arithmetic is that of `ci/rules` and
`ci/cycle_traffic`, the same that brokers use; here it is fed from prices and knowledge in plain
lists, by index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from pubweave.design.ci.cycle_traffic import SideCounts, link_promise, removal_costs_by_sides
from pubweave.design.ci.rules import (
    Heuristic,
    TripleEstimate,
    add_costs,
    indirect_cost,
    link_weight,
    neighborhood_overlap,
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


class CandidateLink(NamedTuple):
    """A link that a broker would like to have, to the other end of a path."""

    promise: float
    path: tuple[int, ...]


@dataclass
class Surroundings:
    """The brokers within eta hops, nearest first, each with the one before it on the path."""

    via: dict[int, int]
    hops: dict[int, int]

    def path_to(self, far: int) -> tuple[int, ...]:
        way = [far]
        while self.hops[way[-1]] > 0:
            way.append(self.via[way[-1]])
        return tuple(reversed(way))

    def paths(self) -> list[tuple[int, ...]]:
        """To everyone who is no neighbor yet."""
        return [self.path_to(far) for far, hops in self.hops.items() if hops > 1]


class View(Protocol):
    """What brokers make of their knowledge in one round."""

    def wishes(self, broker: int, near: Surroundings) -> list[CandidateLink]: ...

    def costs(self, cycle: tuple[int, ...]) -> list[float]:
        """Of every cycle link's removal, all members together; the last is the proposed link's."""
        ...


@dataclass
class PriceLists:
    """p_v and c_e by index; infinite where a link is no candidate."""

    processing: Sequence[float]
    links: Sequence[Sequence[float]]

    def of_cycle(self, cycle: Sequence[int]) -> list[float]:
        size = len(cycle)
        return [self.links[cycle[m]][cycle[(m + 1) % size]] for m in range(size)]


class WeightView:
    """lMST and lMIT: a link lighter than the heaviest on the path that it would close."""

    def __init__(self, heuristic: Heuristic, prices: PriceLists, knowledge: Knowledge) -> None:
        self._heuristic = heuristic
        self._prices = prices
        self._knowledge = knowledge

    def wishes(self, broker: int, near: Surroundings) -> list[CandidateLink]:
        heaviest = {broker: -np.inf}
        found = []
        for far, hops in near.hops.items():
            if hops == 0:
                continue
            via = near.via[far]
            heaviest[far] = max(heaviest[via], self._weight(via, far))
            weight = self._weight(broker, far)
            is_known = self._prices.links[broker][far] < np.inf
            if hops > 1 and is_known and wants_lighter_link(weight, [heaviest[far]]):
                found.append(CandidateLink(heaviest[far] - weight, near.path_to(far)))
        return found

    def costs(self, cycle: tuple[int, ...]) -> list[float]:
        size = len(cycle)
        return add_costs(
            removal_weights(m, self._weight(cycle[m], cycle[(m + 1) % size]), size)
            for m in range(size)
        )

    def _weight(self, a: int, b: int) -> float:
        common = self._knowledge.common(a)[b]
        return link_weight(self._heuristic, self._prices.links[a][b], common)


class SidesView:
    """Wishes by prices alone, costs by all that passes the cycle."""

    def __init__(self, prices: PriceLists, sides: SideCounts, rng: np.random.Generator) -> None:
        self._prices = prices
        self._sides = sides
        self._rng = rng

    def wishes(self, broker: int, near: Surroundings) -> list[CandidateLink]:
        found = []
        for path in near.paths():
            *path_links, direct = self._prices.of_cycle(path)
            if direct == np.inf:
                continue
            processing = [self._prices.processing[member] for member in path]
            promise = round(link_promise(processing, path_links, direct), 9)
            if promise >= 0:
                found.append(CandidateLink(promise, path))
        # Where all prices are equal so are promises: then every link gets its turn.
        return [found[place] for place in self._rng.permutation(len(found))]

    def costs(self, cycle: tuple[int, ...]) -> list[float]:
        return removal_costs_by_sides(
            [self._prices.processing[member] for member in cycle],
            self._prices.of_cycle(cycle),
            self._sides.union(cycle),
        )


class InterestView:
    """CI as printed: every broker by what its own clients have in common with others'."""

    def __init__(
        self, prices: PriceLists, knowledge: Knowledge, near: dict[int, Surroundings]
    ) -> None:
        self._prices = prices
        self._knowledge = knowledge
        self._near = near
        self._overlaps: dict[int, float | None] = {}

    def wishes(self, broker: int, near: Surroundings) -> list[CandidateLink]:
        """Eq. 7 outwards from the broker, each C_ij from that of the one before."""
        common = self._knowledge.common(broker)
        overlap = self._overlap(broker)
        if overlap is None:
            return []
        direct, processing = self._prices.links[broker], self._prices.processing
        cost = {broker: 0.0}
        found = []
        for far, hops in near.hops.items():
            if hops == 0:
                continue
            if hops == 1:
                cost[far] = direct[far]
                continue
            via = near.via[far]
            triple = self._knowledge.triple(broker, via, far)
            if triple is None:
                triple = min(overlap, common[via], common[far])
            link_cost = self._prices.links[via][far]
            cost[far] = indirect_cost(cost[via], processing[via], link_cost, common[far], triple)
            if wants_link(direct[far], cost[far], common[far]):
                found.append(
                    CandidateLink((cost[far] - direct[far]) * common[far], near.path_to(far))
                )
        return found

    def costs(self, cycle: tuple[int, ...]) -> list[float]:
        """Eqs. 8 and 9."""
        link_costs = self._prices.of_cycle(cycle)
        return add_costs(self._costs_of(member, cycle, link_costs) for member in range(len(cycle)))

    def _costs_of(
        self, member: int, cycle: tuple[int, ...], link_costs: Sequence[float]
    ) -> list[float]:
        broker = cycle[member]
        row = self._knowledge.common(broker)
        common = [row[other] for other in cycle]
        processing = [self._prices.processing[other] for other in cycle]
        triples = self._triples(broker, cycle, common)
        return removal_costs(member, processing, link_costs, common, triples)

    def _triples(
        self, broker: int, cycle: tuple[int, ...], common: Sequence[float]
    ) -> TripleEstimate:
        # Whoever is on a cycle of three or more hears of at least two others.
        overlap = self._overlap(broker) or 0.0

        def estimate(via: int, far: int) -> float:
            known = self._knowledge.triple(broker, cycle[via], cycle[far])
            return min(overlap, common[via], common[far]) if known is None else known

        return estimate

    def _overlap(self, broker: int) -> float | None:
        if broker not in self._overlaps:
            row = self._knowledge.common(broker)
            others = [row[other] for other in self._near[broker].hops if other != broker]
            self._overlaps[broker] = neighborhood_overlap(self._knowledge.own(broker), others)
        return self._overlaps[broker]

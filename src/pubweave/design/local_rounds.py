"""The CI heuristic, lMST and lMIT in rounds, each broker knowing only its neighborhood (CI 4).

A round is one broadcast interval: every broker hears of all brokers within eta hops, looks for a
link it would rather have (evaluation), asks the brokers on the cycle (consensus), and if they
agree two links are exchanged. Decisions are those of `ci_rules`, the same that brokers make; what
is missing here is the protocol. A broker takes part in one exchange per round at most, as locks
on a cycle demand, so every path that was broadcast is still there when it is used.

Brokers are indices, costs plain lists: this walks over a few dozen brokers at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from pubweave.design.ci_rules import (
    Heuristic,
    TripleEstimate,
    add_costs,
    choose_removal,
    indirect_cost,
    link_weight,
    neighborhood_overlap,
    removal_costs,
    removal_weights,
    wants_lighter_link,
    wants_link,
)
from pubweave.design.exchange import Pair

MayExchange = Callable[[Pair, Pair], bool]
"""Whether a link may go for another."""


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


@dataclass(frozen=True)
class LocalSettings:
    """How brokers reorganize; ``requests`` bounds what each asks for in a round."""

    heuristic: Heuristic = Heuristic.CI
    eta: int = 4
    least_gain: float = 0.0
    requests: int | None = None
    patience: int = 0
    """Rounds that a broker waits before it asks again for what was denied."""


@dataclass(frozen=True)
class Round:
    """What happened in a round; paths include both ends."""

    exchanges: tuple[tuple[Pair, Pair], ...]
    requested: tuple[tuple[int, ...], ...]
    agreed: tuple[tuple[int, ...], ...]


class _Wish(NamedTuple):
    promise: float
    path: tuple[int, ...]


@dataclass
class _Neighborhood:
    """The brokers within eta hops, nearest first, each with the one before it on the path."""

    via: dict[int, int]
    hops: dict[int, int]

    def path_to(self, far: int) -> tuple[int, ...]:
        way = [far]
        while self.hops[way[-1]] > 0:
            way.append(self.via[way[-1]])
        return tuple(reversed(way))


@dataclass
class LocalOverlay:
    """A tree whose brokers reorganize it; prices and knowledge may change between rounds."""

    neighbors: list[list[int]]
    processing: Sequence[float]
    prices: Sequence[Sequence[float]]
    knowledge: Knowledge
    settings: LocalSettings
    may_exchange: MayExchange = field(default=lambda removed, added: True)
    rounds: int = 0
    _near: dict[int, _Neighborhood] = field(default_factory=dict)
    _overlaps: dict[int, float | None] = field(default_factory=dict)
    _denied: dict[Pair, int] = field(default_factory=dict)

    def play(self, rng: np.random.Generator) -> Round:
        """One round, the brokers acting in random order."""
        self.rounds += 1
        self._overlaps.clear()
        self._near = {b: self._neighborhood(b) for b in range(len(self.neighbors))}
        busy: set[int] = set()
        exchanges: list[tuple[Pair, Pair]] = []
        requested: list[tuple[int, ...]] = []
        agreed: list[tuple[int, ...]] = []
        for broker in rng.permutation(len(self.neighbors)).tolist():
            if broker in busy:
                continue
            wishes = sorted(self._wishes(broker), key=lambda wish: (-wish.promise, wish.path))
            for wish in wishes[: self.settings.requests]:
                if not busy.isdisjoint(wish.path):
                    continue
                requested.append(wish.path)
                exchange = self._consensus(wish.path)
                if exchange is None:
                    self._deny(wish.path)
                    continue
                self._exchange(*exchange)
                exchanges.append(exchange)
                agreed.append(wish.path)
                busy.update(wish.path)
                break
        return Round(tuple(exchanges), tuple(requested), tuple(agreed))

    def broadcasts(self) -> list[tuple[int, int]]:
        """The links that broadcasts cross in a round, as (from, to): eta hops from everyone."""
        crossed: list[tuple[int, int]] = []
        for broker in range(len(self.neighbors)):
            near = self._neighborhood(broker)
            crossed.extend((near.via[b], b) for b, hops in near.hops.items() if hops > 0)
        return crossed

    def _neighborhood(self, broker: int) -> _Neighborhood:
        via, hops = {broker: broker}, {broker: 0}
        layer = [broker]
        for distance in range(1, self.settings.eta + 1):
            following = []
            for near in layer:
                for far in self.neighbors[near]:
                    if far not in hops:
                        via[far], hops[far] = near, distance
                        following.append(far)
            layer = following
        return _Neighborhood(via, hops)

    def _wishes(self, broker: int) -> list[_Wish]:
        """Links that a broker would rather have than what it has (the evaluation phase)."""
        near = self._near[broker]
        if self.settings.heuristic is Heuristic.CI:
            found = self._wishes_by_cost(broker, near)
        else:
            found = self._wishes_by_weight(broker, near)
        return [wish for wish in found if not self._is_denied(wish.path)]

    def _wishes_by_cost(self, broker: int, near: _Neighborhood) -> list[_Wish]:
        """Eq. 7 outwards from the broker, each C_ij from that of the one before."""
        common = self.knowledge.common(broker)
        overlap = self._overlap(broker)
        if overlap is None:
            return []
        prices, processing = self.prices[broker], self.processing
        cost = {broker: 0.0}
        wishes = []
        for far, hops in near.hops.items():
            if hops == 0:
                continue
            if hops == 1:
                cost[far] = prices[far]
                continue
            via = near.via[far]
            triple = self.knowledge.triple(broker, via, far)
            if triple is None:
                triple = min(overlap, common[via], common[far])
            cost[far] = indirect_cost(
                cost[via], processing[via], self.prices[via][far], common[far], triple
            )
            if wants_link(prices[far], cost[far], common[far]):
                promise = (cost[far] - prices[far]) * common[far]
                wishes.append(_Wish(promise, near.path_to(far)))
        return wishes

    def _wishes_by_weight(self, broker: int, near: _Neighborhood) -> list[_Wish]:
        """lMST and lMIT: a link lighter than the heaviest on the path that it would close."""
        heaviest = {broker: [-np.inf]}
        wishes = []
        for far, hops in near.hops.items():
            if hops == 0:
                continue
            via = near.via[far]
            heaviest[far] = [max(heaviest[via][0], self._weight(via, far))]
            weight = self._weight(broker, far)
            is_known = self.prices[broker][far] < np.inf
            if hops > 1 and is_known and wants_lighter_link(weight, heaviest[far]):
                wishes.append(_Wish(heaviest[far][0] - weight, near.path_to(far)))
        return wishes

    def _weight(self, a: int, b: int) -> float:
        common = self.knowledge.common(a)[b]
        return link_weight(self.settings.heuristic, self.prices[a][b], common)

    def _consensus(self, ring: tuple[int, ...]) -> tuple[Pair, Pair] | None:
        """What the brokers of the ring agree on (Eqs. 8-10): the links to remove and to add."""
        size = len(ring)
        link_costs = [self.prices[ring[m]][ring[(m + 1) % size]] for m in range(size)]
        if self.settings.heuristic is Heuristic.CI:
            costs = add_costs(self._removal_costs(m, ring, link_costs) for m in range(size))
        else:
            costs = add_costs(
                removal_weights(m, self._weight(ring[m], ring[(m + 1) % size]), size)
                for m in range(size)
            )
        added = _pair(ring[0], ring[-1])
        for m in range(size - 1):
            if not self.may_exchange(_pair(ring[m], ring[m + 1]), added):
                costs[m] = np.inf
        chosen = choose_removal(costs, self.settings.least_gain)
        return None if chosen is None else (_pair(ring[chosen], ring[chosen + 1]), added)

    def _removal_costs(
        self, member: int, ring: tuple[int, ...], link_costs: Sequence[float]
    ) -> list[float]:
        broker = ring[member]
        row = self.knowledge.common(broker)
        common = [row[other] for other in ring]
        return removal_costs(
            member,
            [self.processing[other] for other in ring],
            link_costs,
            common,
            self._triples(broker, ring, common),
        )

    def _triples(
        self, broker: int, ring: tuple[int, ...], common: Sequence[float]
    ) -> TripleEstimate:
        # Whoever is on a ring of three or more hears of at least two others.
        overlap = self._overlap(broker) or 0.0

        def estimate(via: int, far: int) -> float:
            known = self.knowledge.triple(broker, ring[via], ring[far])
            return min(overlap, common[via], common[far]) if known is None else known

        return estimate

    def _overlap(self, broker: int) -> float | None:
        if broker not in self._overlaps:
            row = self.knowledge.common(broker)
            others = [row[other] for other in self._near[broker].hops if other != broker]
            self._overlaps[broker] = neighborhood_overlap(self.knowledge.own(broker), others)
        return self._overlaps[broker]

    def _is_denied(self, path: tuple[int, ...]) -> bool:
        return self._denied.get((path[0], path[-1]), -1) >= self.rounds

    def _deny(self, path: tuple[int, ...]) -> None:
        if self.settings.patience:
            self._denied[path[0], path[-1]] = self.rounds + self.settings.patience

    def _exchange(self, removed: Pair, added: Pair) -> None:
        for one, other in (removed, removed[::-1]):
            self.neighbors[one].remove(other)
        for one, other in (added, added[::-1]):
            self.neighbors[one] = sorted([*self.neighbors[one], other])


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)

"""The CI heuristic, lMST and lMIT in rounds, each broker knowing only its neighborhood (CI 4).

A round is one broadcast interval: every broker hears of all brokers within eta hops, looks for a
link it would rather have (evaluation), asks the brokers on the cycle (consensus), and if they
agree two links are exchanged. Decisions are those of `ci/views`; what is missing here is the
protocol. A broker takes part in one exchange per round at most, as locks on a cycle demand, so
every path that was broadcast is still there when it is used.

Brokers are indices, costs plain lists: this walks over a few dozen brokers at a time.

Offline (`reorganized`) the traffic is that of the profile in every round, until nothing changes any
more: what an overlay in self-organizing mode would come to if the measured traffic stayed. Common
interest is exact there; what Bloom filters would have made of it is in the experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pubweave.design.ci.cycle_traffic import SideCounts
from pubweave.design.ci.rules import Estimate, Heuristic, choose_removal
from pubweave.design.ci.views import (
    InterestView,
    Knowledge,
    PriceLists,
    SidesView,
    Surroundings,
    View,
    WeightView,
)
from pubweave.design.tree.cost import common_interest, edges_of, links_of, total_cost
from pubweave.design.tree.limits import Allowance
from pubweave.design.tree.link_exchange import Pair, TreeState, pair_of
from pubweave.design.tree.problem import (
    DesignProblem,
    DesignProgress,
    DesignResult,
    DesignStatus,
    OnProgress,
    Stop,
    ignore_progress,
)
from pubweave.design.tree.traffic import Integers, Traffic

MayExchange = Callable[[Pair, Pair], bool]
"""Whether a link may go for another."""

LIVE_REQUESTS, LIVE_PATIENCE = 3, 4
"""What brokers of a running overlay allow themselves; see `LocalSettings`."""


@dataclass(frozen=True)
class LocalSettings:
    """How brokers reorganize; ``requests`` bounds what each asks for in a round."""

    heuristic: Heuristic = Heuristic.CI
    eta: int = 4
    least_gain: float = 0.0
    requests: int | None = None
    patience: int = 0
    """Rounds that a broker waits before it asks again for what was denied."""
    estimate: Estimate = Estimate.OVERLAP
    """CI's; the others have no use for one."""


@dataclass(frozen=True)
class Round:
    """What happened in a round; paths include both ends."""

    exchanges: tuple[tuple[Pair, Pair], ...]
    requested: tuple[tuple[int, ...], ...]
    agreed: tuple[tuple[int, ...], ...]


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
    _denied: dict[Pair, int] = field(default_factory=dict)

    def play(self, rng: np.random.Generator) -> Round:
        """One round, the brokers acting in random order."""
        self.rounds += 1
        near = {broker: self._surroundings(broker) for broker in range(len(self.neighbors))}
        view = self._view(near, rng)
        busy: set[int] = set()
        exchanges: list[tuple[Pair, Pair]] = []
        requested: list[tuple[int, ...]] = []
        agreed: list[tuple[int, ...]] = []
        for broker in rng.permutation(len(self.neighbors)).tolist():
            if broker in busy:
                continue
            wishes = [w for w in view.wishes(broker, near[broker]) if not self._is_denied(w.path)]
            wishes.sort(key=lambda wish: -wish.promise)
            for wish in wishes[: self.settings.requests]:
                if not busy.isdisjoint(wish.path):
                    continue
                requested.append(wish.path)
                exchange = self._consensus(view, wish.path)
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
            near = self._surroundings(broker)
            crossed.extend((near.via[b], b) for b, hops in near.hops.items() if hops > 0)
        return crossed

    def _view(self, near: dict[int, Surroundings], rng: np.random.Generator) -> View:
        """What everybody has to go by in this round."""
        prices = PriceLists(self.processing, self.prices)
        if self.settings.heuristic is not Heuristic.CI:
            return WeightView(self.settings.heuristic, prices, self.knowledge)
        if self.settings.estimate is Estimate.SIDES:
            return SidesView(prices, self.knowledge.sides(self.neighbors), rng)
        return InterestView(prices, self.knowledge, near)

    def _surroundings(self, broker: int) -> Surroundings:
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
        return Surroundings(via, hops)

    def _consensus(self, view: View, cycle: tuple[int, ...]) -> tuple[Pair, Pair] | None:
        """What the brokers of the cycle agree on (Eqs. 8-10): the links to remove and to add."""
        costs = view.costs(cycle)
        added = pair_of(cycle[0], cycle[-1])
        for m in range(len(cycle) - 1):
            if not self.may_exchange(pair_of(cycle[m], cycle[m + 1]), added):
                costs[m] = np.inf
        chosen = choose_removal(costs, self.settings.least_gain)
        return None if chosen is None else (pair_of(cycle[chosen], cycle[chosen + 1]), added)

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


ROUNDS_MAX = 200
_TRIPLE_SETS = 20_000
_SIDE_SETS = 5_000
"""Triples and sides are counted in at most this many notifications, drawn by weight."""


class ExactInterest:
    """Common interest as the traffic has it; triples where the estimate wants them."""

    def __init__(self, traffic: Traffic, estimate: Estimate, rng: np.random.Generator) -> None:
        self._common: list[list[float]] = common_interest(traffic).tolist()
        self._triples: TripleCounts | None = None
        self._seen = _at_most(_SIDE_SETS, traffic, rng)
        if estimate is Estimate.CONJUNCTION:
            self._triples = TripleCounts(_at_most(_TRIPLE_SETS, traffic, rng))

    def own(self, broker: int) -> float:
        return self._common[broker][broker]

    def common(self, broker: int) -> Sequence[float]:
        return self._common[broker]

    def triple(self, broker: int, via: int, far: int) -> float | None:
        return None if self._triples is None else self._triples.of(broker, via, far)

    def sides(self, neighbors: Sequence[Sequence[int]]) -> SideCounts:
        return SideCounts(self._seen, neighbors)


def _at_most(count: int, traffic: Traffic, rng: np.random.Generator) -> Traffic:
    return traffic if traffic.set_count <= count else traffic.sample(count, rng)


class TripleCounts:
    """I(i, j, k) of a traffic, counted when it is first asked for."""

    def __init__(self, traffic: Traffic) -> None:
        self._weights = traffic.weights
        self._has = np.zeros((len(traffic.brokers), traffic.set_count), dtype=bool)
        self._has[traffic.members, np.repeat(np.arange(traffic.set_count), traffic.sizes)] = True
        self._known: dict[tuple[int, ...], float] = {}

    def of(self, *brokers: int) -> float:
        key = tuple(sorted(brokers))
        if key not in self._known:
            one, two, three = key
            both = self._has[one] & self._has[two] & self._has[three]
            self._known[key] = float(self._weights[both].sum())
        return self._known[key]


def reorganized(
    problem: DesignProblem,
    settings: LocalSettings,
    *,
    stop: Stop,
    rng: np.random.Generator,
    on_progress: OnProgress = ignore_progress,
) -> DesignResult:
    """The tree when nothing changes any more, after at most `ROUNDS_MAX` rounds.

    Whoever was denied waits for ``patience`` rounds: only so many and one without any exchange
    are rest.
    """
    allowance = Allowance(problem)
    edges = edges_of(problem.source, problem.brokers)
    state = TreeState(problem.traffic, problem.prices, edges)
    allowance.bring_within(state)
    links = set(state.links)
    overlay = LocalOverlay(
        _neighbors(state.edges, len(problem.brokers)),
        problem.prices.processing.tolist(),
        allowance.candidates.tolist(),
        ExactInterest(problem.traffic, settings.estimate, rng),
        settings,
        may_exchange=lambda removed, added: allowance.permits(links, removed, added),
    )
    exchanges = at_rest = 0
    notes: tuple[str, ...] = (f"still changing after {ROUNDS_MAX} rounds",)
    for number in range(1, ROUNDS_MAX + 1):
        if stop():
            notes = (f"ended in round {number}",)
            break
        made = overlay.play(rng).exchanges
        for removed, added in made:
            links.remove(removed)
            links.add(added)
        exchanges += len(made)
        at_rest = 0 if made else at_rest + 1
        if at_rest > settings.patience:
            notes = ()
            break
        message = f"{settings.heuristic.value}: round {number}, {len(made)} exchanges"
        on_progress(DesignProgress(message, _cost(problem, links)))
    name = settings.heuristic.value
    return DesignResult(
        name if name == "ci" else f"l{name}",
        links_of(_edges(links), problem.brokers),
        _cost(problem, links),
        DesignStatus.RULE,
        rounds=overlay.rounds,
        exchanges=exchanges,
        notes=notes,
    )


def _cost(problem: DesignProblem, links: set[Pair]) -> float:
    return total_cost(problem.traffic, problem.prices, _edges(links))


def _edges(links: set[Pair]) -> Integers:
    return np.array(sorted(links), dtype=np.int64).reshape(-1, 2)


def _neighbors(edges: Integers, count: int) -> list[list[int]]:
    neighbors: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges.tolist():
        neighbors[a].append(b)
        neighbors[b].append(a)
    return [sorted(ends) for ends in neighbors]

"""The CI heuristic, lMST and lMIT in rounds, each broker knowing only its neighborhood (CI 4).

A round is one broadcast interval: every broker hears of all brokers within eta hops, looks for a
link it would rather have (evaluation), asks the brokers on the cycle (consensus), and if they
agree two links are exchanged. Decisions are those of `ci/views`; what is missing here is the
protocol. As printed a broker evaluates at every broadcast that it receives and takes part in any
number of exchanges; both can be bounded (`LocalSettings`).

Brokers are indices, costs plain lists: this walks over a few dozen brokers at a time.

Offline (`reorganized`) the traffic is that of the profile in every round, until nothing changes any
more: what an overlay in self-organizing mode would come to if the measured traffic stayed. Common
interest is exact there; what Bloom filters would have made of it is in the experiments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations

import numpy as np

from pubweave.design.ci.cycle_traffic import SideCounts
from pubweave.design.ci.rules import Estimate, Heuristic, choose_removal, neighborhood_overlap
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

MayExchange = Callable[[set[Pair], Pair, Pair], bool]
"""Whether of the links there are the first may go for the second."""


@dataclass(frozen=True)
class LocalSettings:
    """How brokers reorganize. The defaults are the paper's; `LIVE` is what pays best by sides."""

    heuristic: Heuristic = Heuristic.CI
    eta: int = 4
    least_gain: float = 0.0
    exchanges: int | None = None
    """How many exchanges a broker takes part in per round; None: any number."""
    requests: int | None = None
    """How many links a broker asks for per round when it has heard of all others, the best first;
    None: it evaluates at every broadcast that it receives."""
    patience: int = 0
    """Rounds that a broker waits before it asks again for what was denied."""
    estimate: Estimate = Estimate.OVERLAP
    """CI's; the others have no use for one."""


LIVE = LocalSettings(requests=3, patience=4, estimate=Estimate.SIDES)
"""What pays by sides, and what running brokers do (`core.self_organizing`): of settings that are
equally good the one with the fewest requests (docs/papers/ci.md)."""


@dataclass
class Round:
    """What happened in a round; paths include both ends."""

    crossed: list[tuple[int, int]] = field(default_factory=list)
    """Links that broadcasts crossed, as (from, to)."""
    requested: list[tuple[int, ...]] = field(default_factory=list)
    agreed: list[tuple[int, ...]] = field(default_factory=list)
    exchanges: list[tuple[Pair, Pair]] = field(default_factory=list)


@dataclass
class LocalOverlay:
    """A tree whose brokers reorganize it; prices and knowledge may change between rounds."""

    neighbors: list[list[int]]
    processing: Sequence[float]
    prices: Sequence[Sequence[float]]
    knowledge: Knowledge
    settings: LocalSettings
    may_exchange: MayExchange = field(default=lambda links, removed, added: True)
    rounds: int = 0
    links: set[Pair] = field(init=False)
    _denied: dict[Pair, int] = field(default_factory=dict)
    _heard: dict[Pair, int] = field(default_factory=dict)
    """The last round in which a broker (first) heard another's broadcast (second)."""

    def __post_init__(self) -> None:
        self.links = {pair_of(a, b) for a, ends in enumerate(self.neighbors) for b in ends}

    def play(self, rng: np.random.Generator) -> Round:
        """One round, the brokers acting in random order."""
        self.rounds += 1
        self._made = Round()
        self._taken_part: Counter[int] = Counter()
        order = rng.permutation(len(self.neighbors)).tolist()
        if self.settings.requests is None:
            self._forget_stale()
            self._set_view()
            for broker in order:
                self._broadcast(broker)
        else:
            near = {broker: self._surroundings(broker) for broker in order}
            for broker, surroundings in near.items():
                self._made.crossed += surroundings.crossed()
                for far in surroundings.hops:
                    self._heard[far, broker] = self.rounds
            self._forget_stale()
            self._set_view()
            for broker in order:
                self._ask_for_best(broker, self.settings.requests, rng)
        return self._made

    # --- evaluation ------------------------------------------------------------------------

    def _broadcast(self, origin: int) -> None:
        """As printed: who hears a broadcast evaluates a link to its origin, and asks for it."""
        near = self._surroundings(origin)
        self._made.crossed += near.crossed()
        for broker in near.hops:
            self._heard[broker, origin] = self.rounds
        for broker, hops in near.hops.items():
            path = near.path_from(broker)
            # Earlier hearers may have changed the tree meanwhile: then a request leads nowhere.
            if hops > 1 and self._is_whole(path) and self._view.promise(path) is not None:
                self._request(path)

    def _ask_for_best(self, broker: int, requests: int, rng: np.random.Generator) -> None:
        near = self._surroundings(broker)
        far = [other for other, hops in near.hops.items() if hops > 1]
        promised: list[tuple[float, tuple[int, ...]]] = []
        # Where promises are equal every link gets its turn.
        for place in rng.permutation(len(far)).tolist():
            path = near.path_to(far[place])
            promise = None if self._is_denied(path) else self._view.promise(path)
            if promise is not None:
                promised.append((promise, path))
        promised.sort(key=lambda found: -found[0])
        asked = 0
        for _, path in promised:
            if asked == requests:
                return
            if self._is_whole(path) and self._may_take_part(path):
                self._request(path)
                asked += 1

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

    def _is_whole(self, path: tuple[int, ...]) -> bool:
        return all(pair_of(near, far) in self.links for near, far in pairwise(path))

    # --- knowledge -------------------------------------------------------------------------

    def _forget_stale(self) -> None:
        """What was not heard in this round or the last one: the paper's second chance."""
        stale = [pair for pair, heard in self._heard.items() if heard < self.rounds - 1]
        for pair in stale:
            del self._heard[pair]

    def _set_view(self) -> None:
        """What everybody has to go by until the tree changes."""
        prices = PriceLists(self.processing, self.prices)
        if self.settings.heuristic is not Heuristic.CI:
            self._view: View = WeightView(self.settings.heuristic, prices, self.knowledge)
        elif self.settings.estimate is Estimate.SIDES:
            self._view = SidesView(prices, self.knowledge.sides(self.neighbors))
        else:
            self._view = InterestView(prices, self.knowledge, self._overlaps())

    def _overlaps(self) -> list[float | None]:
        common: list[list[float]] = [[] for _ in self.neighbors]
        for broker, other in self._heard:
            if other != broker:
                common[broker].append(self.knowledge.common(broker)[other])
        return [
            neighborhood_overlap(self.knowledge.own(broker), commons)
            for broker, commons in enumerate(common)
        ]

    # --- consensus -------------------------------------------------------------------------

    def _request(self, path: tuple[int, ...]) -> None:
        if not self._may_take_part(path):
            return
        self._made.requested.append(path)
        exchange = self._agreed(path)
        if exchange is None:
            if self.settings.patience:
                self._denied[path[0], path[-1]] = self.rounds + self.settings.patience
            return
        self._made.agreed.append(path)
        self._made.exchanges.append(exchange)
        self._taken_part.update(path)
        self._exchange(*exchange)

    def _may_take_part(self, path: tuple[int, ...]) -> bool:
        limit = self.settings.exchanges
        return limit is None or all(self._taken_part[broker] < limit for broker in path)

    def _agreed(self, cycle: tuple[int, ...]) -> tuple[Pair, Pair] | None:
        """What the brokers of the cycle agree on (Eqs. 8-10): the links to remove and to add."""
        is_by_interest = isinstance(self._view, InterestView)
        if is_by_interest and not all(pair in self._heard for pair in permutations(cycle, 2)):
            return None  # somebody has yet to hear from another one
        costs = self._view.costs(cycle)
        added = pair_of(cycle[0], cycle[-1])
        for m in range(len(cycle) - 1):
            if not self.may_exchange(self.links, pair_of(cycle[m], cycle[m + 1]), added):
                costs[m] = np.inf
        chosen = choose_removal(costs, self.settings.least_gain)
        return None if chosen is None else (pair_of(cycle[chosen], cycle[chosen + 1]), added)

    def _is_denied(self, path: tuple[int, ...]) -> bool:
        return self._denied.get((path[0], path[-1]), -1) >= self.rounds

    def _exchange(self, removed: Pair, added: Pair) -> None:
        self.links.remove(removed)
        self.links.add(added)
        for one, other in (removed, removed[::-1]):
            self.neighbors[one].remove(other)
        for one, other in (added, added[::-1]):
            self.neighbors[one] = sorted([*self.neighbors[one], other])
        if isinstance(self._view, SidesView):
            self._set_view()


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

    Whoever was denied waits for ``patience`` rounds, and whoever knows too little for one: only
    so many and one more without any exchange are rest.
    """
    allowance = Allowance(problem)
    edges = edges_of(problem.source, problem.brokers)
    state = TreeState(problem.traffic, problem.prices, edges)
    allowance.bring_within(state)
    overlay = LocalOverlay(
        _neighbors(state.edges, len(problem.brokers)),
        problem.prices.processing.tolist(),
        allowance.candidates.tolist(),
        ExactInterest(problem.traffic, settings.estimate, rng),
        settings,
        may_exchange=allowance.permits,
    )
    exchanges = at_rest = 0
    notes: tuple[str, ...] = (f"still changing after {ROUNDS_MAX} rounds",)
    for number in range(1, ROUNDS_MAX + 1):
        if stop():
            notes = (f"ended in round {number}",)
            break
        made = overlay.play(rng).exchanges
        exchanges += len(made)
        at_rest = 0 if made else at_rest + 1
        if at_rest > max(1, settings.patience):
            notes = ()
            break
        message = f"{settings.heuristic.value}: round {number}, {len(made)} exchanges"
        on_progress(DesignProgress(message, _cost(problem, overlay.links)))
    name = settings.heuristic.value
    return DesignResult(
        name if name == "ci" else f"l{name}",
        links_of(_edges(overlay.links), problem.brokers),
        _cost(problem, overlay.links),
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

"""Where the local heuristics would take a tree, offline: rounds until nothing changes any more.

The traffic is that of the profile in every round, so this is what an overlay in self-organizing
mode would come to if the measured traffic stayed. Common interest is exact here; what Bloom
filters would have made of it is in the experiments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pubweave.design.ci.cycle_traffic import SideCounts
from pubweave.design.ci.rounds import LocalOverlay, LocalSettings
from pubweave.design.ci.rules import Estimate
from pubweave.design.tree.cost import common_interest, edges_of, links_of, total_cost
from pubweave.design.tree.limits import Allowance
from pubweave.design.tree.link_exchange import Pair, TreeState
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

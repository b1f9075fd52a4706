"""Trees built at once from global knowledge: the paper's MST and MIT, and starts for a search.

CI 3.1.2: the minimum spanning tree looks at prices of links only, the maximum interest tree at
common interest only. An operator's limits are seen to afterwards, at the least cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pubweave.design.tree.cost import common_interest, links_of, total_cost
from pubweave.design.tree.limits import Allowance
from pubweave.design.tree.link_exchange import TreeState
from pubweave.design.tree.problem import DesignProblem, DesignResult, DesignStatus
from pubweave.design.tree.traffic import DesignError, Floats, Integers

_ROOTS_TRIED = 10


def minimum_spanning_tree(problem: DesignProblem) -> DesignResult:
    """The tree of least total price of its links."""
    return _result(problem, "mst", _prim(problem.prices.communication))


def maximum_interest_tree(problem: DesignProblem) -> DesignResult:
    """The tree of greatest total common interest over its links; equal ones by price."""
    return _result(problem, "mit", _prim(_interest_keys(problem)))


def starting_trees(problem: DesignProblem) -> list[Integers]:
    """Trees worth improving: cheap links between cheap brokers, shortest ways from a cheap one.

    A relay pays its price for everything that passes, so it counts with each link; and trees of
    shortest ways from a good centre are never far from the best communication tree (Hu).
    """
    prices = problem.prices
    both_ends = prices.processing[:, None] + prices.processing[None, :]
    trees = [_prim(prices.communication + both_ends)]
    centres = np.argsort(prices.processing, kind="stable")[:_ROOTS_TRIED].tolist()
    rooted = [_shortest_ways(problem, centre) for centre in centres]
    costs = [total_cost(problem.traffic, prices, edges) for edges in rooted]
    trees.append(rooted[int(np.argmin(costs))])
    return trees


def _interest_keys(problem: DesignProblem) -> Floats:
    prices = problem.prices.communication
    known = np.isfinite(prices)
    common = common_interest(problem.traffic)
    # Notifications are counted in whole numbers or sampled ones, so a share of one is a tie-break.
    scale = 1e-6 / max(1.0, float(prices[known].max(initial=0.0)))
    return np.where(known, -common + np.where(known, prices, 0.0) * scale, np.inf)


def _prim(keys: Floats) -> Integers:
    """The spanning tree of least keys; equal keys go to the smaller index."""
    nearest = keys[0].copy()
    parent = np.zeros(len(keys), dtype=np.int64)
    outside = np.ones(len(keys), dtype=bool)
    outside[0] = False
    pairs = []
    for _ in range(len(keys) - 1):
        joined = int(np.argmin(np.where(outside, nearest, np.inf)))
        if not outside[joined] or not np.isfinite(nearest[joined]):
            raise DesignError(
                "the links with a known price do not connect all brokers: give --latency or "
                "--assume-latency"
            )
        pairs.append((int(parent[joined]), joined))
        outside[joined] = False
        closer = keys[joined] < nearest
        nearest = np.where(closer, keys[joined], nearest)
        parent[closer] = joined
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _shortest_ways(problem: DesignProblem, centre: int) -> Integers:
    """The tree of cheapest ways from one broker, relays included (Dijkstra on a full matrix)."""
    prices = problem.prices
    count = len(problem.brokers)
    cost = prices.communication[centre].copy()
    parent = np.full(count, centre, dtype=np.int64)
    outside = np.ones(count, dtype=bool)
    outside[centre] = False
    pairs = []
    for _ in range(count - 1):
        reached = int(np.argmin(np.where(outside, cost, np.inf)))
        pairs.append((int(parent[reached]), reached))
        outside[reached] = False
        further = cost[reached] + prices.processing[reached] + prices.communication[reached]
        closer = outside & (further < cost)
        cost[closer] = further[closer]
        parent[closer] = reached
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _result(problem: DesignProblem, method: str, edges: Integers) -> DesignResult:
    if not problem.limits.are_none:
        state = TreeState(problem.traffic, problem.prices, edges)
        Allowance(problem).bring_within(state)
        edges = state.edges
    return DesignResult(
        method,
        links_of(edges, problem.brokers),
        total_cost(problem.traffic, problem.prices, edges),
        DesignStatus.RULE,
    )


# Links that join the pieces of topics among a few brokers: Algorithm 2 of Shadows by names.
#
# The same choices as `design.tco._kernels.mending.mend`, for brokers, which decide by themselves
# about a shadow set of a dozen and should not load a compiler for it. Needs nothing but names.


Pair = tuple[str, str]
Pieces = Mapping[str, Mapping[str, int]]
"""By topic: its subscribers, each with the number of the piece that it is in."""


def mending_links(
    pieces: Pieces,
    order: Sequence[str],
    degrees: Mapping[str, int],
    *,
    rho: float = 3.0,
    is_allowed: Callable[[str, str], bool] = lambda one, other: True,
) -> list[Pair]:
    """The links among ``order`` (in canonical order, see `canonical`) that join most pieces.

    Each time e1, the link that joins pieces of most topics, or e2, the best of those that raise
    the maximum degree of these brokers least; e1 only if it joins more than rho times as many
    (Shadows, Algorithm 2). Ties go to the first pair. Pieces that no allowed pair joins are left.
    O(brokers^2 (topics + links)).

    >>> pieces = {"x": {"a": 0, "b": 1, "c": 2}, "y": {"b": 0, "c": 1}}
    >>> mending_links(pieces, ["b", "c", "a"], {"a": 1, "b": 1, "c": 1})
    [('b', 'c'), ('b', 'a')]
    """
    labels = {topic: dict(members) for topic, members in pieces.items()}
    degree = {broker: degrees[broker] for broker in order}
    level = max(degree.values(), default=0)
    worth = _contributions(labels, order, is_allowed)
    found: list[Pair] = []
    while worth:
        chosen = _choice(worth, degree, level, rho)
        found.append(chosen)
        for end in chosen:
            degree[end] += 1
            level = max(level, degree[end])
        _join(labels, worth, chosen)
    return found


def canonical(sizes: Mapping[str, int]) -> list[str]:
    """Brokers by descending number of topics, then by name.

    >>> canonical({"b": 2, "a": 1, "c": 2})
    ['b', 'c', 'a']
    """
    return sorted(sizes, key=lambda broker: (-sizes[broker], broker))


def _contributions(
    labels: Pieces, order: Sequence[str], is_allowed: Callable[[str, str], bool]
) -> dict[Pair, int]:
    """Of each pair that would join something, in how many topics; in canonical order."""
    worth: dict[Pair, int] = {}
    for place, one in enumerate(order):
        for other in order[place + 1 :]:
            value = sum(
                one in members and other in members and members[one] != members[other]
                for members in labels.values()
            )
            if value and is_allowed(one, other):
                worth[one, other] = value
    return worth


def _choice(worth: Mapping[Pair, int], degree: Mapping[str, int], level: int, rho: float) -> Pair:
    """The next link: the first of the best ones."""
    first = max(worth, key=worth.__getitem__)

    def rise(pair: Pair) -> int:
        return max(0, max(degree[end] for end in pair) + 1 - level)

    second = min(worth, key=lambda pair: (rise(pair), -worth[pair]))
    return first if worth[first] > rho * worth[second] else second


def _join(labels: Mapping[str, dict[str, int]], worth: dict[Pair, int], chosen: Pair) -> None:
    """The pieces of the chosen link's ends are one now: other links are worth less."""
    one, other = chosen
    for members in labels.values():
        kept, gone = members.get(one), members.get(other)
        if kept is None or gone is None or kept == gone:
            continue
        for pair in list(worth):
            if {members.get(pair[0]), members.get(pair[1])} == {kept, gone}:
                worth[pair] -= 1
                if not worth[pair]:
                    del worth[pair]
        members.update({broker: kept for broker, label in members.items() if label == gone})

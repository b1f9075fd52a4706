"""Trees built at once from global knowledge: the paper's MST and MIT, and starts for a search.

CI 3.1.2: the minimum spanning tree looks at prices of links only, the maximum interest tree at
common interest only. An operator's limits are seen to afterwards, at the least cost.
"""

from __future__ import annotations

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

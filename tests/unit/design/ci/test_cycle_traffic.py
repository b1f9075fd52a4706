"""A ring priced by its brokers' sides: exactly what the whole tree would cost, link by link."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.design.ci.cycle_traffic import SideCounts, link_promise, removal_costs_by_sides
from pubweave.design.tree.cost import total_cost
from tests.naive.design_instances import random_edges, random_prices, random_traffic


def neighbors_of(edges: np.ndarray, count: int) -> list[list[int]]:
    neighbors: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges.tolist():
        neighbors[a].append(b)
        neighbors[b].append(a)
    return neighbors


def path_between(neighbors: list[list[int]], start: int, end: int) -> list[int]:
    before = {start: start}
    order = [start]
    for broker in order:
        for neighbor in neighbors[broker]:
            if neighbor not in before:
                before[neighbor] = broker
                order.append(neighbor)
    way = [end]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


@pytest.mark.parametrize("seed", range(20))
def test_differences_are_those_of_the_whole_tree(seed: int) -> None:
    """The claim: what the ring's brokers know of it decides as if they knew everything."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 25))
    traffic, prices = random_traffic(rng, count, 30), random_prices(rng, count)
    edges = random_edges(rng, count)
    neighbors = neighbors_of(edges, count)
    paths = [path_between(neighbors, a, b) for a in range(count) for b in range(a)]
    ring = [path for path in paths if len(path) > 2][int(rng.integers(count))]
    size = len(ring)
    link_costs = [float(prices.communication[ring[m], ring[(m + 1) % size]]) for m in range(size)]
    costs = removal_costs_by_sides(
        [float(prices.processing[broker]) for broker in ring],
        link_costs,
        SideCounts(traffic, neighbors).union(ring),
    )
    now = total_cost(traffic, prices, edges)
    for m in range(size - 1):
        kept = [pair for pair in edges.tolist() if set(pair) != {ring[m], ring[m + 1]}]
        then = total_cost(traffic, prices, np.array([*kept, [ring[0], ring[-1]]]))
        assert costs[m] - costs[-1] == pytest.approx(then - now, rel=1e-9, abs=1e-6)


def test_a_link_between_cheap_brokers_promises_more() -> None:
    assert link_promise([1, 9, 1], [4, 4], 3) == (4 + 5) - (3 + 1)
    assert link_promise([9, 1, 9], [4, 4], 3) == (4 + 5) - (3 + 9)

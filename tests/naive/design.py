"""Design by definition: no incremental sums, no arrays, every equation as the paper prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product


def indirect_cost(
    path: Sequence[int],
    processing: Sequence[float],
    price: Callable[[int, int], float],
    common: Sequence[float],
    triple: Callable[[int, int], float],
) -> float:
    """CI Eq. 7 by recursion, from the end of the path back to its start."""
    if len(path) == 1:
        return 0.0
    via, far = path[-2], path[-1]
    if len(path) == 2:
        return price(via, far)
    nearer = indirect_cost(path[:-1], processing, price, common, triple)
    share = (common[far] - triple(via, far)) / common[far] if common[far] else 1.0
    return share * (nearer + processing[via]) + price(via, far)


def removal_cost(
    member: int,
    removed: int,
    processing: Sequence[float],
    link_costs: Sequence[float],
    common: Sequence[float],
    triple: Callable[[int, int], float],
) -> float:
    """CI Eq. 8: on the ring without one link, there is one way from the member to each other."""
    size = len(processing)

    def price(a: int, b: int) -> float:
        return link_costs[a if (a + 1) % size == b else b]

    total = 0.0
    for far in range(size):
        ways = []
        for step in (1, -1):
            way = [member]
            while way[-1] != far:
                way.append((way[-1] + step) % size)
            crossed = [a if step > 0 else b for a, b in pairwise(way)]
            if removed not in crossed:
                ways.append(way)
        total += common[far] * indirect_cost(ways[0], processing, price, common, triple)
    return total


def tree_cost(
    sets: Sequence[tuple[Sequence[int], float]],
    edges: Sequence[tuple[int, int]],
    processing: Sequence[float],
    price: Sequence[Sequence[float]],
) -> float:
    """CI Eqs. 1 and 2: cut leaves that are no members off the tree until none is left."""
    total = 0.0
    for members, weight in sets:
        left = {frozenset(edge) for edge in edges}
        brokers = set(range(len(processing)))
        while True:
            idle = [
                v
                for v in brokers
                if v not in members and sum(v in edge for edge in left) <= 1 and len(brokers) > 1
            ]
            if not idle:
                break
            brokers.remove(idle[0])
            left = {edge for edge in left if idle[0] not in edge}
        cost = sum(processing[v] for v in brokers)
        total += weight * (cost + sum(price[min(edge)][max(edge)] for edge in left))
    return total


def all_trees(count: int) -> Iterator[list[tuple[int, int]]]:
    """Every labelled tree, by its Pruefer sequence."""
    for sequence in product(range(count), repeat=max(0, count - 2)):
        degree = [1 + sequence.count(v) for v in range(count)]
        edges = []
        for v in sequence:
            leaf = degree.index(1)
            edges.append((min(leaf, v), max(leaf, v)))
            degree[leaf] -= 1
            degree[v] -= 1
        if count > 1:
            a, b = [v for v in range(count) if degree[v] == 1]
            edges.append((a, b))
        yield edges

"""Bounds for branch and bound over the trees of a few vertices; twin: all trees by enumeration.

Links are decided one by one, in or out. The forest of those that are in fixes the delivery tree of
a set within each of its parts; a set that touches several parts must still leave all but one of
them over their cheapest undecided link. Vertices and links are bits of words: at most 11 vertices,
so that 55 links fit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@njit(cache=True)
def _bits_cost(bits: int, prices: Floats) -> float:
    cost = 0.0
    place = 0
    while bits:
        if bits & 1:
            cost += prices[place]
        bits >>= 1
        place += 1
    return cost


@njit(cache=True)
def lower_bound(
    label: Integers,
    ways: Integers,
    cheapest: Floats,
    masks: Integers,
    weights: Floats,
    processing: Floats,
    prices: Floats,
    ceiling: float,
) -> float:
    """What all sets cost at least, given a forest; ends early above ``ceiling``.

    ``label`` is the part of each vertex (its least vertex), ``ways[u, v, 0]`` and ``[u, v, 1]``
    the vertices and links between two of one part, ``cheapest`` each part's least way out.
    """
    count = len(label)
    total = 0.0
    first = np.empty(count, np.int64)
    for s in range(len(masks)):
        first[:] = -1
        brokers = 0
        links = 0
        leaving = 0.0
        least = np.inf
        for v in range(count):
            if not masks[s] >> v & 1:
                continue
            part = label[v]
            if first[part] < 0:
                first[part] = v
                leaving += cheapest[part]
                least = min(least, cheapest[part])
            brokers |= ways[first[part], v, 0]
            links |= ways[first[part], v, 1]
        cost = _bits_cost(brokers, processing) + _bits_cost(links, prices)
        if leaving > least:
            # Seen from the part that is cheapest to leave, every other part has a way in.
            cost += leaving - least
        total += float(weights[s]) * cost
        if total >= ceiling:
            return total
    return total


@njit(cache=True)
def join(
    link: int,
    a: int,
    b: int,
    label: Integers,
    ways: Integers,
    new_label: Integers,
    new_ways: Integers,
) -> None:
    """The forest with one link more."""
    new_label[:] = label
    new_ways[:] = ways
    low, high = min(label[a], label[b]), max(label[a], label[b])
    for u in range(len(label)):
        if label[u] != label[a]:
            continue
        for v in range(len(label)):
            if label[v] != label[b]:
                continue
            for kind in range(2):
                way = ways[u, a, kind] | ways[b, v, kind]
                if kind == 1:
                    way |= 1 << link
                new_ways[u, v, kind] = way
                new_ways[v, u, kind] = way
    for v in range(len(label)):
        if new_label[v] == high:
            new_label[v] = low


@njit(cache=True)
def ways_out(
    decided: int, ends: Integers, prices: Floats, label: Integers, cheapest: Floats
) -> bool:
    """Each part's cheapest undecided link to another; whether a tree can still come of it."""
    count = len(label)
    cheapest[:] = np.inf
    joined = label.copy()
    parts = 0
    for v in range(count):
        parts += label[v] == v
    for e in range(decided, len(ends)):
        a, b = label[ends[e, 0]], label[ends[e, 1]]
        if a == b:
            continue
        cheapest[a] = min(cheapest[a], prices[e])
        cheapest[b] = min(cheapest[b], prices[e])
        one, other = joined[a], joined[b]
        if one != other:
            parts -= 1
            for v in range(count):
                if joined[v] == other:
                    joined[v] = one
    if parts == 1:
        for v in range(count):
            if not np.isfinite(cheapest[v]):
                cheapest[v] = 0.0
    return parts == 1

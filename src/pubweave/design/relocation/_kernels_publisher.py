"""Kernels of a publisher's relocation; naive twins in ``tests/naive/relocation.py``. Arrays only.

Vertices are laid out level by level from the publisher's: what hangs from one vertex is then one
run of places, behind it, and a pass over places is a pass down the tree (or, from the end, up).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from pubweave.design.tree._kernels_tree import Floats, Integers, row_starts

Words = npt.NDArray[np.uint64]


@njit(cache=True)
def lay_out(
    edges: Integers,
    hop_ms: Floats,
    root: int,
    order: Integers,
    above: Integers,
    first: Integers,
    down_ms: Floats,
    up_ms: Floats,
) -> int:
    """Vertices by level, and by place: the place above, the first place below, delays both ways.

    ``hop_ms[e, 0]`` is the delay from ``edges[e, 0]`` to ``edges[e, 1]``, ``hop_ms[e, 1]`` back.
    Returns how many vertices were reached.
    """
    count = len(order)
    starts = row_starts(edges, count)
    fill = starts[:count].copy()
    sides = np.empty(2 * len(edges), np.int32)
    for e in range(len(edges)):
        for side in range(2):
            v = edges[e, side]
            sides[fill[v]] = 2 * e + side
            fill[v] += 1
    came_by = np.full(count, -1, np.int32)
    order[0] = root
    above[0] = -1
    reached = 1
    for place in range(count):
        if place >= reached:
            return reached
        v = order[place]
        first[place] = reached
        for slot in range(starts[v], starts[v + 1]):
            e, side = sides[slot] >> 1, sides[slot] & 1
            if e == came_by[place]:
                continue
            if reached == count:
                return count + 1  # more edges than a tree has
            far = edges[e, 1 - side]
            came_by[reached] = e
            order[reached] = far
            above[reached] = place
            down_ms[reached] = hop_ms[e, side]
            up_ms[reached] = hop_ms[e, 1 - side]
            reached += 1
    first[count] = reached
    return reached


@njit(cache=True)
def delay_sums(
    order: Integers,
    above: Integers,
    down_ms: Floats,
    up_ms: Floats,
    client_ms: Floats,
    deliveries: Floats,
    sums: Floats,
) -> None:
    """GRAPE Algorithm 1 for every vertex as the publisher's: the delays of all deliveries, added.

    S(c) = S(p) + up(c) * (total - sub(c)) - down(c) * sub(c): to go one hop down from p, every
    delivery below c loses the way down, and all others gain the way up.
    """
    count = len(order)
    below = np.empty(count)
    way_ms = np.zeros(count)
    root_sum = 0.0
    for place in range(count):
        v = order[place]
        below[place] = deliveries[v]
        if place > 0:
            way_ms[place] = way_ms[above[place]] + down_ms[place]
        root_sum += deliveries[v] * (way_ms[place] + client_ms[v])
    for place in range(count - 1, 0, -1):
        below[above[place]] += below[place]
    way_ms[0] = root_sum
    sums[order[0]] = root_sum
    for place in range(1, count):
        moved = up_ms[place] * (below[0] - below[place]) - down_ms[place] * below[place]
        way_ms[place] = way_ms[above[place]] + moved
        sums[order[place]] = way_ms[place]


@njit(cache=True)
def _ones(word: np.uint64) -> np.int64:
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    low = word & np.uint64(0x3333333333333333)
    word = low + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True)
def message_sums(
    order: Integers, above: Integers, first: Integers, bits: Words, sums: Integers
) -> None:
    """GRAPE Algorithm 2 for every vertex as the publisher's: messages at all vertices, added.

    R(c) = R(p) + |OR outside c| - |OR inside c|: seen from c, only p and c themselves change
    sides. Words of the vectors are taken one by one, since their counts add up. What is outside
    a vertex is outside the one above it, that one's own, or inside its siblings: an OR of those
    before it and those behind it.
    """
    count = len(order)
    inside = np.empty(count, np.uint64)
    outside = np.empty(count, np.uint64)
    own = np.empty(count, np.uint64)
    moved = np.zeros(count, np.int64)
    root_sum = np.int64(0)
    for word in range(bits.shape[1]):
        for place in range(count):
            own[place] = inside[place] = bits[order[place], word]
        for place in range(count - 1, 0, -1):
            inside[above[place]] |= inside[place]
        outside[0] = 0
        for place in range(count):
            root_sum += _ones(inside[place])
            seen = np.uint64(0)
            for below in range(first[place + 1] - 1, first[place] - 1, -1):
                outside[below] = seen
                seen |= inside[below]
            seen = outside[place] | own[place]
            for below in range(first[place], first[place + 1]):
                outside[below] |= seen
                seen |= inside[below]
                moved[below] += _ones(outside[below]) - _ones(inside[below])
    moved[0] = root_sum
    sums[order[0]] = root_sum
    for place in range(1, count):
        moved[place] += moved[above[place]]
        sums[order[place]] = moved[place]

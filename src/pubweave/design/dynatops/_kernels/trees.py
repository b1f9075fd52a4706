"""Kernels of topic trees; naive twins in ``tests/naive/dynatops.py``. Arrays only.

Greedy routes from one root never pass their end, so the routes to all positions form a tree, and
the positions below one are a run of the ring. Clockwise from the root, a parent comes before its
children: one pass over the ring is a pass down the tree; against the clock, up.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]
Flags = npt.NDArray[np.uint8]


@njit(cache=True)
def grow_tree(fingers: Indices, root: int, parents: Indices, depths: Indices) -> None:
    """The parent and the depth of every position; the root is its own parent. O(n log n)."""
    count = len(fingers)
    ends = np.empty(count, np.int64)
    ends[root] = count
    parents[root], depths[root] = root, 0
    for offset in range(count):
        v = root + offset if root + offset < count else root + offset - count
        # A later finger ends what the one before is responsible for.
        last = -1
        for k in range(fingers.shape[1]):
            ahead = fingers[v, k] - v
            if ahead < 0:
                ahead += count
            if ahead == 0 or offset + ahead >= ends[v]:
                continue
            child = fingers[v, k]
            if child == last:
                continue
            if last >= 0:
                ends[last] = offset + ahead
            ends[child] = ends[v]
            parents[child], depths[child] = v, depths[v] + 1
            last = child


@njit(cache=True)
def grow_trees(fingers: Indices, roots: Integers, parents: Indices, depths: Indices) -> None:
    """One row for each of the roots."""
    for row in range(len(roots)):
        grow_tree(fingers, roots[row], parents[row], depths[row])


@njit(cache=True)
def count_below(
    parents: Indices,
    roots: Integers,
    row_of: Integers,
    starts: Integers,
    topics: Indices,
    position_of: Integers,
    here: Flags,
    below: Indices,
) -> None:
    """By topic and position: is a subscriber there, and how many are there and below."""
    count = len(position_of)
    for b in range(count):
        for slot in range(starts[b], starts[b + 1]):
            here[topics[slot], position_of[b]] = 1
            below[topics[slot], position_of[b]] = 1
    for p in range(len(row_of)):
        row, root = row_of[p], roots[row_of[p]]
        for offset in range(count - 1, 0, -1):
            v = root + offset if root + offset < count else root + offset - count
            below[p, parents[row, v]] += below[p, v]


@njit(cache=True)
def charge(
    roots: Integers,
    row_of: Integers,
    depths: Indices,
    publications: Floats,
    here: Flags,
    below: Indices,
    relayed: Floats,
    delayed: Floats,
) -> None:
    """Eqs. 10 and 11 by position: what it relays unasked, and how far its own come."""
    for p in range(len(row_of)):
        root = roots[row_of[p]]
        for v in range(here.shape[1]):
            if here[p, v]:
                delayed[v] += publications[p] * depths[row_of[p], v]
            elif below[p, v] and v != root:
                relayed[v] += publications[p]


@njit(cache=True)
def relay_changes(
    parents: Indices,
    roots: Integers,
    row_of: Integers,
    publications: Floats,
    here: Flags,
    below: Indices,
    changes: Floats,
) -> None:
    """By topic and position: what a subscriber more there would change of the relay overhead."""
    count = here.shape[1]
    added = np.zeros(count, np.int64)
    for p in range(len(row_of)):
        row, root = row_of[p], roots[row_of[p]]
        added[root] = 0
        changes[p, root] = 0.0
        for offset in range(1, count):
            v = root + offset if root + offset < count else root + offset - count
            added[v] = 0 if below[p, v] else added[parents[row, v]] + 1
            # On a new way it is no relay itself; on an old one it was, unless it is one more here.
            change = 0 if here[p, v] else added[v] - 1
            changes[p, v] = publications[p] * change

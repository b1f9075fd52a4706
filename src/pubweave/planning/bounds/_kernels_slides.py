"""Kernels that list the legal slides between the positions of a token; arrays only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@njit(cache=True)
def slides(here: Ints, then: Ints, pivots: Flags, frozen: Flags) -> Ints:
    """Rows (before, after, w, u, v): position (w, u) may become (w, v) over the pivot (u, v)."""
    count = here.shape[0]
    total = 0
    for fill in range(2):
        if fill:
            out = np.empty((total, 5), dtype=np.int32)
        total = 0
        for u in range(count):
            for v in range(count):
                if not pivots[u, v]:
                    continue
                for w in range(count):
                    if here[w, u] and then[w, v] and not frozen[w, u]:
                        if fill:
                            out[total, 0] = here[w, u]
                            out[total, 1] = then[w, v]
                            out[total, 2] = w
                            out[total, 3] = u
                            out[total, 4] = v
                        total += 1
    return out


@njit(cache=True)
def unordered(found: Ints, later: Ints, kept: Flags, blocked: Flags) -> Ints:
    """Clauses (-a, -b, -c) against needless or unsorted pairs of consecutive slides.

    ``found`` are a token's slides along kept links in a step, ``later`` its positions two states
    on. Needless: back where it was. Unsorted: the other end follows along a kept link (w, x) with
    a smaller number than (u, v), though it could have gone first, over (x, u).
    """
    count = later.shape[0]
    total = 0
    for fill in range(2):
        if fill:
            out = np.empty((total, 3), dtype=np.int32)
        total = 0
        for row in range(len(found)):
            w, u, v = found[row, 2], found[row, 3], found[row, 4]
            for x in range(count):
                if x == w:
                    last = later[w, u]
                elif kept[w, x] and x != u and not blocked[x, u]:
                    if min(u, v) * count + max(u, v) < min(w, x) * count + max(w, x):
                        continue
                    last = later[x, v]
                else:
                    continue
                if last and not blocked[w, v]:
                    if fill:
                        out[total, 0] = -found[row, 0]
                        out[total, 1] = -found[row, 1]
                        out[total, 2] = -last
                    total += 1
    return out


# Fewest moves of a token between positions, and the cheapest pairing; arrays only.


Moves = npt.NDArray[np.int32]

FAR = np.int32(1 << 20)


@njit(cache=True)
def moves_forward(before: Moves, pivots: Flags, alive: Flags, frozen: Flags, after: Moves) -> None:
    """``after``: fewest moves to each position one step on, from ``before``."""
    count = before.shape[0]
    for w in range(count):
        for v in range(count):
            after[w, v] = before[w, v] if alive[w, v] else FAR
    for u in range(count):
        for v in range(count):
            if pivots[u, v]:
                for w in range(count):
                    if alive[w, v] and before[w, u] < FAR and not frozen[w, u]:
                        cost = before[w, u] + 1
                        if cost < after[w, v]:
                            after[w, v] = cost
                            after[v, w] = cost


@njit(cache=True)
def moves_backward(after: Moves, pivots: Flags, alive: Flags, frozen: Flags, before: Moves) -> None:
    """``before``: least cost to come from each position, given that of one step on."""
    count = before.shape[0]
    for w in range(count):
        for u in range(count):
            before[w, u] = after[w, u] if alive[w, u] else FAR
    for u in range(count):
        for v in range(count):
            if pivots[u, v]:
                for w in range(count):
                    if alive[w, u] and after[w, v] < FAR and not frozen[w, u]:
                        cost = after[w, v] + 1
                        if cost < before[w, u]:
                            before[w, u] = cost
                            before[u, w] = cost


@njit(cache=True)
def cheapest_pairing(cost: Moves) -> tuple[int, Moves, Moves]:
    """The least total of a perfect matching and the dual prices of rows and columns.

    Shortest augmenting paths, O(n^3). cost[r, c] >= row[r] + column[c], with equality in the
    matching; the total is FAR or more where there is none.
    """
    size = len(cost)
    row = np.zeros(size + 1, np.int32)
    column = np.zeros(size + 1, np.int32)
    match = np.zeros(size + 1, np.int64)
    back = np.zeros(size + 1, np.int64)
    for r in range(1, size + 1):
        match[0] = r
        at = 0
        least = np.full(size + 1, 2 * FAR, np.int32)
        used = np.zeros(size + 1, np.bool_)
        while True:
            used[at] = True
            here = match[at]
            delta = np.int32(2 * FAR)
            following = 0
            for c in range(1, size + 1):
                if used[c]:
                    continue
                reduced = cost[here - 1, c - 1] - row[here] - column[c]
                if reduced < least[c]:
                    least[c] = reduced
                    back[c] = at
                if least[c] < delta:
                    delta = least[c]
                    following = c
            for c in range(size + 1):
                if used[c]:
                    row[match[c]] += delta
                    column[c] -= delta
                else:
                    least[c] -= delta
            at = following
            if match[at] == 0:
                break
        while at:
            match[at] = match[back[at]]
            at = back[at]
    total = 0
    for c in range(1, size + 1):
        total += cost[match[c] - 1, c - 1]
    return total, row[1:].copy(), column[1:].copy()

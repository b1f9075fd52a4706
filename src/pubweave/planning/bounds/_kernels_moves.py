"""Fewest moves of a token between positions, and the cheapest pairing; arrays only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Moves = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

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

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

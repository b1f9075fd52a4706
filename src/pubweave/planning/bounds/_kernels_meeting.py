"""Kernels for the instant at which tokens change their names; ``pairs`` as in `_kernels_pairs`.

What one layer knows of two tokens it can tell the other layer of the same instant only of two
links, whichever tokens lie on them. Bits are gathered in rows and turned by blocks, never one by
one: the layers at the meeting are the largest of all.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pubweave.planning.bounds._kernels_bits import transpose
from pubweave.planning.bounds._kernels_reach import Bits
from pubweave.planning.bounds._kernels_slides import Ints


@njit(cache=True)
def project(pairs: Bits, counts: Ints, names: Ints, size: int) -> Bits:
    """Which two links can have tokens at once, whichever tokens; ``names`` are numbers of links,
    negative for those that are of no interest."""
    tokens = len(counts)
    out = np.zeros((size, (size + 63) >> 6), dtype=np.uint64)
    for p in range(tokens):
        words = (counts[p] + 63) >> 6
        # First for each link what goes together with any token there, in the numbers of p.
        found = np.zeros((size, words), dtype=np.uint64)
        for m in range(tokens):
            for e in range(counts[m] if m != p else 0):
                for w in range(words if names[m, e] >= 0 else 0):
                    found[names[m, e], w] |= pairs[m, p, e, w]
        turned = np.zeros((counts[p], out.shape[1]), dtype=np.uint64)
        transpose(found, size, counts[p], turned)
        for f in range(counts[p]):
            for w in range(out.shape[1] if names[p, f] >= 0 else 0):
                out[names[p, f], w] |= turned[f, w]
    return out


@njit(cache=True)
def restrict(pairs: Bits, counts: Ints, names: Ints, together: Bits) -> None:
    """Drop pairs on two links that cannot have tokens at once."""
    tokens = len(counts)
    for p in range(tokens):
        words = (counts[p] + 63) >> 6
        rows = together[names[p, : counts[p]]]
        allowed = np.zeros((len(together), words), dtype=np.uint64)
        transpose(rows, counts[p], len(together), allowed)
        for m in range(tokens):
            for e in range(counts[m] if m != p else 0):
                for w in range(words):
                    pairs[m, p, e, w] &= allowed[names[m, e], w]

"""Bit-matrix kernels of the reachability bound; naive twins in ``tests/naive/reachability.py``.

A set of links is a symmetric bit matrix: row u, bit v. Arrays only, no names.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Bits = npt.NDArray[np.uint64]


# Without the interpreter lock: the bound of a large problem is proven beside the greedy.
@njit(cache=True, nogil=True)
def spread(positions: Bits, pivots: Bits, frozen: Bits, blocked: Bits, out: Bits) -> None:
    """Where a token may be after one step: out = positions and all their legal slides.

    Row w of ``positions`` holds the u of links (w, u); a slide moves u along a pivot (u, v). Links
    in ``frozen`` do not slide, links in ``blocked`` cannot come to be.
    """
    count, words = positions.shape
    one = np.uint64(1)
    out[:] = 0
    for w in range(count):
        for word in range(words):
            bits = positions[w, word] & ~frozen[w, word]
            while bits:
                low = bits & (~bits + one)
                u = word * 64 + _log2(low)
                bits ^= low
                for k in range(words):
                    out[w, k] |= pivots[u, k]
        out[w, w >> 6] &= ~(one << np.uint64(w & 63))
        for k in range(words):
            out[w, k] &= ~blocked[w, k]
    # Either end may be the one that stays.
    for w in range(count):
        for word in range(words):
            bits = out[w, word]
            while bits:
                low = bits & (~bits + one)
                u = word * 64 + _log2(low)
                bits ^= low
                out[u, w >> 6] |= one << np.uint64(w & 63)
    for w in range(count):
        for k in range(words):
            out[w, k] |= positions[w, k]


@njit(cache=True)
def _log2(bit: np.uint64) -> int:
    place = 0
    value = bit
    if value >> np.uint64(32):
        place += 32
        value >>= np.uint64(32)
    if value >> np.uint64(16):
        place += 16
        value >>= np.uint64(16)
    if value >> np.uint64(8):
        place += 8
        value >>= np.uint64(8)
    if value >> np.uint64(4):
        place += 4
        value >>= np.uint64(4)
    if value >> np.uint64(2):
        place += 2
        value >>= np.uint64(2)
    if value >> np.uint64(1):
        place += 1
    return place


@njit(cache=True)
def others_pivots(here: Bits, then: Bits, kept: Bits, out: Bits) -> None:
    """For each token, the links that are kept or on which another token may rest in this step.

    A pivot is present before the step and not deleted in it: a token is on it at both instants.
    """
    tokens, count, words = here.shape
    once = np.zeros((count, words), dtype=np.uint64)
    twice = np.zeros((count, words), dtype=np.uint64)
    for m in range(tokens):
        for w in range(count):
            for k in range(words):
                rests = here[m, w, k] & then[m, w, k]
                twice[w, k] |= once[w, k] & rests
                once[w, k] |= rests
    for m in range(tokens):
        for w in range(count):
            for k in range(words):
                rests = here[m, w, k] & then[m, w, k]
                out[m, w, k] = kept[w, k] | (once[w, k] & ~rests) | twice[w, k]

"""Kernels of the reachability bound and of legal slides; naive twin in
``tests/naive/reachability.py``.

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


# Single bits, transposing, and closing up columns.


ONE = np.uint64(1)
NONE = np.uint64(0)
_LEVELS = 6
_TRANSPOSE_MASKS = np.array(
    [
        0x00000000FFFFFFFF,
        0x0000FFFF0000FFFF,
        0x00FF00FF00FF00FF,
        0x0F0F0F0F0F0F0F0F,
        0x3333333333333333,
        0x5555555555555555,
    ],
    dtype=np.uint64,
)


@njit(cache=True)
def has_bit(row: Bits, place: int) -> bool:
    return bool((row[place >> 6] >> np.uint64(place & 63)) & ONE)


@njit(cache=True)
def set_bit(row: Bits, place: int) -> None:
    row[place >> 6] |= ONE << np.uint64(place & 63)


@njit(cache=True)
def bit_count(word: np.uint64) -> int:
    """The number of bits set, by adding up halves of ever larger fields."""
    word = word - ((word >> ONE) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True)
def _transpose_block(block: Bits) -> None:
    """A 64 x 64 bit matrix in place: swap halves, quarters, and so on down to single bits."""
    width = 32
    for level in range(_LEVELS):
        mask = _TRANSPOSE_MASKS[level]
        shift = np.uint64(width)
        row = 0
        while row < 64:
            swapped = ((block[row] >> shift) ^ block[row + width]) & mask
            block[row] ^= swapped << shift
            block[row + width] ^= swapped
            row += 1
            if row & width:
                row += width
        width >>= 1


@njit(cache=True)
def transpose(rows: Bits, row_count: int, column_count: int, out: Bits) -> None:
    """``out`` gets the columns of a bit matrix as rows; both may have room to spare."""
    block = np.empty(64, dtype=np.uint64)
    for first in range(0, row_count, 64):
        for word in range((column_count + 63) >> 6):
            anything = NONE
            for k in range(64):
                block[k] = rows[first + k, word] if first + k < row_count else NONE
                anything |= block[k]
            if anything:
                _transpose_block(block)
            for k in range(min(64, column_count - 64 * word)):
                out[64 * word + k, first >> 6] = block[k]


@njit(cache=True)
def closing_moves(kept: npt.NDArray[np.bool_]) -> Bits:
    """How to push the kept columns of a row together: for each word its kept bits, the moves by
    1, 2, 4 .. 32 places to the right, and how many kept bits come before the word."""
    words = (len(kept) + 63) >> 6
    out = np.zeros((words, _LEVELS + 2), dtype=np.uint64)
    before = 0
    for word in range(words):
        mask = NONE
        for k in range(min(64, len(kept) - 64 * word)):
            if kept[64 * word + k]:
                mask |= ONE << np.uint64(k)
        out[word, 0] = mask
        out[word, _LEVELS + 1] = np.uint64(before)
        before += bit_count(mask)
        # Each bit moves by the number of dropped bits below it, one binary digit at a time.
        dropped = ~mask << ONE
        for level in range(_LEVELS):
            parity = dropped ^ (dropped << ONE)
            for shift in (2, 4, 8, 16, 32):
                parity ^= parity << np.uint64(shift)
            moved = parity & mask
            out[word, 1 + level] = moved
            mask = (mask ^ moved) | (moved >> (ONE << np.uint64(level)))
            dropped &= ~parity
    return out


@njit(cache=True)
def close_up(row: Bits, moves: Bits, out: Bits) -> None:
    """``out``, all zeros before, gets the kept columns of ``row`` one beside the other."""
    for word in range(len(moves)):
        bits = row[word] & moves[word, 0]
        if not bits:
            continue
        for level in range(_LEVELS):
            moved = bits & moves[word, 1 + level]
            bits = (bits ^ moved) | (moved >> (ONE << np.uint64(level)))
        first = moves[word, _LEVELS + 1]
        shift = first & np.uint64(63)
        place = first >> np.uint64(6)
        out[place] |= bits << shift
        # Bits that do not fit go to the next word; a shift by 64 would not be one by 0.
        over = (bits >> ONE) >> (np.uint64(63) - shift)
        if over:
            out[place + ONE] |= over


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

"""Kernels for pairs of tokens: which two positions can be taken at the same instant.

``pairs[m, p]`` of an instant is a bit matrix: row e, bit f says that token m on its position e and
token p on its position f are not known to exclude each other. Rows are 64-bit words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from pubweave.planning._kernels_model import Ints
from pubweave.planning._kernels_reach import Bits

KEPT = 63
"""The bit of a slide's carriers that says: along a kept link, nobody has to carry it."""
_PRECISE_CARRIERS = 2
_ONE = np.uint64(1)
_NONE = np.uint64(0)
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
def _has(row: Bits, place: int) -> bool:
    return bool((row[place >> 6] >> np.uint64(place & 63)) & _ONE)


@njit(cache=True)
def _set(row: Bits, place: int) -> None:
    row[place >> 6] |= _ONE << np.uint64(place & 63)


@njit(cache=True)
def _transpose_block(block: Bits) -> None:
    """A 64 x 64 bit matrix in place: swap halves, quarters, and so on down to single bits."""
    width = 32
    for level in range(6):
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
            anything = _NONE
            for k in range(64):
                block[k] = rows[first + k, word] if first + k < row_count else _NONE
                anything |= block[k]
            if anything:
                _transpose_block(block)
            for k in range(min(64, column_count - 64 * word)):
                out[64 * word + k, first >> 6] = block[k]


@njit(cache=True)
def carriers(
    slides: Ints,
    token: int,
    kept: npt.NDArray[np.bool_],
    here: Ints,
    then: Ints,
    pairs_here: Bits,
    pairs_then: Bits,
    then_known: bool,
    out: Bits,
) -> None:
    """For each slide of a token, as bits, who may rest under it without excluding it.

    ``pairs_here[q]`` and ``pairs_then[q]`` are this token's rows against token q, ``here[q, u, v]``
    and ``then[q, u, v]`` where q has link (u, v) among its positions, or -1."""
    for row in range(len(slides)):
        before, after, u, v = slides[row]
        mask = _NONE
        if kept[u, v]:
            mask = _ONE << np.uint64(KEPT)
        else:
            for q in range(len(here)):
                old, new = here[q, u, v], then[q, u, v]
                if q == token or old < 0 or new < 0:
                    continue
                if not _has(pairs_here[q, before], old):
                    continue
                if then_known and not _has(pairs_then[q, after], new):
                    continue
                mask |= _ONE << np.uint64(q)
        out[row] = mask


@njit(cache=True)
def _count(mask: np.uint64) -> int:
    count = 0
    while mask:
        mask &= mask - _ONE
        count += 1
    return count


@njit(cache=True)
def _together(
    mask: np.uint64, apart: tuple[int, int], u: int, v: int, places: Ints, others: Bits, out: Bits
) -> None:
    """The columns that go together with a carrier on (u, v): of ``mask``, or anyone if it is 0."""
    out[:] = _NONE
    for q in range(len(places)):
        g = places[q, u, v]
        if g < 0 or q == apart[0] or q == apart[1]:
            continue
        if not mask or (mask >> np.uint64(q)) & _ONE:
            for w in range(len(out)):
                out[w] |= others[q, g, w]


@njit(cache=True)
def _slide_rows(
    moved: Bits,
    base: Bits,
    slides: Ints,
    masks: Bits,
    apart: tuple[int, int],
    places: Ints,
    others: Bits,
) -> None:
    """Rows of ``base`` go where the slides lead, as far as somebody can carry them.

    ``others[q, g]`` are the columns that go together with token q on its position g. With many
    possible carriers, what goes together with any of them is taken once for all slides along the
    same link (slides come ordered by it): a little weaker, far quicker."""
    words = base.shape[1]
    anyone = np.empty(words, dtype=np.uint64)
    few = np.empty(words, dtype=np.uint64)
    last_u, last_v = -1, -1
    outside = ~(_ONE << np.uint64(apart[1]))
    for row in range(len(slides)):
        mask = masks[row] & outside
        if not mask:
            continue
        before, after, u, v = slides[row]
        if mask >> np.uint64(KEPT):
            for w in range(words):
                moved[after, w] |= base[before, w]
            continue
        if _count(mask) <= _PRECISE_CARRIERS:
            _together(mask, apart, u, v, places, others, few)
            for w in range(words):
                moved[after, w] |= base[before, w] & few[w]
            continue
        if u != last_u or v != last_v:
            last_u, last_v = u, v
            _together(_NONE, apart, u, v, places, others, anyone)
        for w in range(words):
            moved[after, w] |= base[before, w] & anyone[w]


@njit(cache=True)
def _over_each_other(
    out: Bits,
    base: Bits,
    slides: Ints,
    masks: Bits,
    other: int,
    other_here: Ints,
    other_then: Ints,
    flipped: bool,
) -> None:
    """Slides of one token along the link on which the other rests."""
    for row in range(len(slides)):
        if not (masks[row] >> np.uint64(other)) & _ONE:
            continue
        before, after, u, v = slides[row]
        old, new = other_here[u, v], other_then[u, v]
        if old < 0 or new < 0:
            continue
        if flipped:
            if _has(base[old], before):
                _set(out[after], new)
        elif _has(base[before], old):
            _set(out[new], after)


@njit(cache=True)
def advance(
    pair: tuple[int, int],
    sizes: tuple[int, int, int, int],
    slides: tuple[Ints, Ints],
    masks: tuple[Bits, Bits],
    stays: tuple[Ints, Ints],
    places_here: Ints,
    places_then: Ints,
    pairs_here: Bits,
    pairs_then: Bits,
) -> None:
    """Drop what tokens m and p cannot both have reached one step on: O(slides x positions / 64).

    First m moves (rows), then p (columns); or one of them moves along the other. ``sizes`` are the
    numbers of positions of m and p here, and of m and p then."""
    m, p = pair
    here_m, here_p, then_m, then_p = sizes
    words_p, words_m = (here_p + 63) >> 6, (then_m + 63) >> 6
    base = pairs_here[m, p, :here_m, :words_p]
    moved = np.zeros((then_m, words_p), dtype=np.uint64)
    for e in range(here_m):
        if stays[0][e] >= 0:
            moved[stays[0][e]] |= base[e]
    _slide_rows(
        moved, base, slides[0], masks[0], (m, p), places_here, pairs_here[:, p, :, :words_p]
    )
    turned = np.zeros((here_p, words_m), dtype=np.uint64)
    transpose(moved, then_m, here_p, turned)
    both = np.zeros((then_p, words_m), dtype=np.uint64)
    for f in range(here_p):
        if stays[1][f] >= 0:
            both[stays[1][f]] |= turned[f]
    _slide_rows(
        both, turned, slides[1], masks[1], (p, m), places_then, pairs_then[:, m, :, :words_m]
    )
    _over_each_other(both, base, slides[0], masks[0], p, places_here[p], places_then[p], False)
    _over_each_other(both, base, slides[1], masks[1], m, places_here[m], places_then[m], True)
    found = pairs_then[p, m, :then_p, :words_m]
    for f in range(then_p):
        for w in range(words_m):
            found[f, w] &= both[f, w]
    transpose(found, then_p, then_m, pairs_then[m, p])


@njit(cache=True)
def forbid_same_parts(rows: Bits, codes: Ints, other_codes: Ints) -> None:
    """Two links between the same two parts of the kept forest would close a cycle."""
    order = np.argsort(other_codes)
    ordered = other_codes[order]
    for e in range(len(codes)):
        first = np.searchsorted(ordered, codes[e])
        while first < len(ordered) and ordered[first] == codes[e]:
            f = order[first]
            rows[e, f >> 6] &= ~(_ONE << np.uint64(f & 63))
            first += 1


@njit(cache=True)
def drop_lonely(pairs: Bits, counts: Ints, alive: npt.NDArray[np.bool_]) -> bool:
    """A position that goes together with no position of some token is dead; False if all are."""
    tokens, words = len(counts), pairs.shape[3]
    changed = True
    while changed:
        changed = False
        for m in range(tokens):
            left = 0
            for e in range(counts[m]):
                if not alive[m, e]:
                    continue
                for p in range(tokens):
                    if p != m and not pairs[m, p, e].any():
                        alive[m, e] = False
                        break
                if alive[m, e]:
                    left += 1
                    continue
                changed = True
                for p in range(tokens):
                    for w in range(words):
                        pairs[m, p, e, w] = _NONE
                    for f in range(counts[p]):
                        pairs[p, m, f, e >> 6] &= ~(_ONE << np.uint64(e & 63))
            if not left:
                return False
    return True

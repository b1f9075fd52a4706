"""Kernels for pairs of tokens: which two positions can be taken at the same instant.

``pairs[m, p]`` of an instant is a bit matrix: row e, bit f says that token m on its position e and
token p on its position f are not known to exclude each other. ``places[m, u, v]`` is the number
of link (u, v) among the positions of token m, or -1. The slides of a step are rows (before, after,
w, u, v) in the order of their pivots (u, v), token after token, those of m from ``first[m]`` on.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from pubweave.planning.bounds._kernels_reach import (
    NONE,
    ONE,
    Bits,
    Flags,
    Ints,
    bit_count,
    close_up,
    closing_moves,
    has_bit,
    set_bit,
    transpose,
)

KEPT = 63
"""The bit of a slide's carriers that says: along a kept link, nobody has to carry it."""
_PRECISE_CARRIERS = 2
_ALL = ~np.uint64(0)
_Places = npt.NDArray[np.int64]


@njit(cache=True)
def carriers(
    slides: Ints,
    first: _Places,
    kept: Flags,
    here: Ints,
    then: Ints,
    pairs_here: Bits,
    pairs_then: Bits,
) -> Bits:
    """For each slide, as bits, which tokens may rest under it without excluding it."""
    out = np.zeros(len(slides), dtype=np.uint64)
    tokens = len(first) - 1
    for m in range(tokens):
        for row in range(first[m], first[m + 1]):
            before, after, u, v = slides[row, 0], slides[row, 1], slides[row, 3], slides[row, 4]
            if kept[u, v]:
                out[row] = ONE << np.uint64(KEPT)
                continue
            mask = NONE
            for q in range(tokens):
                old, new = here[q, u, v], then[q, u, v]
                if q == m or old < 0 or new < 0:
                    continue
                if not has_bit(pairs_here[m, q, before], old):
                    continue
                if not has_bit(pairs_then[m, q, after], new):
                    continue
                mask |= ONE << np.uint64(q)
            out[row] = mask
    return out


@njit(cache=True)
def _together(
    mask: np.uint64, tokens: tuple[int, int], u: int, v: int, places: Ints, pairs: Bits, out: Bits
) -> None:
    """The positions of ``tokens[1]`` that go together with a carrier of ``mask`` on (u, v)."""
    out[:] = NONE
    for q in range(len(places)):
        if (mask >> np.uint64(q)) & ONE and q != tokens[0] and q != tokens[1]:
            g = places[q, u, v]
            if g >= 0:
                for w in range(len(out)):
                    out[w] |= pairs[q, tokens[1], g, w]


@njit(cache=True)
def _slide_rows(
    moved: Bits,
    base: Bits,
    slides: Ints,
    first: _Places,
    masks: Bits,
    tokens: tuple[int, int],
    places: Ints,
    pairs: Bits,
) -> None:
    """Rows of ``base`` go where the slides of ``tokens[0]`` lead, as far as somebody carries them.

    Columns are positions of ``tokens[1]``. With many possible carriers, what goes together with any
    token on the pivot is taken once for all slides along it: a little weaker, far quicker."""
    words = base.shape[1]
    carried = np.empty(words, dtype=np.uint64)
    last_u, last_v, last_mask = -1, -1, NONE
    outside = ~(ONE << np.uint64(tokens[1]))
    for row in range(first[tokens[0]], first[tokens[0] + 1]):
        mask = masks[row] & outside
        if not mask:
            continue
        before, after = np.uint64(slides[row, 0]), np.uint64(slides[row, 1])
        if mask >> np.uint64(KEPT):
            for w in range(words):
                moved[after, w] |= base[before, w]
            continue
        if bit_count(mask) > _PRECISE_CARRIERS:
            mask = _ALL
        u, v = slides[row, 3], slides[row, 4]
        if u != last_u or v != last_v or mask != last_mask:
            last_u, last_v, last_mask = u, v, mask
            _together(mask, tokens, u, v, places, pairs, carried)
        for w in range(words):
            moved[after, w] |= base[before, w] & carried[w]


@njit(cache=True)
def _over_each_other(
    out: Bits,
    base: Bits,
    slides: Ints,
    first: _Places,
    masks: Bits,
    tokens: tuple[int, int],
    here: Ints,
    then: Ints,
    flipped: bool,
) -> None:
    """Slides of ``tokens[0]`` along the link on which ``tokens[1]`` rests."""
    other = tokens[1]
    for row in range(first[tokens[0]], first[tokens[0] + 1]):
        if not (masks[row] >> np.uint64(other)) & ONE:
            continue
        before, after, u, v = slides[row, 0], slides[row, 1], slides[row, 3], slides[row, 4]
        old, new = here[other, u, v], then[other, u, v]
        if old < 0 or new < 0:
            continue
        if flipped:
            if has_bit(base[old], before):
                set_bit(out[after], new)
        elif has_bit(base[before], old):
            set_bit(out[new], after)


@njit(cache=True)
def _stay_rows(out: Bits, base: Bits, stays: Ints) -> None:
    """Rows of ``base`` whose position is there one step on as well."""
    for e in range(len(base)):
        if stays[e] >= 0:
            for w in range(base.shape[1]):
                out[stays[e], w] |= base[e, w]


@njit(cache=True)
def advance(
    slides: Ints,
    first: _Places,
    masks: Bits,
    stays: Ints,
    counts_here: Ints,
    counts_then: Ints,
    places_here: Ints,
    places_then: Ints,
    pairs_here: Bits,
    pairs_then: Bits,
) -> None:
    """Drop what two tokens cannot both have reached one step on: O(slides x positions / 64).

    Of tokens m and p first m moves (rows), then p (columns); or one of them along the other."""
    for m in range(len(counts_here)):
        for p in range(m + 1, len(counts_here)):
            here_m, here_p = counts_here[m], counts_here[p]
            then_m, then_p = counts_then[m], counts_then[p]
            words_p, words_m = (here_p + 63) >> 6, (then_m + 63) >> 6
            base = pairs_here[m, p, :here_m, :words_p]
            moved = np.zeros((then_m, words_p), dtype=np.uint64)
            _stay_rows(moved, base, stays[m])
            _slide_rows(moved, base, slides, first, masks, (m, p), places_here, pairs_here)
            turned = np.zeros((here_p, words_m), dtype=np.uint64)
            transpose(moved, then_m, here_p, turned)
            both = np.zeros((then_p, words_m), dtype=np.uint64)
            _stay_rows(both, turned, stays[p])
            _slide_rows(both, turned, slides, first, masks, (p, m), places_then, pairs_then)
            around = (slides, first, masks)
            _over_each_other(both, base, *around, (m, p), places_here, places_then, False)
            _over_each_other(both, base, *around, (p, m), places_here, places_then, True)
            found = pairs_then[p, m]
            for f in range(then_p):
                for w in range(words_m):
                    found[f, w] &= both[f, w]
            transpose(found, then_p, then_m, pairs_then[m, p])


@njit(cache=True)
def open_pairs(counts: Ints, codes: Ints) -> Bits:
    """All pairs but those that join the same two parts of the kept forest, which close a cycle.

    ``codes[m, e]`` says which two parts position e of token m joins."""
    tokens, most = len(counts), counts.max()
    words = (most + 63) >> 6
    pairs = np.empty((tokens, tokens, most, words), dtype=np.uint64)
    joining = np.zeros((codes.max() + 1, words), dtype=np.uint64)
    full = np.zeros(words, dtype=np.uint64)
    for p in range(tokens):
        joining[:] = NONE
        full[:] = NONE
        for f in range(counts[p]):
            set_bit(joining[codes[p, f]], f)
            set_bit(full, f)
        for m in range(tokens):
            for e in range(counts[m]):
                for w in range(words):
                    pairs[m, p, e, w] = full[w] & ~joining[codes[m, e], w]
    return pairs


@njit(cache=True)
def _is_lonely(pairs: Bits, m: int, e: int) -> bool:
    """Whether position e of token m goes together with no position of some token."""
    for p in range(pairs.shape[1]):
        anything = NONE
        for w in range(pairs.shape[3] if p != m else 0):
            anything |= pairs[m, p, e, w]
        if p != m and not anything:
            return True
    return False


@njit(cache=True)
def _forget(pairs: Bits, counts: Ints, alive: Flags, m: int) -> bool:
    """Clear the bits of m's dead positions in the rows of the living; whether there were any."""
    mask = np.zeros(pairs.shape[3], dtype=np.uint64)
    for e in range(counts[m]):
        if alive[m, e]:
            set_bit(mask, e)
    changed = False
    for p in range(len(counts)):
        for f in range(counts[p] if p != m else 0):
            for w in range(len(mask) if alive[p, f] else 0):
                if pairs[p, m, f, w] & ~mask[w]:
                    pairs[p, m, f, w] &= mask[w]
                    changed = True
    return changed


@njit(cache=True)
def drop_lonely(pairs: Bits, counts: Ints, alive: Flags) -> bool:
    """A position that goes together with no position of some token is dead; False if all are."""
    changed = True
    while changed:
        changed = False
        for m in range(len(counts)):
            left = 0
            for e in range(counts[m]):
                if alive[m, e]:
                    alive[m, e] = not _is_lonely(pairs, m, e)
                left += alive[m, e]
            if not left:
                return False
            if left < counts[m] and _forget(pairs, counts, alive, m):
                changed = True
    return True


@njit(cache=True)
def shrink(pairs: Bits, counts: Ints, alive: Flags) -> Bits:
    """The rows and columns of the positions that are alive, close together."""
    tokens = len(counts)
    most = 1
    for m in range(tokens):
        most = max(most, alive[m, : counts[m]].sum())
    out = np.zeros((tokens, tokens, most, (most + 63) >> 6), dtype=np.uint64)
    for p in range(tokens):
        moves = closing_moves(alive[p, : counts[p]])
        for m in range(tokens):
            row = 0
            for e in range(counts[m] if m != p else 0):
                if alive[m, e]:
                    close_up(pairs[m, p, e], moves, out[m, p, row])
                    row += 1
    return out


@njit(cache=True)
def size_of(pairs: Bits, counts: Ints) -> int:
    """The number of pairs that are left."""
    total = 0
    for m in range(len(counts)):
        for p in range(m):
            for e in range(counts[m]):
                for w in range(pairs.shape[3]):
                    total += bit_count(pairs[m, p, e, w])
    return total


@njit(cache=True)
def exclusions(pairs: Bits, counts: Ints, first: _Places, out: Ints) -> int:
    """Fill ``out`` with rows of two positions that exclude each other; returns how many there are.

    Positions are numbered token after token, those of m from ``first[m]`` on. Rows that find no
    room are only counted."""
    total = 0
    for m in range(len(counts)):
        for p in range(m):
            for e in range(counts[m]):
                for f in range(counts[p]):
                    if not has_bit(pairs[m, p, e], f):
                        if total < len(out):
                            out[total, 0] = first[m] + e
                            out[total, 1] = first[p] + f
                        total += 1
    return total


# The instant at which tokens change their names.
#
# What one layer knows of two tokens it can tell the other layer of the same instant only of two
# links, whichever tokens lie on them. Bits are gathered in rows and turned by blocks, never one by
# one: the layers at the meeting are the largest of all.


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

"""Kernels of `region`: the plans within its positions as clauses; arrays only.

Clauses lie in one array, one after the other; ``ends`` says where each ends. Variable p + 1 says
that position p holds; the variables of pivots, of tokens that rest and of grids come after.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pubweave.planning._kernels_region import FIRM, NONE, Flags, Ints

_PAIRWISE_MAX = 5


@njit(cache=True)
def _close(flat: Ints, size: int, ends: Ints, count: int) -> int:
    ends[count] = size
    return count + 1


@njit(cache=True)
def at_most_one(
    first: int, last: int, top: int, flat: Ints, size: int, ends: Ints, count: int
) -> tuple[int, int, int]:
    """Of the variables first .. last - 1 one holds at most; (top variable, size, count) after.

    Pairwise for a few, else on a grid: row and column of the true variable are unique."""
    number = last - first
    if number > _PAIRWISE_MAX:
        width = int(np.ceil(np.sqrt(number)))
        lines = (number + width - 1) // width
        columns = top + 1
        top += width + lines
        for place in range(number):
            for other in (columns + place % width, columns + width + place // width):
                flat[size] = -(first + place)
                flat[size + 1] = other
                size += 2
                count = _close(flat, size, ends, count)
        for begin, stop in ((columns, columns + width), (columns + width, top + 1)):
            for one in range(begin, stop):
                for other in range(begin, one):
                    flat[size] = -one
                    flat[size + 1] = -other
                    size += 2
                    count = _close(flat, size, ends, count)
        return top, size, count
    for one in range(first, last):
        for other in range(first, one):
            flat[size] = -one
            flat[size + 1] = -other
            size += 2
            count = _close(flat, size, ends, count)
    return top, size, count


@njit(cache=True)
def somewhere_once(groups: Ints, top: int, flat: Ints, ends: Ints) -> tuple[int, int]:
    """Each token is somewhere, once: positions groups[g] .. groups[g + 1] - 1 are one token's.

    Returns the top variable and the number of clauses."""
    size, count = 0, 0
    for g in range(len(groups) - 1):
        for p in range(groups[g], groups[g + 1]):
            flat[size] = p + 1
            size += 1
        count = _close(flat, size, ends, count)
        top, size, count = at_most_one(
            groups[g] + 1, groups[g + 1] + 1, top, flat, size, ends, count
        )
    return top, count


@njit(cache=True)
def supported(order: Ints, sides: Ints, stay: Ints, is_edge: Flags, flat: Ints, ends: Ints) -> int:
    """Each position follows from where the token was, or leads to where it will be; how many.

    ``order`` sorts the slides, rows (position, neighbor), by position; positions of ``is_edge``
    have no neighbors to name."""
    size, count, s = 0, 0, 0
    for p in range(len(stay)):
        if is_edge[p]:
            continue
        flat[size] = -(p + 1)
        size += 1
        if stay[p] != NONE:
            flat[size] = stay[p] + 1
            size += 1
        while s < len(order) and sides[order[s], 0] == p:
            flat[size] = sides[order[s], 1] + 1
            size += 1
            s += 1
        count = _close(flat, size, ends, count)
    return count


@njit(cache=True)
def leaning(
    slides: Ints, stay: Ints, number: Ints, needed: Flags, top: int, flat: Ints, ends: Ints
) -> int:
    """A slide along a link that is not firm needs a token that rests there; how many clauses.

    ``number`` is each position's pivot, ``needed`` flags pivots on which someone must rest."""
    size, count = 0, 0
    rest = np.zeros(len(needed), np.int64)
    for pivot in range(len(needed)):
        if needed[pivot]:
            top += 1
            rest[pivot] = top
            flat[size] = top
            size += 1
            count = _close(flat, size, ends, count)
    for s in range(len(slides)):
        pivot = slides[s, 2]
        if pivot == FIRM:
            continue
        if not rest[pivot]:
            top += 1
            rest[pivot] = top
        flat[size], flat[size + 1] = -(slides[s, 0] + 1), -(slides[s, 1] + 1)
        flat[size + 2] = rest[pivot]
        size += 3
        count = _close(flat, size, ends, count)
    return _resting(stay, number, rest, (top, size, count), flat, ends)


@njit(cache=True)
def _resting(
    stay: Ints, number: Ints, rest: Ints, at: tuple[int, int, int], flat: Ints, ends: Ints
) -> int:
    """Whoever rests on a pivot is there before and after the step."""
    top, size, count = at
    order = np.argsort(number, kind="mergesort")
    open_pivot = NONE
    stays = top
    for p in order:
        pivot = number[p]
        if pivot == NONE or not rest[pivot]:
            continue
        stays += 1
        for holds in (p, stay[p]):
            flat[size], flat[size + 1] = -stays, holds + 1
            size += 2
            count = _close(flat, size, ends, count)
    stays = top
    for p in order:
        pivot = number[p]
        if pivot == NONE or not rest[pivot]:
            continue
        stays += 1
        if pivot != open_pivot:
            if open_pivot != NONE:
                count = _close(flat, size, ends, count)
            open_pivot = pivot
            flat[size] = -rest[pivot]
            size += 1
        flat[size] = stays
        size += 1
    if open_pivot != NONE:
        count = _close(flat, size, ends, count)
    return count

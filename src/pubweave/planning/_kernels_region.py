"""Kernels of `region`: where a few free tokens can be while all others keep to their tracks.

Arrays only. A position is a row (instant, token, u, v) with u < v, a slide a row (before, after,
pivot, own): position numbers, the number of the free tokens' pivot it leans on (FIRM where that is
a kept link or one that a held token rests on), and the slider's own position on that pivot or NONE.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NONE = -1
FIRM = -1
_MIX = 0x1E3779B97F4A7C15


@njit(cache=True)
def find(table: Ints, key: int) -> int:
    """The place of a key in an open hash table of rows (key, value), or of the gap for it."""
    last = len(table) - 1
    # Wraps around: any spread will do.
    place = (key * _MIX >> 20) & last
    while table[place, 0] != NONE and table[place, 0] != key:
        place = (place + 1) & last
    return place


@njit(cache=True)
def look_up(table: Ints, key: int) -> int:
    place = find(table, key)
    return table[place, 1] if table[place, 0] == key else NONE


@njit(cache=True)
def put(table: Ints, key: int, value: int) -> None:
    place = find(table, key)
    table[place, 0] = key
    table[place, 1] = value


@njit(cache=True)
def empty_table(entries: int) -> Ints:
    size = 16
    while size < 2 * entries:
        size *= 2
    table = np.empty((size, 2), np.int64)
    table[:, 0] = NONE
    return table


@njit(cache=True)
def table_of(keys: Ints) -> Ints:
    """Each key with its place."""
    table = empty_table(len(keys))
    for place in range(len(keys)):
        put(table, keys[place], place)
    return table


@njit(cache=True)
def key_of(t: int, token: int, a: int, b: int, tokens: int, count: int) -> int:
    """One number for a token on a link at an instant; links have no direction."""
    low, high = (a, b) if a < b else (b, a)
    return ((t * tokens + token) * count + low) * count + high


@njit(cache=True)
def rows_by_broker(ends: Ints, count: int, layers: int) -> tuple[Ints, Ints]:
    """Links (layer, u, v, value) by layer and broker: ``start`` and rows (far end, value)."""
    start = np.zeros(layers * count + 1, np.int64)
    for row in range(len(ends)):
        for end in range(1, 3):
            start[ends[row, 0] * count + ends[row, end] + 1] += 1
    for place in range(layers * count):
        start[place + 1] += start[place]
    fill = start[:-1].copy()
    rows = np.empty((2 * len(ends), 2), np.int64)
    for row in range(len(ends)):
        for end in range(1, 3):
            place = ends[row, 0] * count + ends[row, end]
            rows[fill[place], 0] = ends[row, 3 - end]
            rows[fill[place], 1] = ends[row, 3]
            fill[place] += 1
    return start, rows


@njit(cache=True)
def pivots_of(
    held: Ints, positions: Ints, table: Ints, steps: int, tokens: int, count: int
) -> tuple[Ints, int]:
    """What may be slid along, rows (step, u, v, number or FIRM), and how many are numbered.

    ``held`` has the links on which held tokens rest, rows (step, u, v, FIRM)."""
    numbers = empty_table(len(positions))
    rows = np.empty((len(held) + len(positions), 4), np.int64)
    rows[: len(held)] = held
    size = len(held)
    for p in range(len(positions)):
        t, i, u, v = positions[p]
        if t == steps or look_up(table, key_of(t + 1, i, u, v, tokens, count)) == NONE:
            continue
        key = key_of(t, 0, u, v, 1, count)
        if look_up(numbers, key) == NONE:
            number = size - len(held)
            put(numbers, key, number)
            rows[size, 0], rows[size, 1], rows[size, 2], rows[size, 3] = t, u, v, number
            size += 1
    return rows[:size], size - len(held)


@njit(cache=True)
def widen(
    positions: Ints,
    kept: tuple[Ints, Ints],
    pivots: tuple[Ints, Ints],
    parts: Ints,
    taken: Ints,
    sizes: tuple[int, int, int, int],
) -> Ints:
    """The positions and all one slide away from them, back or forth.

    ``taken`` holds the keys (token 0 of 1) of links that no free token can have at an instant.
    ``sizes`` = (steps, tokens, brokers, most positions); no rows where there would be more."""
    steps, tokens, count, most = sizes
    found = np.empty((most, 4), np.int64)
    if len(positions) > most:
        return found[:0]
    found[: len(positions)] = positions
    size = len(positions)
    table = empty_table(most)
    for p in range(size):
        t, i, u, v = positions[p]
        put(table, key_of(t, i, u, v, tokens, count), p)
    for p in range(len(positions)):
        t, i = positions[p, 0], positions[p, 1]
        if t == 0:
            continue
        for end in range(2):
            a, b = positions[p, 2 + end], positions[p, 3 - end]
            for layer in range(t - 2, min(t + 1, steps)):
                # Kept links are there in every step: once, instead of the step before the last.
                start, rows = kept if layer == t - 2 else pivots
                place = a if layer == t - 2 else layer * count + a
                for row in range(start[place], start[place + 1]):
                    w = rows[row, 0]
                    if parts[w] == parts[b]:
                        continue
                    key = key_of(t, i, b, w, tokens, count)
                    if look_up(table, key) != NONE:
                        continue
                    if look_up(taken, key_of(t, 0, b, w, 1, count)) != NONE:
                        continue
                    if size == most:
                        return found[:0]
                    put(table, key, size)
                    found[size, 0], found[size, 1] = t, i
                    found[size, 2], found[size, 3] = min(b, w), max(b, w)
                    size += 1
    return found[:size]


@njit(cache=True)
def slides_of(
    positions: Ints,
    table: Ints,
    kept: tuple[Ints, Ints],
    pivots: tuple[Ints, Ints],
    is_goal: Flags,
    sizes: tuple[int, int, int, int],
) -> tuple[Ints, Ints]:
    """All slides between the positions, and each position's number one step on (stay) or NONE."""
    steps, tokens, count, _ = sizes
    stay = np.full(len(positions), NONE, np.int64)
    found = np.empty((8 * len(positions) + 16, 4), np.int64)
    size = 0
    for p in range(len(positions)):
        t, i = positions[p, 0], positions[p, 1]
        if t == steps:
            continue
        u, v = positions[p, 2], positions[p, 3]
        stay[p] = look_up(table, key_of(t + 1, i, u, v, tokens, count))
        if is_goal[p]:
            continue
        for end in range(2):
            a, b = positions[p, 2 + end], positions[p, 3 - end]
            for layer in range(2):
                start, rows = kept if layer == 0 else pivots
                place = a if layer == 0 else t * count + a
                for row in range(start[place], start[place + 1]):
                    w = rows[row, 0]
                    if w == b:
                        continue
                    q = look_up(table, key_of(t + 1, i, b, w, tokens, count))
                    if q == NONE:
                        continue
                    if size == len(found):
                        larger = np.empty((2 * size, 4), np.int64)
                        larger[:size] = found
                        found = larger
                    found[size, 0], found[size, 1], found[size, 2] = p, q, rows[row, 1]
                    found[size, 3] = NONE
                    if rows[row, 1] != FIRM:
                        found[size, 3] = look_up(table, key_of(t, i, a, w, tokens, count))
                    size += 1
    return found[:size], stay


@njit(cache=True)
def _leans(slide: Ints, stay: Ints, alive: Flags, count: Ints) -> bool:
    """Whether a token other than the slider itself may rest on the pivot."""
    if slide[2] == FIRM:
        return True
    own = slide[3]
    itself = own != NONE and alive[own] and stay[own] != NONE and alive[stay[own]]
    return bool(count[slide[2]] > itself)


@njit(cache=True)
def supports(stay: Ints, alive: Flags, number: Ints, pivot_count: int) -> Ints:
    """For each pivot how many free tokens may rest on it; ``number`` is each position's pivot."""
    count = np.zeros(pivot_count, np.int64)
    for p in range(len(stay)):
        if alive[p] and stay[p] != NONE and alive[stay[p]]:
            count[number[p]] += 1
    return count


@njit(cache=True)
def settle(
    positions: Ints, slides: Ints, stay: Ints, number: Ints, pivot_count: int, alive: Flags
) -> Flags:
    """Drop positions without a way from the start or to the end; flags of the slides left.

    Positions are in the order of their instants, slides in that of their first position."""
    can = np.ones(len(slides), np.bool_)
    last = positions[len(positions) - 1, 0]
    left = -1
    while left != alive.sum():
        left = alive.sum()
        count = supports(stay, alive, number, pivot_count)
        reached = positions[:, 0] == 0
        s = 0
        for p in range(len(positions)):
            alive[p] &= reached[p]
            if alive[p] and stay[p] != NONE:
                reached[stay[p]] = True
            while s < len(slides) and slides[s, 0] == p:
                can[s] &= alive[p] and alive[slides[s, 1]] and _leans(slides[s], stay, alive, count)
                if can[s]:
                    reached[slides[s, 1]] = True
                s += 1
        s = len(slides) - 1
        for p in range(len(positions) - 1, -1, -1):
            leads = positions[p, 0] == last or (stay[p] != NONE and alive[stay[p]])
            while s >= 0 and slides[s, 0] == p:
                can[s] &= alive[p] and alive[slides[s, 1]]
                leads |= can[s]
                s -= 1
            alive[p] &= leads
    return can

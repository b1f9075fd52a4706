"""Kernels on many small lists in one array: neighbors, backups, subscribers of topics.

A full list moves to the end with twice the room; when the array itself is full, all lists move
into a new one. So `add` returns the bags, which the caller must go on with. O(1) amortised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]


class Bags(NamedTuple):
    """List b is ``items[starts[b]:starts[b] + sizes[b]]``; ``top`` is where the free end begins."""

    items: Indices
    starts: Integers
    sizes: Indices
    rooms: Indices
    top: Integers


@njit(cache=True)
def add(bags: Bags, bag: int, item: int) -> Bags:
    """Put an item at the end of a list."""
    if bags.sizes[bag] == bags.rooms[bag]:
        room = max(4, 2 * bags.rooms[bag])
        if bags.top[0] + room > len(bags.items):
            bags = moved(bags, room)
        start, old = bags.top[0], bags.starts[bag]
        for place in range(bags.sizes[bag]):
            bags.items[start + place] = bags.items[old + place]
        bags.starts[bag], bags.rooms[bag] = start, room
        bags.top[0] += room
    bags.items[bags.starts[bag] + bags.sizes[bag]] = item
    bags.sizes[bag] += 1
    return bags


@njit(cache=True)
def moved(bags: Bags, more: int) -> Bags:
    """The same lists in a larger array, without the gaps that moved lists left."""
    used = 0
    for bag in range(len(bags.sizes)):
        used += bags.rooms[bag]
    items = np.empty(2 * used + more + 64, np.int32)
    top = 0
    for bag in range(len(bags.sizes)):
        old = bags.starts[bag]
        for place in range(bags.sizes[bag]):
            items[top + place] = bags.items[old + place]
        bags.starts[bag] = top
        top += bags.rooms[bag]
    bags.top[0] = top
    return Bags(items, bags.starts, bags.sizes, bags.rooms, bags.top)


@njit(cache=True)
def drop(bags: Bags, bag: int, item: int) -> bool:
    """Take an item out, the last takes its place; False if it is not there. O(length)."""
    start, last = bags.starts[bag], bags.sizes[bag] - 1
    for place in range(start, start + last + 1):
        if bags.items[place] == item:
            bags.items[place] = bags.items[start + last]
            bags.sizes[bag] = last
            return True
    return False


@njit(cache=True)
def has_sorted(bags: Bags, bag: int, item: int) -> bool:
    """Whether an ascending list has an item. O(log length)."""
    low = bags.starts[bag]
    high = low + bags.sizes[bag]
    while low < high:
        middle = (low + high) >> 1
        if bags.items[middle] < item:
            low = middle + 1
        else:
            high = middle
    return bool(low < bags.starts[bag] + bags.sizes[bag] and bags.items[low] == item)


@njit(cache=True)
def fill(bags: Bags, bag: int, items: Indices) -> Bags:
    """A list with exactly these items, in this order."""
    bags.sizes[bag] = 0
    for item in items:
        bags = add(bags, bag, item)
    return bags


def empty_bags(count: int, room: int) -> Bags:
    """So many empty lists, with room for so many items in all."""
    return Bags(
        np.empty(room, np.int32),
        np.zeros(count, np.int64),
        np.zeros(count, np.int32),
        np.zeros(count, np.int32),
        np.zeros(1, np.int64),
    )


def bags_of(starts: Integers, items: Indices) -> Bags:
    """Lists as rows of consecutive items; full, so they move when they grow."""
    sizes = np.diff(starts).astype(np.int32)
    top = np.array([len(items)], np.int64)
    return Bags(items.astype(np.int32), starts[:-1].copy(), sizes, sizes.copy(), top)


def widened(bags: Bags, count: int) -> Bags:
    """The same lists and empty ones up to this number."""
    more = count - len(bags.sizes)
    zeros = np.zeros(more, np.int32)
    return Bags(
        bags.items,
        np.concatenate([bags.starts, np.zeros(more, np.int64)]),
        np.concatenate([bags.sizes, zeros]),
        np.concatenate([bags.rooms, zeros]),
        bags.top,
    )

"""Kernels that find the best link of a row: how many parts a link to a later row would join.

The contribution of (u, v) is the number of topics both want in which they are in different parts.
By bits, 64 rows at a time: the sets of u's topics are added up by carry-save adders into seven
planes (bit p of a row's contribution is in plane p), and the maximum is read off the planes from
the top. By counting, where topics have few subscribers or a row has many topics.

`Bags` are many small lists in one array: neighbors, backups, subscribers. A full list moves to the
end with twice the room; when the array itself is full, all lists move into a new one. So `add`
returns the bags, which the caller must go on with. O(1) amortised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from pubweave.design.tco._kernels.parts import (
    NO_SET,
    SCRATCH,
    Indices,
    Integers,
    Interests,
    Parts,
    Words,
    clear_bit,
    set_bit,
)

COUNTING_BEATS_BITS = 3
"""Adding a set to the planes takes as long as counting this many times fewer places."""


@njit(cache=True)
def best_of_row(
    interests: Interests,
    parts: Parts,
    u: int,
    first: int,
    bound: int,
    mask: Words,
    chosen: Integers,
    counts: Indices,
) -> tuple[int, int]:
    """The largest contribution of (u, v) with v in the mask and v >= first, and the first such v.

    ``bound`` is at least the answer: the search ends where it is reached. O(k n / 64) for k topics
    by bits, O(sum of their subscribers) by counting. ``counts`` is zero before and after.
    """
    kept, places = 0, 0
    for place in range(interests.starts[u], interests.starts[u + 1]):
        topic = interests.topics[place]
        if parts.counts[topic] > 1:
            kept += 1
            places += interests.topic_starts[topic + 1] - interests.topic_starts[topic]
    if kept == 0:
        return 0, first
    width = parts.width - (first >> 6)
    if kept > SCRATCH - 1 or places * COUNTING_BEATS_BITS < kept * width:
        return _by_counting(interests, parts, u, first, mask, counts)
    _choose_sets(interests, parts, u, first, chosen)
    return _by_bits(interests, parts, kept, first, bound, mask, chosen)


@njit(cache=True)
def _choose_sets(interests: Interests, parts: Parts, u: int, first: int, chosen: Integers) -> None:
    """For each of u's topics a set of those in other parts, padded with empty ones to sevens."""
    kept = 0
    for place in range(interests.starts[u], interests.starts[u + 1]):
        topic = interests.topics[place]
        if parts.counts[topic] == 1:
            continue
        label = parts.labels[place]
        own = parts.topic_sets[topic]
        kept += 1
        if parts.sets[label] != NO_SET:
            taken = parts.sets[label]
        elif own != NO_SET and parts.sizes[label] == 1:
            taken = own
        else:
            taken = kept
            _fill_scratch(interests, parts, topic, place, first >> 6, kept)
        chosen[kept - 1] = taken * parts.width
    for rest in range(kept, kept + 7):
        chosen[rest] = 0


@njit(cache=True)
def _fill_scratch(
    interests: Interests, parts: Parts, topic: int, place: int, low: int, scratch: int
) -> None:
    """The subscribers of a topic outside a small part, from a word on."""
    offset = scratch * parts.width
    if parts.topic_sets[topic] == NO_SET:
        for word in range(low, parts.width):
            parts.bits[offset + word] = 0
        for at in range(interests.topic_starts[topic], interests.topic_starts[topic + 1]):
            other = interests.topic_places[at]
            if parts.labels[other] != parts.labels[place]:
                set_bit(parts.bits, offset, interests.owners[other])
        return
    source = parts.topic_sets[topic] * parts.width
    for word in range(low, parts.width):
        parts.bits[offset + word] = parts.bits[source + word]
    other = parts.ring[place]
    while other != place:
        clear_bit(parts.bits, offset, interests.owners[other])
        other = parts.ring[other]


@njit(cache=True)
def _add(a: np.uint64, b: np.uint64, c: np.uint64) -> tuple[np.uint64, np.uint64]:
    """A full adder on 64 columns: sum and carry."""
    half = a ^ b
    return half ^ c, (a & b) | (half & c)


@njit(cache=True)
def _by_bits(
    interests: Interests,
    parts: Parts,
    kept: int,
    first: int,
    bound: int,
    mask: Words,
    chosen: Integers,
) -> tuple[int, int]:
    bits = parts.bits
    best, column = 0, first
    zero = np.uint64(0)
    for word in range(first >> 6, parts.width):
        if interests.reach[word] <= best:
            break
        row = word << 6
        c0 = c1 = c2 = c3 = c4 = c5 = c6 = zero
        for at in range(0, kept, 7):
            s1, d1 = _add(
                bits[chosen[at] + word], bits[chosen[at + 1] + word], bits[chosen[at + 2] + word]
            )
            s2, d2 = _add(
                bits[chosen[at + 3] + word],
                bits[chosen[at + 4] + word],
                bits[chosen[at + 5] + word],
            )
            s3, d3 = _add(s1, s2, bits[chosen[at + 6] + word])
            twos, fours = _add(d1, d2, d3)
            carry = c0 & s3
            c0 ^= s3
            c1, carry = _add(c1, twos, carry)
            c2, carry = _add(c2, fours, carry)
            c3, carry = c3 ^ carry, c3 & carry
            c4, carry = c4 ^ carry, c4 & carry
            c5, carry = c5 ^ carry, c5 & carry
            c6 ^= carry
        left = mask[word]
        if row < first:
            left &= ~zero << np.uint64(first & 63)
        value = 0
        for plane, weight in ((c6, 64), (c5, 32), (c4, 16), (c3, 8), (c2, 4), (c1, 2), (c0, 1)):
            if left & plane:
                left &= plane
                value += weight
        if value > best:
            best = value
            column = row + _lowest(left)
            if best >= bound:
                break
    return best, column


@njit(cache=True)
def _lowest(word: np.uint64) -> int:
    """The place of the lowest bit that is set."""
    place = 0
    while not (word >> np.uint64(place)) & np.uint64(1):
        place += 1
    return place


@njit(cache=True)
def _by_counting(
    interests: Interests, parts: Parts, u: int, first: int, mask: Words, counts: Indices
) -> tuple[int, int]:
    best, column = 0, first
    for counted in (True, False):
        for place in range(interests.starts[u], interests.starts[u + 1]):
            topic = interests.topics[place]
            if parts.counts[topic] == 1:
                continue
            label = parts.labels[place]
            for at in range(
                interests.topic_starts[topic + 1] - 1, interests.topic_starts[topic] - 1, -1
            ):
                other = interests.topic_places[at]
                v = interests.owners[other]
                if v < first:
                    break
                if not counted:
                    counts[v] = 0
                elif parts.labels[other] != label:
                    if not (mask[v >> 6] >> np.uint64(v & 63)) & np.uint64(1):
                        continue
                    counts[v] += 1
                    if counts[v] > best or (counts[v] == best and v < column):
                        best, column = counts[v], v
    return best, column


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

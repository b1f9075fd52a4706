"""Kernel that finds the pieces a topic's subscribers fell into, by searches that take turns.

Most of the time goes into asking whether a neighbor wants the topic. A long search marks all of
the topic's subscribers in a bit set first, which stays in the nearest cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from pubweave.design.tco._kernels.parts import Indices, Integers
from pubweave.design.tco._kernels.rows import Bags, has_sorted

Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

LONG_SEARCH_SHIFT = 7
"""A search that visits one in 2^7 of the subscribers is long: marking them all costs as much as a
few of these visits, so the work stays in proportion to the search."""


class Wishes(NamedTuple):
    """Who wants what: both ways, and room for a bit per node, all zero between searches."""

    topics_of: Bags
    nodes_of: Bags
    bits: Words


class Searches(NamedTuple):
    """One search for each seed. Its nodes to visit are a list from head to tail by ``following``.

    Searches that met have the same leader, and the leader's list.
    """

    heads: Indices
    tails: Indices
    leaders: Indices
    is_over: Flags


@njit(cache=True)
def pieces(
    wishes: Wishes,
    neighbors: Bags,
    topic: int,
    seeds: Indices,
    marks: Integers,
    following: Indices,
    stamp: int,
) -> tuple[int, Indices, int]:
    """How many pieces the topic's subscribers are in, the piece of each seed, and the rest's.

    Searches start at all seeds and take turns, so the work is in proportion to the smaller pieces;
    searches that meet go on as one. When one is left it need not end: whoever nobody has reached is
    in its piece, the rest. A node reached by search i is marked ``stamp + i``.
    """
    count = len(seeds)
    leaders = np.arange(count).astype(np.int32)
    searches = Searches(seeds.copy(), seeds.copy(), leaders, np.zeros(count, np.bool_))
    active = _begin(searches, seeds, marks, following, stamp)
    subscribers = wishes.nodes_of.sizes[topic]
    visits, has_bits = 0, False
    while active > 1:
        if not has_bits and visits > subscribers >> LONG_SEARCH_SHIFT:
            _mark(wishes, topic)
            has_bits = True
        for search in range(count):
            if searches.is_over[search] or leaders[search] != search:
                continue
            if searches.heads[search] == -1:
                searches.is_over[search] = True
                active -= 1
            else:
                visits += 1
                active -= _visit(
                    searches, search, wishes, has_bits, neighbors, topic, marks, following, stamp
                )
            if active == 1:
                break
    if has_bits:
        wishes.bits[:] = 0
    found, numbers = _numbered(leaders)
    rest = 0
    for search in range(count):
        if not searches.is_over[search] and leaders[search] == search:
            rest = numbers[search]
    return found, numbers, rest


@njit(cache=True)
def _begin(
    searches: Searches, seeds: Indices, marks: Integers, following: Indices, stamp: int
) -> int:
    """Mark the seeds; returns how many searches there are, each seed once."""
    active = 0
    for search in range(len(seeds)):
        seed = seeds[search]
        if marks[seed] >= stamp:  # the same seed again
            searches.leaders[search] = marks[seed] - stamp
            searches.is_over[search] = True
            continue
        active += 1
        marks[seed] = stamp + search
        following[seed] = -1
    return active


@njit(cache=True)
def _mark(wishes: Wishes, topic: int) -> None:
    """Set the bits of the topic's subscribers."""
    nodes_of, bits = wishes.nodes_of, wishes.bits
    for place in range(nodes_of.starts[topic], nodes_of.starts[topic] + nodes_of.sizes[topic]):
        node = nodes_of.items[place]
        bits[node >> 6] |= np.uint64(1) << np.uint64(node & 63)


@njit(cache=True)
def _visit(
    searches: Searches,
    search: int,
    wishes: Wishes,
    has_bits: bool,
    neighbors: Bags,
    topic: int,
    marks: Integers,
    following: Indices,
    stamp: int,
) -> int:
    """Look at the neighbors of the next node; returns how many other searches were met."""
    met = 0
    heads, tails = searches.heads, searches.tails
    node = heads[search]
    bits = wishes.bits
    for place in range(neighbors.starts[node], neighbors.starts[node] + neighbors.sizes[node]):
        other = neighbors.items[place]
        if has_bits and not (bits[other >> 6] >> np.uint64(other & 63)) & np.uint64(1):
            continue
        if marks[other] < stamp:
            if has_bits or has_sorted(wishes.topics_of, other, topic):
                marks[other] = stamp + search
                following[other] = -1
                following[tails[search]] = other
                tails[search] = other
            continue
        leader = _leader(searches.leaders, marks[other] - stamp)
        if leader != search:
            searches.leaders[leader] = search
            met += 1
            if heads[leader] != -1:
                following[tails[search]] = heads[leader]
                tails[search] = tails[leader]
    heads[search] = following[node]
    return met


@njit(cache=True)
def _leader(leaders: Indices, search: int) -> int:
    while leaders[search] != search:
        search = leaders[search]
    return search


@njit(cache=True)
def _numbered(leaders: Indices) -> tuple[int, Indices]:
    """Searches by piece: pieces are numbered as they come."""
    count = len(leaders)
    numbers = np.full(count, -1, np.int32)
    found = 0
    result = np.empty(count, np.int32)
    for search in range(count):
        leader = _leader(leaders, search)
        if numbers[leader] == -1:
            numbers[leader] = found
            found += 1
        result[search] = numbers[leader]
    return found, result

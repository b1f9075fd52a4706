"""Kernels on the parts of topics: which subscribers of a topic are connected with each other.

A *place* is one subscription: nodes are rows in canonical order, and the places of row u are
``starts[u]:starts[u + 1]``, by topic. The places of a topic fall into parts (the paper's
TC-components). A part is a ring of places (``ring`` is the next one around) with a label that all
of them carry; joining two parts relabels the smaller one, so a place changes its label at most
log2(n) times.

``bits`` is one array of bit sets over rows. A set belongs to a topic (its subscribers), to a
large part (the subscribers that are *not* in it), or is scratch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]

LARGE = 64
"""From so many places on a part has a bit set; smaller ones are walked around."""
SCRATCH = 127
"""So many topics of a row are counted by bits; set 0 is empty for ever."""
NO_SET = -1


class Interests(NamedTuple):
    """Who subscribes to what: places by row, and by topic."""

    starts: Integers
    topics: Indices
    owners: Indices
    """The row of each place."""
    topic_starts: Integers
    topic_places: Indices
    reach: Indices
    """For every 64 rows, the most topics that they or later ones have."""


class Parts(NamedTuple):
    """The parts of all topics; ``counts`` is how many a topic has."""

    labels: Indices
    ring: Indices
    sizes: Indices
    counts: Indices
    sets: Integers
    """The bit set of a part's complement by label, or none."""
    topic_sets: Integers
    bits: Words
    width: int
    free_sets: Integers
    """A stack of unused sets; its first entry is how many there are."""


@njit(cache=True)
def set_bit(bits: Words, offset: int, row: int) -> None:
    bits[offset + (row >> 6)] |= np.uint64(1) << np.uint64(row & 63)


@njit(cache=True)
def clear_bit(bits: Words, offset: int, row: int) -> None:
    bits[offset + (row >> 6)] &= ~(np.uint64(1) << np.uint64(row & 63))


@njit(cache=True)
def fill_topic_sets(interests: Interests, parts: Parts) -> None:
    """The subscribers of every topic that has a set."""
    for topic in range(len(parts.counts)):
        if parts.topic_sets[topic] == NO_SET:
            continue
        for at in range(interests.topic_starts[topic], interests.topic_starts[topic + 1]):
            place = interests.topic_places[at]
            set_bit(parts.bits, parts.topic_sets[topic] * parts.width, interests.owners[place])


@njit(cache=True)
def give_sets(interests: Interests, parts: Parts) -> None:
    """Sets for the parts that are large from the beginning (an overlay that is being mended)."""
    for place in range(len(parts.labels)):
        is_large = parts.labels[place] == place and parts.sizes[place] >= LARGE
        if is_large and parts.counts[interests.topics[place]] > 1:
            _give_set(interests, parts, place)


@njit(cache=True)
def _give_set(interests: Interests, parts: Parts, label: int) -> None:
    """A set for a part that has become large: the topic's subscribers without its own."""
    if parts.free_sets[0] == 0:
        return
    taken = parts.free_sets[parts.free_sets[0]]
    parts.free_sets[0] -= 1
    parts.sets[label] = taken
    offset = taken * parts.width
    topic = interests.topics[label]
    if parts.topic_sets[topic] != NO_SET:
        source = parts.topic_sets[topic] * parts.width
        for word in range(parts.width):
            parts.bits[offset + word] = parts.bits[source + word]
    else:
        for word in range(parts.width):
            parts.bits[offset + word] = 0
        for at in range(interests.topic_starts[topic], interests.topic_starts[topic + 1]):
            set_bit(parts.bits, offset, interests.owners[interests.topic_places[at]])
    place = label
    while True:
        clear_bit(parts.bits, offset, interests.owners[place])
        place = parts.ring[place]
        if place == label:
            return


@njit(cache=True)
def _free_set(parts: Parts, label: int) -> None:
    if parts.sets[label] != NO_SET:
        parts.free_sets[0] += 1
        parts.free_sets[parts.free_sets[0]] = parts.sets[label]
        parts.sets[label] = NO_SET


@njit(cache=True)
def _join_parts(interests: Interests, parts: Parts, one: int, other: int) -> None:
    """Two parts of a topic become one, under the label of the larger."""
    if parts.sizes[one] < parts.sizes[other]:
        one, other = other, one
    _free_set(parts, other)
    has_set = parts.sets[one] != NO_SET
    offset = parts.sets[one] * parts.width
    place = other
    while True:
        parts.labels[place] = one
        if has_set:
            clear_bit(parts.bits, offset, interests.owners[place])
        place = parts.ring[place]
        if place == other:
            break
    parts.ring[one], parts.ring[other] = parts.ring[other], parts.ring[one]
    parts.sizes[one] += parts.sizes[other]
    topic = interests.topics[one]
    parts.counts[topic] -= 1
    if parts.counts[topic] == 1:
        _free_set(parts, one)
    elif not has_set and parts.sizes[one] >= LARGE:
        _give_set(interests, parts, one)


@njit(cache=True)
def link(interests: Interests, parts: Parts, u: int, v: int) -> int:
    """Join the parts of two rows in every topic they share; returns how many were joined."""
    joined = 0
    one, other = interests.starts[u], interests.starts[v]
    while one < interests.starts[u + 1] and other < interests.starts[v + 1]:
        first, second = interests.topics[one], interests.topics[other]
        if first == second and parts.labels[one] != parts.labels[other]:
            _join_parts(interests, parts, parts.labels[one], parts.labels[other])
            joined += 1
        one += first <= second
        other += second <= first
    return joined

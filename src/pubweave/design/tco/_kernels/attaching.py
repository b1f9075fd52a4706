"""Kernel that attaches nodes one by one to a backbone, or to nodes attached before them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from pubweave.design.tco._kernels.bags import Bags, Indices, Integers, add


@njit(cache=True)
def attach_all(
    starts: Integers,
    topics: Indices,
    first: int,
    rooms: Indices,
    nodes_of: Bags,
    links: Indices,
) -> int:
    """Attach the rows from ``first`` on; returns how many links were written.

    ``rooms`` is how many links each row may still get; ``nodes_of`` has the rows before ``first``
    by topic, which are connected. Each time the row that wants most of the topics left, of equals
    the one with most room, then the first; without room only if nobody else wants any of them.
    O(sum over rows of the subscribers of their topics).
    """
    rows = len(starts) - 1
    counts = np.zeros(rows, np.int32)
    seen = np.empty(rows, np.int32)
    total = 0
    for row in range(first, rows):
        own = topics[starts[row] : starts[row + 1]]
        width = 0
        for topic in own:
            low = nodes_of.starts[topic]
            for place in range(low, low + nodes_of.sizes[topic]):
                node = nodes_of.items[place]
                if counts[node] == 0:
                    seen[width] = node
                    width += 1
                counts[node] += 1
        is_left = np.ones(len(own), np.bool_)
        while True:
            best = _best(seen[:width], counts, rooms)
            if best < 0:
                break
            links[total, 0], links[total, 1] = row, best
            total += 1
            rooms[best] -= 1
            rooms[row] -= 1
            _cover(starts, topics, own, is_left, best, nodes_of, counts)
        for topic in own:
            nodes_of = add(nodes_of, topic, row)
    return total


@njit(cache=True)
def _best(seen: Indices, counts: Indices, rooms: Indices) -> int:
    best, gain, room, fits = -1, 0, 0, False
    for node in seen:
        if counts[node] == 0:
            continue
        own_fits = rooms[node] > 0
        if best >= 0 and fits and not own_fits:
            continue
        is_better = counts[node] > gain or (counts[node] == gain and rooms[node] > room)
        if not own_fits:  # whoever is least above its room
            is_better = rooms[node] > room
        if best < 0 or (own_fits and not fits) or is_better:
            best, gain, room, fits = node, counts[node], rooms[node], own_fits
    return best


@njit(cache=True)
def _cover(
    starts: Integers,
    topics: Indices,
    own: Indices,
    is_left: npt.NDArray[np.bool_],
    chosen: int,
    nodes_of: Bags,
    counts: Indices,
) -> None:
    """Topics that the chosen row wants count no longer."""
    place, end = starts[chosen], starts[chosen + 1]
    for at in range(len(own)):
        topic = own[at]
        while place < end and topics[place] < topic:
            place += 1
        if not is_left[at] or place >= end or topics[place] != topic:
            continue
        is_left[at] = False
        low = nodes_of.starts[topic]
        for other in range(low, low + nodes_of.sizes[topic]):
            counts[nodes_of.items[other]] -= 1

"""Kernels of Algorithm 2 of Shadows on a small set of nodes: links that mend topics in pieces.

Contributions are counted once, into a matrix or (of a joining node) a row, and taken back as
pieces are joined.

`attach_all` attaches nodes one by one to a backbone, or to nodes attached before them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from pubweave.design.tco._kernels.parts import Indices, Integers
from pubweave.design.tco._kernels.rows import Bags, add

NOT_SUBSCRIBED = -1


@njit(cache=True)
def mend(
    labels: Indices, degrees: Indices, level: int, is_fixed: bool, rho: float, links: Indices
) -> int:
    """Algorithm 2 on rows in canonical order; ``labels[row, topic]`` is the piece it is in.

    The links of e2 raise a maximum of ``level`` least. The level rises with the degrees, as in
    the paper, unless it is fixed. Returns how many links were written. O(rows^2 (topics + links)).
    """
    rows = len(labels)
    worth = _contributions(labels)
    count = 0
    while True:
        best = low = 0
        least = 1 << 30
        first = second = (0, 0)
        for u in range(rows):
            for v in range(u + 1, rows):
                value = worth[u, v]
                if value == 0:
                    continue
                rise = max(0, max(degrees[u], degrees[v]) + 1 - level)
                if value > best:
                    best, first = value, (u, v)
                if rise < least or (rise == least and value > low):
                    least, low, second = rise, value, (u, v)
        if best == 0:
            return count
        u, v = first if best > rho * low else second
        links[count, 0], links[count, 1] = u, v
        count += 1
        degrees[u] += 1
        degrees[v] += 1
        if not is_fixed:
            level = max(level, degrees[u], degrees[v])
        _join(labels, worth, u, v)


@njit(cache=True)
def _contributions(labels: Indices) -> Indices:
    rows, topics = labels.shape
    worth = np.zeros((rows, rows), np.int32)
    for topic in range(topics):
        for u in range(rows):
            if labels[u, topic] == NOT_SUBSCRIBED:
                continue
            for v in range(u + 1, rows):
                if labels[v, topic] != NOT_SUBSCRIBED:
                    worth[u, v] += labels[u, topic] != labels[v, topic]
    return worth


@njit(cache=True)
def _join(labels: Indices, worth: Indices, u: int, v: int) -> None:
    """Take back what the link (u, v) has joined."""
    rows, topics = labels.shape
    for topic in range(topics):
        one, other = labels[u, topic], labels[v, topic]
        if min(one, other) == NOT_SUBSCRIBED or one == other:
            continue
        for a in range(rows):
            if labels[a, topic] != one:
                continue
            for b in range(rows):
                if labels[b, topic] == other:
                    worth[min(a, b), max(a, b)] -= 1
        for b in range(rows):
            if labels[b, topic] == other:
                labels[b, topic] = one


@njit(cache=True)
def attach(
    topics_of: Bags,
    neighbors: Bags,
    node: int,
    topics: Indices,
    shadows: Indices,
    level: int,
    is_fixed: bool,
    rho: float,
) -> Indices:
    """Algorithm 10: Algorithm 2 where all links are those of one node, who is alone in its topics.

    The shadows come in canonical order; returns the links. O(shadows (topics + links)).
    """
    wants = _wanted(topics_of, topics, shadows)
    worth = np.zeros(len(shadows), np.int32)
    for row in range(len(shadows)):
        worth[row] = wants[row].sum()
    found = np.empty((len(topics), 2), np.int32)
    count, degree = 0, neighbors.sizes[node]
    while True:
        best = low = 0
        least = 1 << 30
        first = second = 0
        for row in range(len(shadows)):
            value = worth[row]
            if value == 0:
                continue
            rise = max(0, max(degree, neighbors.sizes[shadows[row]]) + 1 - level)
            if value > best:
                best, first = value, row
            if rise < least or (rise == least and value > low):
                least, low, second = rise, value, row
        if best == 0:
            return found[:count]
        row = first if best > rho * low else second
        chosen = shadows[row]
        found[count, 0], found[count, 1] = node, chosen
        count += 1
        degree += 1
        if not is_fixed:
            level = max(level, degree, neighbors.sizes[chosen] + 1)
        for column in range(len(topics)):
            if wants[row, column]:
                worth -= wants[:, column]
                wants[:, column] = 0


@njit(cache=True)
def _wanted(topics_of: Bags, topics: Indices, nodes: Indices) -> Indices:
    """Who wants which of these (ascending) topics, as ones and zeros."""
    wants = np.zeros((len(nodes), len(topics)), np.int32)
    for row in range(len(nodes)):
        place = topics_of.starts[nodes[row]]
        end = place + topics_of.sizes[nodes[row]]
        column = 0
        while place < end and column < len(topics):
            topic = topics_of.items[place]
            wants[row, column] = topic == topics[column]
            place += topic <= topics[column]
            column += topics[column] <= topic
    return wants


@njit(cache=True)
def attach_all(
    starts: Integers, topics: Indices, first: int, rooms: Indices, nodes_of: Bags, links: Indices
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

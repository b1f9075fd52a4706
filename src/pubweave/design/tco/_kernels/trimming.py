"""Kernels that drop links nobody needs: in every topic both ends want there is another way.

Links become needless as others are added near them. A link most often is needed because one end
has no other neighbor for some topic; that is seen at once, and only the rest are searched.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pubweave.design.tco._kernels.bags import Bags, Indices, Integers, has_sorted
from pubweave.design.tco._kernels.churn import link_all, unlink_all
from pubweave.design.tco._kernels.pieces import Wishes, pieces


@njit(cache=True)
def trim(
    wishes: Wishes,
    neighbors: Bags,
    degree_counts: Integers,
    nodes: Indices,
    searches: int,
    marks: Integers,
    following: Indices,
    stamps: Integers,
) -> tuple[Bags, Indices]:
    """Drop needless links of these nodes, of high degrees first; at most so many searches."""
    links = _links_of(neighbors, nodes)
    dropped = np.empty((len(links), 2), np.int32)
    count = 0
    for place in range(len(links)):
        a, b = links[place]
        if not _may_go(wishes.topics_of, neighbors, a, b):
            continue
        if searches == 0:
            break
        searches -= 1
        pair = links[place : place + 1]
        unlink_all(neighbors, degree_counts, pair)
        if _has_other_ways(wishes, neighbors, a, b, marks, following, stamps):
            dropped[count] = links[place]
            count += 1
        else:
            neighbors = link_all(neighbors, degree_counts, pair)
    return neighbors, dropped[:count]


@njit(cache=True)
def _links_of(neighbors: Bags, nodes: Indices) -> Indices:
    """The links of some nodes, each once, by descending degree of their ends."""
    room = 0
    for node in nodes:
        room += neighbors.sizes[node]
    links = np.empty((room, 2), np.int32)
    keys = np.empty(room, np.int64)
    count = 0
    for node in nodes:
        for place in range(neighbors.starts[node], neighbors.starts[node] + neighbors.sizes[node]):
            other = neighbors.items[place]
            a, b = min(node, other), max(node, other)
            is_repeated = False
            for before in range(count):
                is_repeated = is_repeated or (links[before, 0] == a and links[before, 1] == b)
            if not is_repeated:
                links[count, 0], links[count, 1] = a, b
                high = max(neighbors.sizes[a], neighbors.sizes[b])
                keys[count] = -(np.int64(high) << 32) - neighbors.sizes[a] - neighbors.sizes[b]
                count += 1
    return links[:count][np.argsort(keys[:count], kind="mergesort")]


@njit(cache=True)
def _may_go(topics_of: Bags, neighbors: Bags, a: int, b: int) -> bool:
    """Whether in all common topics both ends have another neighbor."""
    for at in range(topics_of.starts[a], topics_of.starts[a] + topics_of.sizes[a]):
        topic = topics_of.items[at]
        if not has_sorted(topics_of, b, topic):
            continue
        if not _has_another(topics_of, neighbors, a, b, topic):
            return False
        if not _has_another(topics_of, neighbors, b, a, topic):
            return False
    return True


@njit(cache=True)
def _has_another(topics_of: Bags, neighbors: Bags, node: int, known: int, topic: int) -> bool:
    for place in range(neighbors.starts[node], neighbors.starts[node] + neighbors.sizes[node]):
        other = neighbors.items[place]
        if other != known and has_sorted(topics_of, other, topic):
            return True
    return False


@njit(cache=True)
def _has_other_ways(
    wishes: Wishes,
    neighbors: Bags,
    a: int,
    b: int,
    marks: Integers,
    following: Indices,
    stamps: Integers,
) -> bool:
    """Whether two nodes are connected in every topic they share."""
    seeds = np.array([a, b]).astype(np.int32)
    topics_of = wishes.topics_of
    for at in range(topics_of.starts[a], topics_of.starts[a] + topics_of.sizes[a]):
        topic = topics_of.items[at]
        if not has_sorted(topics_of, b, topic):
            continue
        stamp = stamps[0] + 1
        stamps[0] = stamp + 2
        count, _, _ = pieces(wishes, neighbors, topic, seeds, marks, following, stamp)
        if count > 1:
            return False
    return True

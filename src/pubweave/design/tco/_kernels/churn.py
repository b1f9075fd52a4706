"""Kernels of one churn round: subscriptions that end, their pieces and shadows, links.

Nodes are numbered, and numbers of nodes that left are given again. All lists are bags; whatever
adds to them returns them anew.

`trim` drops links that became needless as others were added near them. A link most often is needed
because one end has no other neighbor for some topic; that is seen at once, only the rest are
searched.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pubweave.design.tco._kernels.backups import Weighing, rebuild_backups
from pubweave.design.tco._kernels.mending import NOT_SUBSCRIBED, attach
from pubweave.design.tco._kernels.parts import Indices, Integers
from pubweave.design.tco._kernels.pieces import Wishes, pieces
from pubweave.design.tco._kernels.rows import Bags, add, drop, has_sorted


@njit(cache=True)
def link_all(neighbors: Bags, degree_counts: Integers, pairs: Indices) -> Bags:
    """Add links; ``degree_counts`` is how many nodes have each degree, its last entry the top."""
    for place in range(len(pairs)):
        for side in range(2):
            one, other = pairs[place, side], pairs[place, 1 - side]
            degree = neighbors.sizes[one]
            neighbors = add(neighbors, one, other)
            degree_counts[degree] -= 1
            degree_counts[degree + 1] += 1
            degree_counts[-1] = max(degree_counts[-1], degree + 1)
    return neighbors


@njit(cache=True)
def unlink_all(neighbors: Bags, degree_counts: Integers, pairs: Indices) -> None:
    """Take links away."""
    for place in range(len(pairs)):
        for side in range(2):
            one, other = pairs[place, side], pairs[place, 1 - side]
            degree = neighbors.sizes[one]
            if drop(neighbors, one, other):
                degree_counts[degree] -= 1
                degree_counts[degree - 1] += 1
    while degree_counts[-1] > 0 and degree_counts[degree_counts[-1]] == 0:
        degree_counts[-1] -= 1


@njit(cache=True)
def leave_backups(backups: Bags, primaries: Bags, node: int) -> Indices:
    """A node is nobody's backup any more and has none; returns whose backup it was."""
    start = primaries.starts[node]
    bereft = primaries.items[start : start + primaries.sizes[node]].copy()
    for primary in bereft:
        drop(backups, primary, node)
    primaries.sizes[node] = 0
    for place in range(backups.starts[node], backups.starts[node] + backups.sizes[node]):
        drop(primaries, backups.items[place], node)
    backups.sizes[node] = 0
    return bereft


@njit(cache=True)
def end_subscriptions(topics_of: Bags, nodes_of: Bags, nodes: Indices, topics: Indices) -> None:
    """Take topics from nodes; both lists stay in order where they are ordered."""
    for place in range(len(nodes)):
        node, topic = nodes[place], topics[place]
        start = topics_of.starts[node]
        kept = start
        for at in range(start, start + topics_of.sizes[node]):
            if topics_of.items[at] != topic:
                topics_of.items[kept] = topics_of.items[at]
                kept += 1
        topics_of.sizes[node] = kept - start
        drop(nodes_of, topic, node)


@njit(cache=True)
def begin_subscriptions(
    topics_of: Bags, nodes_of: Bags, node: int, topics: Indices
) -> tuple[Bags, Bags]:
    """Give a node topics that it does not have."""
    for topic in topics:
        topics_of = add(topics_of, node, topic)
        nodes_of = add(nodes_of, topic, node)
    start = topics_of.starts[node]
    topics_of.items[start : start + topics_of.sizes[node]].sort()
    return topics_of, nodes_of


@njit(cache=True)
def shadow_set(
    topics_of: Bags, neighbors: Bags, backups: Bags, changed: Indices, marks: Integers, stamp: int
) -> Indices:
    """Neighbors and backups of the changed nodes, in canonical order; who left has no topics."""
    room = 0
    for node in changed:
        room += neighbors.sizes[node] + backups.sizes[node]
    found = np.empty(room, np.int32)
    count = 0
    for node in changed:
        for bags in (neighbors, backups):
            for place in range(bags.starts[node], bags.starts[node] + bags.sizes[node]):
                other = bags.items[place]
                if marks[other] != stamp and topics_of.sizes[other] > 0:
                    marks[other] = stamp
                    found[count] = other
                    count += 1
    return in_order(topics_of, found[:count])


@njit(cache=True)
def in_order(topics_of: Bags, nodes: Indices) -> Indices:
    """By descending number of topics, then by number."""
    keys = np.empty(len(nodes), np.int64)
    for place in range(len(nodes)):
        keys[place] = (np.int64(-topics_of.sizes[nodes[place]]) << 32) + nodes[place]
    return nodes[np.argsort(keys)]


@njit(cache=True)
def cut_seeds(
    topics_of: Bags, neighbors: Bags, nodes: Indices, topics: Indices
) -> tuple[Indices, Integers, Indices]:
    """For each topic that somebody lost, the neighbors of these nodes that still want it.

    ``nodes`` and ``topics`` are the subscriptions that ended, by topic; links are still there.
    Returns the topics with two seeds or more, where their seeds begin, and the seeds.
    """
    room = 0
    for node in nodes:
        room += neighbors.sizes[node]
    seeds = np.empty(room, np.int32)
    starts = np.zeros(len(topics) + 1, np.int64)
    cut = np.empty(len(topics), np.int32)
    count = top = first = 0
    while first < len(topics):
        topic = topics[first]
        begin = top
        while first < len(topics) and topics[first] == topic:
            node = nodes[first]
            low = neighbors.starts[node]
            for place in range(low, low + neighbors.sizes[node]):
                if has_sorted(topics_of, neighbors.items[place], topic):
                    seeds[top] = neighbors.items[place]
                    top += 1
            first += 1
        if top - begin < 2:
            top = begin
            continue
        cut[count] = topic
        count += 1
        starts[count] = top
    return cut[:count], starts[: count + 1], seeds[:top]


@njit(cache=True)
def labels_of_cut(
    wishes: Wishes,
    neighbors: Bags,
    topics: Indices,
    starts: Integers,
    seeds: Indices,
    shadows: Indices,
    marks: Integers,
    following: Indices,
    stamps: Integers,
) -> Indices:
    """Which piece each shadow is in: one column for each topic that is in pieces."""
    labels = np.empty((len(shadows), len(topics)), np.int32)
    width = 0
    for place in range(len(topics)):
        topic = topics[place]
        some = seeds[starts[place] : starts[place + 1]]
        stamp = stamps[0] + 1
        stamps[0] = stamp + len(some)
        count, numbers, rest = pieces(wishes, neighbors, topic, some, marks, following, stamp)
        if count < 2:
            continue
        for row in range(len(shadows)):
            node = shadows[row]
            if not has_sorted(wishes.topics_of, node, topic):
                labels[row, width] = NOT_SUBSCRIBED
            elif marks[node] >= stamp:
                labels[row, width] = numbers[marks[node] - stamp]
            else:
                labels[row, width] = rest
        width += 1
    return labels[:, :width].copy()


@njit(cache=True)
def useless_links(topics_of: Bags, neighbors: Bags, nodes: Indices) -> Indices:
    """Links of these nodes whose ends have no topic in common (any more), each once."""
    room = 0
    for node in nodes:
        room += neighbors.sizes[node]
    found = np.empty((room, 2), np.int32)
    count = 0
    for node in nodes:
        for place in range(neighbors.starts[node], neighbors.starts[node] + neighbors.sizes[node]):
            other = neighbors.items[place]
            is_repeated = False
            for before in range(count):
                is_repeated = is_repeated or (
                    found[before, 0] == other and found[before, 1] == node
                )
            if not is_repeated and not _share_topic(topics_of, node, other):
                found[count, 0], found[count, 1] = node, other
                count += 1
    return found[:count]


@njit(cache=True)
def _share_topic(topics_of: Bags, a: int, b: int) -> bool:
    for place in range(topics_of.starts[a], topics_of.starts[a] + topics_of.sizes[a]):
        if has_sorted(topics_of, b, topics_of.items[place]):
            return True
    return False


@njit(cache=True)
def subscribers(nodes_of: Bags, topics: Indices, marks: Integers, stamp: int) -> Indices:
    """Everybody who wants one of these topics, each once."""
    room = 0
    for topic in topics:
        room += nodes_of.sizes[topic]
    found = np.empty(room, np.int32)
    count = 0
    for topic in topics:
        for place in range(nodes_of.starts[topic], nodes_of.starts[topic] + nodes_of.sizes[topic]):
            node = nodes_of.items[place]
            if marks[node] != stamp:
                marks[node] = stamp
                found[count] = node
                count += 1
    return found[:count]


@njit(cache=True)
def unmet_topics(topics_of: Bags, neighbors: Bags, node: int, topics: Indices) -> Indices:
    """Those of a node's topics that none of its neighbors wants."""
    found = np.empty(len(topics), np.int32)
    count = 0
    for topic in topics:
        is_met = False
        for place in range(neighbors.starts[node], neighbors.starts[node] + neighbors.sizes[node]):
            is_met = is_met or has_sorted(topics_of, neighbors.items[place], topic)
        if not is_met:
            found[count] = topic
            count += 1
    return found[:count]


# Kernel of a join in one call: handing lists over to kernels takes longer than most of them.


OVER_SHADOWS = -1
"""A level that stands for the maximum degree over the shadow set."""


@njit(cache=True)
def join(
    weighing: Weighing,
    backups: Bags,
    primaries: Bags,
    degree_counts: Integers,
    marks: Integers,
    stamps: Integers,
    node: int,
    topics: Indices,
    coverage: int,
    window: int,
    is_greedy: bool,
    is_naive: bool,
    level: int,
    is_fixed: bool,
    rho: float,
) -> tuple[Indices, Indices, Indices, Indices, Indices, Indices, int]:
    """Algorithms 3 (naive), 9 and 10: a node gets topics, backups and links.

    Returns the items of all lists anew (handing back whole lists takes a tenth of a join: what else
    they are made of is changed in place), the links, and how many nodes they were sought among.
    """
    neighbors = weighing.neighbors
    unmet = unmet_topics(weighing.topics_of, neighbors, node, topics)
    topics_of, nodes_of = begin_subscriptions(weighing.topics_of, weighing.nodes_of, node, topics)
    if is_naive:
        stamps[0] += 1
        marks[node] = stamps[0]
        found = subscribers(nodes_of, unmet, marks, stamps[0])
    else:
        new = Weighing(
            topics_of, nodes_of, neighbors, weighing.less, weighing.gains, weighing.random
        )
        alone = np.array([node]).astype(np.int32)
        backups, primaries = rebuild_backups(
            new, backups, primaries, alone, coverage, window, is_greedy
        )
        start = backups.starts[node]
        found = backups.items[start : start + backups.sizes[node]]
    shadows = in_order(topics_of, found)
    if level == OVER_SHADOWS:
        level = 0
        for shadow in shadows:
            level = max(level, neighbors.sizes[shadow])
    pairs = attach(topics_of, neighbors, node, unmet, shadows, level, is_fixed, rho)
    neighbors = link_all(neighbors, degree_counts, pairs)
    return (
        topics_of.items,
        nodes_of.items,
        neighbors.items,
        backups.items,
        primaries.items,
        pairs,
        len(shadows),
    )


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

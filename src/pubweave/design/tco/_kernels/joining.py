"""Kernel of a join in one call: handing lists over to kernels takes longer than most of them."""

from __future__ import annotations

import numpy as np
from numba import njit

from pubweave.design.tco._kernels.backups import Weighing, rebuild_backups
from pubweave.design.tco._kernels.bags import Bags, Indices, Integers
from pubweave.design.tco._kernels.churn import (
    begin_subscriptions,
    in_order,
    link_all,
    subscribers,
    unmet_topics,
)
from pubweave.design.tco._kernels.mending import attach

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

    Returns the items of all lists anew (handing back whole lists takes a tenth of a join: what
    else they are made of is changed in place), the links, and how many nodes they were sought
    among.
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

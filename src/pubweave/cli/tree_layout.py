"""Where the brokers of a tree go in a picture: rings around the tree's centre.

Each subtree gets an angle in proportion to its leaves, so that links do not cross.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pubweave.model.ids import BrokerId, natural_order
from pubweave.model.topology import Topology

Positions = dict[BrokerId, tuple[float, float]]


def radial_layout(tree: Topology) -> Positions:
    """Positions within about [-1, 1]; the same tree always looks the same."""
    root = centre_of(tree)
    parent = {root: root}
    order = [root]
    for broker in order:
        for neighbor in sorted(tree.neighbors[broker], key=natural_order):
            if neighbor not in parent:
                parent[neighbor] = broker
                order.append(neighbor)
    leaves = _leaf_counts(order, parent)
    depth = {root: 0}
    for broker in order[1:]:
        depth[broker] = depth[parent[broker]] + 1
    rings = max(1, *depth.values())
    start: dict[BrokerId, float] = {root: 0.0}
    filled: dict[BrokerId, float] = {}
    positions: Positions = {root: (0.0, 0.0)}
    share = 2 * math.pi / leaves[root]
    for broker in order[1:]:
        above = parent[broker]
        start[broker] = filled.get(above, start[above])
        filled[above] = start[broker] + leaves[broker] * share
        angle = start[broker] + leaves[broker] * share / 2
        radius = depth[broker] / rings
        positions[broker] = (radius * math.cos(angle), radius * math.sin(angle))
    return positions


def centre_of(tree: Topology) -> BrokerId:
    """The middle broker of a longest path."""
    start = max(tree.hops_from(min(tree.brokers)).items(), key=_by_hops)[0]
    end = max(tree.hops_from(start).items(), key=_by_hops)[0]
    way = tree.path(start, end)
    return way[len(way) // 2]


def _by_hops(entry: tuple[BrokerId, int]) -> tuple[int, BrokerId]:
    return entry[1], entry[0]


def _leaf_counts(order: list[BrokerId], parent: Mapping[BrokerId, BrokerId]) -> dict[BrokerId, int]:
    counts = dict.fromkeys(order, 0)
    for broker in reversed(order):
        counts[broker] = max(1, counts[broker])
        if parent[broker] != broker:
            counts[parent[broker]] += counts[broker]
    return counts

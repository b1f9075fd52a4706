"""What a tree costs for a traffic (CI Eqs. 1 and 2), and where the cost comes from.

One pass over the distinct sets gives the weight that each link and each broker carries; the cost
is those weights times the prices. Sets that only a tree's own shape decides are never expanded
into notifications.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pubweave.design.tree import _kernels as kernels
from pubweave.design.tree.traffic import DesignError, Floats, Integers, Prices, Traffic
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology, validate_tree

Name = TypeVar("Name")


@dataclass(frozen=True)
class TreeCost:
    """cost(N, T) in its parts, and the loads it is made of."""

    processing: float
    communication: float
    notifications: float
    deliveries: float
    link_load: dict[Link, float]
    """Notifications over each link."""
    broker_load: dict[BrokerId, float]
    """Notifications at each broker."""
    relayed: dict[BrokerId, float]
    """Of those, what a broker's own clients neither published nor consumed."""

    @property
    def total(self) -> float:
        return self.processing + self.communication

    @property
    def per_notification(self) -> float:
        return self.total / self.notifications if self.notifications else 0.0

    @property
    def per_delivery(self) -> float:
        return self.total / self.deliveries if self.deliveries else 0.0


class RootedTree:
    """A tree of broker indices as the arrays that the kernels walk on."""

    def __init__(self, count: int, edges: Integers, root: int = 0) -> None:
        self.edges = edges
        self.parent = np.empty(count, np.int64)
        self.order = np.empty(count, np.int64)
        self.enter = np.empty(count, np.int64)
        self.leave = np.empty(count, np.int64)
        reached = kernels.root_tree(edges, root, self.parent, self.order, self.enter, self.leave)
        assert reached == count == len(edges) + 1, "the edges are no tree"


def edges_of(topology: Topology, brokers: tuple[BrokerId, ...]) -> Integers:
    """A tree's links as pairs of indices, in the order of the links; raises unless it is a tree."""
    validate_tree(topology)
    if topology.brokers != frozenset(brokers):
        different = min(topology.brokers ^ frozenset(brokers))
        raise DesignError(f"broker {different!r} is not both in the topology and in the profile")
    index_of = {broker: index for index, broker in enumerate(brokers)}
    pairs = [(index_of[link.a], index_of[link.b]) for link in sorted(topology.links)]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def links_of(edges: Integers, brokers: tuple[BrokerId, ...]) -> frozenset[Link]:
    """The links that pairs of indices stand for."""
    return frozenset(Link.between(brokers[a], brokers[b]) for a, b in edges.tolist())


def loads(traffic: Traffic, tree: RootedTree) -> tuple[Floats, Floats]:
    """The weight on the link above each vertex (0 at the root), and at each vertex."""
    count = len(tree.parent)
    link_load, broker_load = np.zeros(count), np.zeros(count)
    kernels.usage(
        traffic.starts,
        traffic.members,
        traffic.weights,
        tree.parent,
        tree.enter,
        tree.leave,
        link_load,
        broker_load,
    )
    return link_load, broker_load


def weighted_sum(values: Floats, weights: Floats) -> float:
    """The same bits on every processor; ``@`` adds in an order that BLAS picks for the one here."""
    return float((values * weights).sum())


def total_cost(traffic: Traffic, prices: Prices, edges: Integers) -> float:
    """cost(N, T) of the tree with these edges."""
    tree = RootedTree(len(prices.brokers), edges)
    link_load, broker_load = loads(traffic, tree)
    return weighted_sum(broker_load, prices.processing) + _communication(link_load, tree, prices)


def tree_cost(traffic: Traffic, prices: Prices, topology: Topology) -> TreeCost:
    """cost(N, T) with the loads of all links and brokers."""
    brokers = prices.brokers
    tree = RootedTree(len(brokers), edges_of(topology, brokers))
    link_load, broker_load = loads(traffic, tree)
    owned = np.bincount(
        traffic.members, np.repeat(traffic.weights, traffic.sizes), minlength=len(brokers)
    )
    above = tree.parent.tolist()
    return TreeCost(
        processing=weighted_sum(broker_load, prices.processing),
        communication=_communication(link_load, tree, prices),
        notifications=traffic.notifications,
        deliveries=traffic.deliveries,
        link_load={
            Link.between(brokers[v], brokers[above[v]]): float(link_load[v])
            for v in range(len(brokers))
            if above[v] >= 0
        },
        broker_load=dict(zip(brokers, broker_load.tolist(), strict=True)),
        relayed=dict(zip(brokers, np.maximum(broker_load - owned, 0.0).tolist(), strict=True)),
    )


def common_interest(traffic: Traffic) -> Floats:
    """I_ij of all pairs of brokers, I_i on the diagonal."""
    count = len(traffic.brokers)
    common = np.zeros((count, count))
    kernels.common_interest(traffic.starts, traffic.members, traffic.weights, common)
    return common


def dearest(costs: Mapping[Name, float], count: int) -> list[tuple[Name, float]]:
    """The greatest, in order; equal ones by name."""
    return sorted(costs.items(), key=lambda pair: (-pair[1], str(pair[0])))[:count]


def _communication(link_load: Floats, tree: RootedTree, prices: Prices) -> float:
    below = np.flatnonzero(tree.parent >= 0)
    costs = prices.communication[below, tree.parent[below]]
    # A link that carries nothing costs nothing, also where nobody knows its price.
    used = link_load[below] > 0
    return weighted_sum(link_load[below][used], costs[used])

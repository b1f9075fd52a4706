"""Compiles the kernels of mappings, users and other systems, for `pubweave.design.warm_up`."""

from __future__ import annotations

import numpy as np

from pubweave.design.dynatops._kernels import assignment as kernels
from pubweave.design.dynatops.mapping.best import best_mapping
from pubweave.design.dynatops.mapping.problem import MappingProblem
from pubweave.design.dynatops.mapping.routed_overlay import Publications
from pubweave.design.dynatops.placement.lasting import LastingPlacement, LastingRule
from pubweave.design.dynatops.placement.similarity import Clusters, PlacementRule, UserPlacement
from pubweave.design.dynatops.rivals.bayeux import prefix_overlay
from pubweave.design.dynatops.rivals.geops import hierarchy_overlay
from pubweave.design.dynatops.rivals.tco import ConnectedBrokers, RepairPolicy
from pubweave.design.tco.interests import Subscriptions


def warm_up_mappings() -> None:
    """Map a few brokers; also run before a mapping is timed."""
    topics = {f"b{number}": ["x", f"t{number % 3}"] for number in range(6)}
    problem = MappingProblem.of(Subscriptions.of(topics), {"x": 2.0, "t1": 1.0})
    best_mapping(problem, problem.in_order())
    trees, wanted = problem.trees, problem.wanted
    kernels.reduced_bound(
        trees.depths, trees.row_of, problem.publications, wanted.starts, wanted.topics
    )


def warm_up_dynatops() -> None:
    """Mappings, and a few users who join and change."""
    warm_up_mappings()
    users = np.array([[0, 1], [1, 2], [0, 2]], np.int32)
    rule, everyone = PlacementRule(1.0), np.zeros(3, np.int64)
    placed = UserPlacement.joined(users, everyone, Clusters.of(2, 2), 3, rule)
    placed.change(np.arange(3), users, users[::-1].copy())
    lasting = LastingPlacement.joined(users, everyone, Clusters.of(2, 2), 3, LastingRule())
    lasting.change(np.arange(3), users, users[::-1].copy())
    static = UserPlacement.static(users, np.zeros(3, np.int64), 2, 3, PlacementRule(-1.0, linger=1))
    static.end_round()
    static.host(np.arange(3), users, users, np.zeros(3, np.int64))
    warm_up_systems()


def warm_up_systems() -> None:
    """A few brokers in all systems that are compared."""
    wanted, one = (
        np.ones((4, 1), np.uint8),
        Publications.of(np.zeros(1, np.int64), np.zeros(1, int)),
    )
    names, rtt = ["a", "b", "c", "d"], np.ones((4, 4))
    prefix_overlay(names, ["x"], rtt=rtt).notify(wanted, wanted.astype(np.int32), one)
    hierarchy_overlay(2, np.zeros(1, np.int64))
    ConnectedBrokers(wanted, RepairPolicy.REBUILT).notify(wanted.astype(np.int32), one)

"""Compiles the kernels of mappings and of user placement, as part of `pubweave.design.warm_up`."""

from __future__ import annotations

import numpy as np

from pubweave.design.dynatops import _kernels_assignment as kernels
from pubweave.design.dynatops.best import best_mapping
from pubweave.design.dynatops.topic_trees import MappingProblem
from pubweave.design.dynatops.user_placement import Clusters, UserPlacement
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
    placed = UserPlacement.joined(users, np.zeros(3, np.int64), Clusters.of(2, 2), 3, 1.0)
    placed.change(np.arange(3), users, users[::-1].copy())
    UserPlacement.static(users, np.zeros(3, np.int64), 2, 3)

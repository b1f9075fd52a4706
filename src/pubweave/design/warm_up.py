"""Compiles every kernel that a design needs into numba's cache on disk.

``python -m pubweave.design.warm_up``, a step of ``make setup``, as `planning.warm_up` is for
plans: the first design of a new installation would otherwise compile for half a minute.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np

from pubweave.design.dynatops._kernels import assignment as kernels
from pubweave.design.dynatops.mapping.best import best_mapping
from pubweave.design.dynatops.mapping.problem import MappingProblem
from pubweave.design.dynatops.mapping.routed_overlay import Publications
from pubweave.design.dynatops.placement import (
    Clusters,
    LastingPlacement,
    LastingRule,
    PlacementRule,
    UserPlacement,
)
from pubweave.design.dynatops.rivals import (
    ConnectedBrokers,
    RepairPolicy,
    hierarchy_overlay,
    prefix_overlay,
)
from pubweave.design.tco.changes import (
    Backups,
    ChurnSettings,
    DegreeRule,
    Join,
    Leave,
    Method,
    Resubscribe,
)
from pubweave.design.tco.churn import MaintainedOverlay
from pubweave.design.tco.divided import build_attached
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import Mode, build_overlay
from pubweave.design.tco.verify import verify
from pubweave.design.tree.cost import common_interest, tree_cost
from pubweave.design.tree.exact import cheapest_tree
from pubweave.design.tree.problem import DesignLimits, DesignProblem
from pubweave.design.tree.traffic import Prices, Traffic
from pubweave.model.ids import Link
from pubweave.model.topology import Topology


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


def warm_up_tco() -> None:
    """Build, churn and verify an overlay of few nodes in every way there is."""
    wanted = Subscriptions.of(
        {f"n{n}": [f"t{t}" for t in range(12) if (n * t + n + t) % 3] for n in range(12)}
    )
    links = build_overlay(wanted)
    build_overlay(wanted, Mode.GM)
    build_attached(wanted, 5, lambda attach, tasks: [attach(task) for task in tasks])
    verify(wanted, links)
    for settings in (
        ChurnSettings(),
        ChurnSettings(rule=DegreeRule.ALL, backups=Backups.GREEDY),
        ChurnSettings(rule=DegreeRule.ALL, method=Method.NAIVE),
    ):
        overlay = MaintainedOverlay(wanted, links, settings, np.random.default_rng(0))
        overlay.apply([Leave("n1"), Resubscribe("n2", ("new",), ("t1",)), Join("j", ("t1", "t2"))])
        overlay.update_backups()
        overlay.tidy()
        verify(*overlay.snapshot())


def warm_up() -> None:
    """Design trees of few brokers: proven, searched, and within limits."""
    for count in (6, 12):
        names = [f"b{number}" for number in range(1, count + 1)]
        source = Topology.from_links(list(pairwise(names)))
        pairs = [((names[n], names[(5 * n + 3) % count]), 1.0 + n) for n in range(count)]
        traffic = Traffic.of(
            names, [(pair, weight) for pair, weight in pairs if len(set(pair)) > 1]
        )
        rng = np.random.default_rng(count)
        links = rng.uniform(1, 2, (count, count))
        prices = Prices.from_matrix(traffic.brokers, np.ones(count), links + links.T)
        common_interest(traffic)
        tree_cost(traffic, prices, source)
        pinned = frozenset({Link.between(names[0], names[3])})
        for limits in (DesignLimits(), DesignLimits(max_degree=4), DesignLimits(pinned=pinned)):
            problem = DesignProblem(source, traffic, prices, limits)
            cheapest_tree(problem, stop=lambda: False, rng=np.random.default_rng(0))

    warm_up_tco()
    warm_up_dynatops()


def main() -> None:
    warm_up()
    sys.stdout.write("the design's kernels are compiled\n")


if __name__ == "__main__":
    main()

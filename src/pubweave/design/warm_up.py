"""Compiles every kernel that a design needs into numba's cache on disk.

``python -m pubweave.design.warm_up``, a step of ``make setup``, as `planning.warm_up` is for
plans: the first design of a new installation would otherwise compile for half a minute.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np

from pubweave.design.dynatops.warm_up import warm_up_dynatops
from pubweave.design.relocation.publisher import DeliveryStatistics, metrics
from pubweave.design.relocation.rules import DeliveryReport
from pubweave.design.tco.warm_up import warm_up_tco
from pubweave.design.tree.cost import common_interest, tree_cost
from pubweave.design.tree.exact import cheapest_tree
from pubweave.design.tree.prices import Prices
from pubweave.design.tree.problem import DesignLimits, DesignProblem
from pubweave.design.tree.traffic import Traffic
from pubweave.model.ids import Link
from pubweave.model.topology import Topology


def warm_up() -> None:
    """Design trees of few brokers: proven, searched, and within limits; relocate a publisher."""
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

    metrics(DeliveryStatistics.of({"b1": DeliveryReport(1, 1, {}, 1.0)}), 0)
    warm_up_tco()
    warm_up_dynatops()


def main() -> None:
    warm_up()
    sys.stdout.write("the design's kernels are compiled\n")


if __name__ == "__main__":
    main()

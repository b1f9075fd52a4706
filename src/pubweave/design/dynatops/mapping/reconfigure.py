"""When a new mapping pays (DYNATOPS, Algorithms 2 and 4, Eqs. 6 and 7).

Eq. 7 and section 5.1.2 put the cost of a reconfiguration in two ways; used is the second one,
|V| + (log2^2 |V| + |P| log2 |V|) * Gamma messages, Gamma being the brokers that change places, and
0 if there are none. The benefit counts over one reconfiguration free period: with few publications
per topic in it almost nothing pays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pubweave.design.dynatops.mapping.costs import MappingCost
from pubweave.design.dynatops.mapping.improvement import ImprovementPath
from pubweave.design.dynatops.mapping.problem import BrokerMapping, MappingProblem

DEMAND_SHARE = 0.1
"""beta of the reconfigurability test, Algorithm 2, step 2."""


@dataclass(frozen=True)
class CandidateMapping:
    """A place on a path: what the mapping there costs, and what it costs to get there."""

    path: int
    place: int
    cost: MappingCost
    changed: int
    reconfiguration_cost: float
    benefit: float

    @property
    def net(self) -> float:
        """Bft - Cst: what Algorithm 4 maximises."""
        return self.benefit - self.reconfiguration_cost


def reconfiguration_cost(brokers: int, topics: int, changed: int) -> float:
    """Cst of Eq. 7.

    >>> reconfiguration_cost(8, 2, 2)
    38.0
    """
    if not changed:
        return 0.0
    hops = math.log2(brokers)
    return brokers + (hops**2 + topics * hops) * changed


def has_demand(problem: MappingProblem, cost: MappingCost, beta: float = DEMAND_SHARE) -> bool:
    """Algorithm 2, step 2: whether so high a cost is worth computing anything at all."""
    brokers = problem.broker_count
    dearest = reconfiguration_cost(brokers, problem.wanted.topic_count, brokers)
    return cost.notification_cost > beta * dearest


def candidates(
    problem: MappingProblem, paths: Sequence[ImprovementPath], origin: BrokerMapping
) -> list[CandidateMapping]:
    """All places of all paths; the first path begins at the mapping that is there now."""
    now = paths[0].first_cost.notification_cost
    found = []
    for number, path in enumerate(paths):
        for place, changed in enumerate(path.changed_counts(origin).tolist()):
            cost = path.cost_at(place)
            price = reconfiguration_cost(problem.broker_count, problem.wanted.topic_count, changed)
            benefit = now - cost.notification_cost
            found.append(CandidateMapping(number, place, cost, changed, price, benefit))
    return found


def chosen(among: Sequence[CandidateMapping]) -> CandidateMapping:
    """Algorithm 4: the greatest Bft - Cst. Of equal ones the first, which is to stay."""
    return max(among, key=lambda each: each.net)


def pareto_front(among: Sequence[CandidateMapping]) -> list[CandidateMapping]:
    """Whom no other beats in both costs, from no change to the cheapest. O(k log k)."""
    front: list[CandidateMapping] = []
    order = sorted(among, key=lambda c: (c.reconfiguration_cost, c.cost.notification_cost))
    for candidate in order:
        cost = candidate.cost.notification_cost
        if not front or cost < front[-1].cost.notification_cost:
            front.append(candidate)
    return front

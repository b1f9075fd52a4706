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

import numpy as np

from pubweave.design.dynatops._kernels.trees import Floats
from pubweave.design.dynatops.mapping.best import best_mapping
from pubweave.design.dynatops.mapping.problem import (
    BrokerMapping,
    MappingCost,
    MappingProblem,
    mapping_cost,
)
from pubweave.design.dynatops.mapping.routed_overlay import RingRoutes
from pubweave.design.dynatops.mapping.swaps import ImprovementPath, ssbr_greedy

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


# The reconfiguration manager's decision, once per free period (DYNATOPS, Algorithm 2).
#
# Test the demand, compute a better mapping, and take it only if Bft > Cst (Algorithm 4, Eq. 7).
# `protocol_messages` counts what the four steps of section 5.1.2 would then really send: Eq. 7 is
# an upper bound that takes every moved broker to be wrong about every topic.


@dataclass(frozen=True, eq=False)
class Decision:
    """The mapping for the next period, and what it takes to get there."""

    mapping: BrokerMapping
    changed: int
    benefit: float
    reconfiguration_cost: float
    """Eq. 7."""
    messages: float
    """Counted by `protocol_messages`."""

    @property
    def has_changed(self) -> bool:
        return self.changed > 0


def decide(
    problem: MappingProblem, mapping: BrokerMapping, routes: RingRoutes, *, thorough: bool = False
) -> Decision:
    """Algorithm 2 with Algorithm 3's path, or with all of `best_mapping`'s.

    >>> from pubweave.design.tco.interests import Subscriptions
    >>> wanted = Subscriptions.of({"a": ["x"], "b": ["y"], "c": ["y"], "d": ["x"]})
    >>> problem = MappingProblem.of(wanted, {"x": 10, "y": 10})
    >>> decide(problem, problem.in_order(), RingRoutes.of(problem.ring)).has_changed
    False
    """
    stay = Decision(mapping, 0, 0.0, 0.0, 0.0)
    if not has_demand(problem, mapping_cost(problem, mapping)):
        return stay
    paths: tuple[ImprovementPath, ...]
    paths = best_mapping(problem, mapping).paths if thorough else (ssbr_greedy(problem, mapping),)
    choice = chosen(candidates(problem, paths, mapping))
    if choice.net <= 0:
        return stay
    taken = paths[choice.path].mapping_at(choice.place)
    return Decision(
        taken,
        choice.changed,
        choice.benefit,
        choice.reconfiguration_cost,
        protocol_messages(problem, mapping, taken, routes.hops.astype(np.float64)),
    )


def protocol_messages(
    problem: MappingProblem, before: BrokerMapping, after: BrokerMapping, hops: Floats
) -> float:
    """Messages of RCFG_INIT, OVERLAY, PUBSUB (3.1, 3.2) and FINISH, their answers included.

    ``hops`` are by position. 3.2: a moved broker joins and leaves those trees in which it and who
    was at its position before differ. O(n + topics of moved brokers)."""
    moved = np.flatnonzero(before != after)
    if not len(moved):
        return 0.0
    count = problem.broker_count
    joining = math.log2(count) ** 2 + 2
    # To everybody and back: RCFG_INIT, RCFG_PUBSUB, RCFG_FINISH.
    messages = 6.0 * count + joining * len(moved)
    was_at = np.argsort(before)
    for broker in moved.tolist():
        position = int(after[broker])
        messages += float(hops[position, before[broker]])
        own = problem.wanted.topics_of(broker)
        others = problem.wanted.topics_of(int(was_at[position]))
        wrong = np.setxor1d(own, others, assume_unique=True)
        messages += float(hops[problem.roots[wrong], position].sum())
    return messages

"""What a mapping costs (DYNATOPS Eqs. 1-5, 10-12) from scratch; rates to expect (Eq. 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pubweave.design.dynatops._kernels import trees as kernels
from pubweave.design.dynatops._kernels.trees import Floats
from pubweave.design.dynatops.mapping.problem import BrokerMapping, MappingProblem, Spread

RATE_SMOOTHING = 0.3
"""alpha_pub of Eq. 8."""


@dataclass(frozen=True)
class MappingCost:
    """Eqs. 3 to 5; Eqs. 1 and 2 are the sums of such costs over time slots.

    >>> MappingCost(2.0, 3.0, 0.5).notification_cost
    3.5
    >>> MappingCost(2.0, 3.0, 0.5) + MappingCost(1.0, 1.0, 0.5)
    MappingCost(relay_overhead=3.0, delay=4.0, delay_weight=0.5)
    """

    relay_overhead: float
    """Messages to relays: positions in a tree that are neither its root nor subscribers."""
    delay: float
    """Hops from the rendezvous, summed over all subscribing brokers and publications."""
    delay_weight: float

    @property
    def notification_cost(self) -> float:
        return self.relay_overhead + self.delay_weight * self.delay

    def __add__(self, other: MappingCost) -> MappingCost:
        if other.delay_weight != self.delay_weight:
            raise ValueError("costs with different weights of delay have no sum")
        return MappingCost(
            self.relay_overhead + other.relay_overhead, self.delay + other.delay, self.delay_weight
        )


@dataclass(frozen=True, eq=False)
class BrokerCosts:
    """Eqs. 10 and 11 by broker."""

    overhead: Floats
    delay: Floats
    delay_weight: float

    @property
    def total(self) -> Floats:
        """c_b of Eq. 12."""
        return self.overhead + self.delay_weight * self.delay


def broker_costs(problem: MappingProblem, mapping: BrokerMapping) -> BrokerCosts:
    """What each broker contributes. O(|P| n)."""
    trees, spread = problem.trees, Spread.of(problem, mapping)
    relayed, delayed = np.zeros(problem.broker_count), np.zeros(problem.broker_count)
    kernels.charge(
        trees.roots, trees.row_of, trees.depths, problem.publications, spread.here, spread.below,
        relayed, delayed,
    )  # fmt: skip
    return BrokerCosts(relayed[mapping], delayed[mapping], problem.delay_weight)


def mapping_cost(problem: MappingProblem, mapping: BrokerMapping) -> MappingCost:
    """Eqs. 3 to 5. O(|P| n).

    >>> from pubweave.design.tco.interests import Subscriptions
    >>> wanted = Subscriptions.of({"a": ["x"], "b": ["x", "y"], "c": ["y"]})
    >>> problem = MappingProblem.of(wanted, {"x": 10, "y": 5})
    >>> mapping_cost(problem, problem.in_order()).delay
    15.0
    """
    costs = broker_costs(problem, mapping)
    return MappingCost(float(costs.overhead.sum()), float(costs.delay.sum()), problem.delay_weight)


def event_overhead(problem: MappingProblem, mapping: BrokerMapping) -> float:
    """Messages from the rendezvous on, those to subscribers among them: the sum of N_p o_p."""
    trees, here = problem.trees, Spread.of(problem, mapping).here
    received = here.sum(axis=1) - here[np.arange(len(here)), trees.roots[trees.row_of]]
    to_subscribers = float((problem.publications * received).sum())
    return to_subscribers + mapping_cost(problem, mapping).relay_overhead


def expected_rates(
    expected: Mapping[str, float], measured: Mapping[str, float], alpha: float = RATE_SMOOTHING
) -> dict[str, float]:
    """Eq. 8: publications per topic in the next period; a topic that is new starts as measured.

    >>> expected_rates({"x": 10.0}, {"x": 20.0, "y": 4.0})
    {'x': 13.0, 'y': 4.0}
    """
    topics = [*expected, *(topic for topic in measured if topic not in expected)]
    return {
        topic: (1 - alpha) * expected[topic] + alpha * measured.get(topic, 0.0)
        if topic in expected
        else measured[topic]
        for topic in topics
    }

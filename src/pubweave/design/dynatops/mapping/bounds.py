"""No mapping costs less than this: proven lower bounds on the notification cost.

With unit hops a broker's delay at a position does not depend on who else is where, so the least
delay is a linear assignment, and relays cost 0 or more. Any prices of positions prove a bound on
an assignment: their sum, and for each broker what its cheapest position costs beyond its price.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubweave.design.dynatops._kernels import assignment as kernels
from pubweave.design.dynatops._kernels.trees import Floats
from pubweave.design.dynatops.mapping.problem import BrokerMapping, MappingProblem

DENSE_MOST = 4_000
"""Brokers; above, the n x n delays are not kept, and the bound is a weaker one."""

SLACK = 1e-9
"""Of the bound; where sums carry rounding, it must not end above the truth."""


@dataclass(frozen=True, eq=False)
class LeastDelay:
    """A lower bound on the delay of all mappings, and a mapping that has it if one is known."""

    delay: float
    mapping: BrokerMapping | None


def broker_delays(problem: MappingProblem) -> Floats:
    """Eq. 11 by broker and position. O(subscriptions * n)."""
    wanted, trees = problem.wanted, problem.trees
    delays = np.zeros((problem.broker_count, problem.broker_count))
    for broker in range(problem.broker_count):
        kernels.add_delays(
            trees.depths, trees.row_of, problem.publications, wanted.topics_of(broker),
            delays[broker],
        )  # fmt: skip
    return delays


def least_delay(problem: MappingProblem) -> LeastDelay:
    """Exact up to `DENSE_MOST` brokers. O(n^3) at worst there, O(subscriptions * n) above."""
    if problem.broker_count > DENSE_MOST:
        return LeastDelay(_reduced_bound(problem), None)
    delays = broker_delays(problem)
    mapping = np.empty(problem.broker_count, np.int64)
    prices = np.empty(problem.broker_count)
    kernels.assign(delays, mapping, prices)
    return LeastDelay(float(kernels.dual_bound(delays, prices)), mapping)


def lower_bound(problem: MappingProblem, least: LeastDelay) -> float:
    """On Eq. 5, for any mapping.

    >>> from pubweave.design.tco.interests import Subscriptions
    >>> wanted = Subscriptions.of({"a": ["x"], "b": ["y"], "c": ["y"], "d": ["x"]})
    >>> problem = MappingProblem.of(wanted, {"x": 10, "y": 10})
    >>> lower_bound(problem, least_delay(problem))
    20.0
    """
    bound = problem.delay_weight * least.delay
    return bound if problem.is_exact else max(0.0, bound * (1 - SLACK))


def _reduced_bound(problem: MappingProblem) -> float:
    """Prices of positions: what the broker that wants it most would wait there."""
    wanted, trees = problem.wanted, problem.trees
    return float(
        kernels.reduced_bound(
            trees.depths, trees.row_of, problem.publications, wanted.starts, wanted.topics
        )
    )

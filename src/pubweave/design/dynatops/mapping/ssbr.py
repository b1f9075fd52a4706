"""SSBR-Greedy (DYNATOPS, Algorithm 3): the bottleneck broker takes its best swap, again and again.

How it is read: a bottleneck is a broker with the highest cost c_b (Eq. 12); its neighborhood is
all n - 1 swaps with another broker, of equally good ones the first. Costs are sums of counts, so
several brokers may have the highest one, and the paper does not say which of them is meant: they
are tried in their order, and the first that has a swap which strictly lowers the notification cost
takes it. It ends when none of them has one. minC, which the paper never initialises, starts as the
cost of the first mapping. Brokers come in the order of `Subscriptions.nodes`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pubweave.design.dynatops._kernels import swaps as kernels
from pubweave.design.dynatops.mapping.improvement import ImprovementPath, OnSwaps, ignore_swaps
from pubweave.design.dynatops.mapping.problem import BrokerMapping, MappingProblem
from pubweave.design.dynatops.mapping.swaps import SwapState

SWAPS_AT_ONCE = 256
"""Between two looks at the stop."""


def never() -> bool:
    return False


def ssbr_greedy(
    problem: MappingProblem,
    mapping: BrokerMapping,
    *,
    stop: Callable[[], bool] = never,
    on_progress: OnSwaps = ignore_swaps,
) -> ImprovementPath:
    """The improvement path of Algorithm 3. O(n |S_b| + subscriptions) for each broker that is
    tried; there is one for each swap unless costs are equal.

    >>> from pubweave.design.tco.interests import Subscriptions
    >>> wanted = Subscriptions.of({"a": ["x"], "b": ["y"], "c": ["y"], "d": ["x"]})
    >>> problem = MappingProblem.of(wanted, {"x": 10, "y": 10})
    >>> path = ssbr_greedy(problem, problem.in_order())
    >>> path.first_cost.notification_cost, path.last_cost.notification_cost
    (60.0, 20.0)
    """
    state = SwapState.of(problem, mapping)
    first_cost = state.cost
    swaps, sums = [np.empty((0, 2), np.int64)], [np.empty((0, 2))]
    made, is_complete = 0, False
    while not is_complete and not stop():
        room, costs = np.empty((SWAPS_AT_ONCE, 2), np.int64), np.empty((SWAPS_AT_ONCE, 2))
        done = kernels.improve_bottleneck(
            state.given, state.current, state.prices, state.least_gain, room, costs
        )
        swaps.append(room[:done])
        sums.append(costs[:done])
        made += done
        is_complete = done < SWAPS_AT_ONCE
        on_progress(made, state.cost)
    return ImprovementPath(
        mapping.copy(), first_cost, np.concatenate(swaps), np.concatenate(sums), is_complete
    )

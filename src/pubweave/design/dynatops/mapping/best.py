"""A better mapping than Algorithm 3 finds: the least delay first, then everybody's best swaps.

With unit hops the delay alone is a linear assignment (`bounds`). From its optimum, and from where
Algorithm 3 ends, every broker in turn takes its best swap until nobody has one that helps.
Algorithm 3 looks at the bottleneck only, and stops where that is stuck.

From the cheaper end, assignments go on: a position's cost for a broker is its delay and the relays
that its topics' trees, as they are now, would need for it. That is wrong as soon as others move,
too, but it moves many at once where swaps find nothing; sweeps mend the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pubweave.design.dynatops._kernels import assignment as kernels
from pubweave.design.dynatops._kernels.swaps import sweep
from pubweave.design.dynatops._kernels.trees import Floats
from pubweave.design.dynatops.mapping.problem import BrokerMapping, MappingProblem, Spread
from pubweave.design.dynatops.mapping.swaps import (
    ImprovementPath,
    OnSwaps,
    SwapState,
    ignore_swaps,
    never,
    ssbr_greedy,
)

# No mapping costs less than this: proven lower bounds on the notification cost.
#
# With unit hops a broker's delay at a position does not depend on who else is where, so the least
# delay is a linear assignment, and relays cost 0 or more. Any prices of positions prove a bound on
# an assignment: their sum, and for each broker what its cheapest position costs beyond its price.


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


ROUNDS = 5
"""Of assignments after the first; each saves less than the one before."""

BROKERS_AT_ONCE = 64
"""Between two looks at the stop."""


@dataclass(frozen=True, eq=False)
class BestMapping:
    """The cheapest end of all paths, the paths (Algorithm 3's first), and a bound on any cost."""

    path: ImprovementPath
    paths: tuple[ImprovementPath, ...]
    bound: float


def best_mapping(
    problem: MappingProblem,
    mapping: BrokerMapping,
    *,
    stop: Callable[[], bool] = never,
    on_progress: OnSwaps = ignore_swaps,
) -> BestMapping:
    """O(n^3) at worst for the assignment, O(n^2 |S_b| + n subscriptions) for each sweep.

    >>> from pubweave.design.tco.interests import Subscriptions
    >>> wanted = Subscriptions.of({"a": ["x"], "b": ["y"], "c": ["y"], "d": ["x"]})
    >>> problem = MappingProblem.of(wanted, {"x": 10, "y": 10})
    >>> found = best_mapping(problem, problem.in_order())
    >>> found.path.last_cost.notification_cost, found.bound
    (20.0, 20.0)
    """
    greedy = ssbr_greedy(problem, mapping, stop=stop, on_progress=on_progress)
    least = least_delay(problem)
    paths = [greedy]
    starts = [greedy.last] if least.mapping is None else [least.mapping, greedy.last]
    for start in starts:
        if not stop():
            paths.append(swept(problem, start, stop=stop, on_progress=on_progress))
    path = _cheapest(paths)
    for _ in range(ROUNDS if least.mapping is not None else 0):
        if stop():
            break
        start = reassigned(problem, path.last)
        paths.append(swept(problem, start, stop=stop, on_progress=on_progress))
        if _cheapest(paths) is path:
            break
        path = paths[-1]
    return BestMapping(path, tuple(paths), lower_bound(problem, least))


def _cheapest(paths: Sequence[ImprovementPath]) -> ImprovementPath:
    return min(paths, key=lambda each: each.last_cost.notification_cost)


def reassigned(problem: MappingProblem, mapping: BrokerMapping) -> BrokerMapping:
    """Everybody where it would cost least, were the trees to stay as under this mapping. O(n^3)."""
    changes = Spread.of(problem, mapping).relay_changes(problem)
    costs = problem.delay_weight * broker_delays(problem)
    for broker in range(problem.broker_count):
        costs[broker] += changes[problem.wanted.topics_of(broker)].sum(axis=0)
    found, prices = np.empty(problem.broker_count, np.int64), np.empty(problem.broker_count)
    kernels.assign(costs, found, prices)
    return found


def swept(
    problem: MappingProblem,
    mapping: BrokerMapping,
    *,
    stop: Callable[[], bool] = never,
    on_progress: OnSwaps = ignore_swaps,
) -> ImprovementPath:
    """Swaps until no swap of any two brokers helps."""
    state = SwapState.of(problem, mapping)
    first_cost, count = state.cost, problem.broker_count
    swaps, sums = [np.empty((0, 2), np.int64)], [np.empty((0, 2))]
    made, at, idle = 0, 0, 0
    while idle < count and not stop():
        order = (at + np.arange(min(BROKERS_AT_ONCE, count), dtype=np.int64)) % count
        room, costs = np.empty((len(order), 2), np.int64), np.empty((len(order), 2))
        done = sweep(state.given, state.current, state.prices, state.least_gain, order, room, costs)
        swaps.append(room[:done])
        sums.append(costs[:done])
        made, at = made + done, (at + len(order)) % count
        # Whoever was looked at before the last swap of this lot may have one now.
        idle = 0 if done else idle + len(order)
        on_progress(made, state.cost)
    return ImprovementPath(
        mapping.copy(), first_cost, np.concatenate(swaps), np.concatenate(sums), idle >= count
    )

"""Kernels that choose swaps: the bottleneck's best one (Algorithm 3), or everybody's in turn."""

from __future__ import annotations

from numba import njit

from pubweave.design.dynatops._kernels_swaps import Current, Given, Prices, best_swap, swap
from pubweave.design.dynatops._kernels_trees import Floats, Integers


@njit(cache=True)
def bottleneck(given: Given, current: Current) -> int:
    """The broker with the highest c_b (Eq. 12); of equal ones the first."""
    highest, found = -1.0, 0
    for b in range(len(current.position_of)):
        v = current.position_of[b]
        cost = current.relayed[v] + given.weight * current.delayed[v]
        if cost > highest:
            highest, found = cost, b
    return found


@njit(cache=True)
def improve_bottleneck(
    given: Given,
    current: Current,
    prices: Prices,
    least_gain: float,
    swaps: Integers,
    sums: Floats,
) -> int:
    """Iterations of Algorithm 3 into the given room; fewer than the room when it has stopped."""
    for step in range(len(swaps)):
        a = bottleneck(given, current)
        b = best_swap(given, current, a, prices, least_gain)
        if b < 0:
            return step
        swap(given, current, a, b)
        swaps[step, 0], swaps[step, 1] = a, b
        sums[step] = current.sums
    return len(swaps)


@njit(cache=True)
def sweep(
    given: Given,
    current: Current,
    prices: Prices,
    least_gain: float,
    order: Integers,
    swaps: Integers,
    sums: Floats,
) -> int:
    """Each broker of the order takes its best swap; returns how many were made."""
    made = 0
    for step in range(len(order)):
        b = best_swap(given, current, order[step], prices, least_gain)
        if b >= 0:
            swap(given, current, order[step], b)
            swaps[made, 0], swaps[made, 1] = order[step], b
            sums[made] = current.sums
            made += 1
    return made

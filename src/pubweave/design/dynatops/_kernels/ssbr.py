"""Kernels that choose swaps: a bottleneck's best one (Algorithm 3), or everybody's in turn."""

from __future__ import annotations

from numba import njit

from pubweave.design.dynatops._kernels.swaps import Current, SwapInputs, SwapPrices, best_swap, swap
from pubweave.design.dynatops._kernels.trees import Floats, Integers


@njit(cache=True)
def highest_cost(given: SwapInputs, current: Current) -> float:
    """The highest c_b (Eq. 12) of any broker."""
    highest = -1.0
    for v in range(len(current.position_of)):
        highest = max(highest, broker_cost(given, current, v))
    return highest


@njit(cache=True)
def broker_cost(given: SwapInputs, current: Current, v: int) -> float:
    """c_b (Eq. 12) of the broker at a position."""
    cost: float = current.relayed[v] + given.weight * current.delayed[v]
    return cost


@njit(cache=True)
def improve_bottleneck(
    given: SwapInputs,
    current: Current,
    prices: SwapPrices,
    least_gain: float,
    swaps: Integers,
    sums: Floats,
) -> int:
    """Iterations of Algorithm 3 into the given room; fewer than the room when it has stopped."""
    for step in range(len(swaps)):
        highest = highest_cost(given, current)
        chosen = -1
        for a in range(len(current.position_of)):
            if broker_cost(given, current, current.position_of[a]) < highest:
                continue
            chosen = best_swap(given, current, a, prices, least_gain)
            if chosen >= 0:
                swap(given, current, a, chosen)
                swaps[step, 0], swaps[step, 1] = a, chosen
                sums[step] = current.sums
                break
        if chosen < 0:
            return step
    return len(swaps)


@njit(cache=True)
def sweep(
    given: SwapInputs,
    current: Current,
    prices: SwapPrices,
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

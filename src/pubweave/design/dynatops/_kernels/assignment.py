"""Kernels of the linear assignment problem: rows to columns at the least sum, with prices as proof.

Column prices v make row i prefer the columns where ``costs[i, j] - v[j]`` is least. For any v, the
sum of v and of these minima is a lower bound on every assignment; at the end it is the optimum.
Arrays only; the naive twin tries all permutations.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pubweave.design.dynatops._kernels.trees import Floats, Indices, Integers


@njit(cache=True)
def assign(costs: Floats, column_of: Integers, prices: Floats) -> None:
    """The cheapest assignment, by shortest augmenting paths. O(n^3) at worst, often near n^2."""
    count = len(costs)
    row_at = np.full(count, -1, np.int64)
    column_of[:] = -1
    for j in range(count - 1, -1, -1):
        cheapest = 0
        for i in range(1, count):
            if costs[i, j] < costs[cheapest, j]:
                cheapest = i
        prices[j] = costs[cheapest, j]
        if column_of[cheapest] < 0:
            column_of[cheapest], row_at[j] = j, cheapest
    for _ in range(2):
        _outbid(costs, column_of, row_at, prices)
    for i in range(count):
        if column_of[i] < 0:
            _augment(costs, i, column_of, row_at, prices)


@njit(cache=True)
def _outbid(costs: Floats, column_of: Integers, row_at: Integers, prices: Floats) -> None:
    """Rows without a column take their best one from whoever has it, and lower its price."""
    count = len(costs)
    waiting = np.flatnonzero(column_of < 0)
    left, place, budget = len(waiting), 0, 4 * count
    while place < left and budget > 0:
        budget -= 1
        i = waiting[place]
        place += 1
        best, second, j = np.inf, np.inf, 0
        for other in range(count):
            value = costs[i, other] - prices[other]
            if value < best:
                best, second, j = value, best, other
            elif value < second:
                second = value
        owner = row_at[j]
        if second > best:
            prices[j] -= second - best
        elif owner >= 0:
            continue
        column_of[i], row_at[j] = j, i
        if owner >= 0:
            column_of[owner] = -1
            place -= 1
            waiting[place] = owner


@njit(cache=True)
def _augment(
    costs: Floats, start: int, column_of: Integers, row_at: Integers, prices: Floats
) -> None:
    """Dijkstra from one row to a free column; then the rows on the way move up by one."""
    count = len(costs)
    distance = costs[start] - prices
    came_from = np.full(count, start, np.int64)
    columns = np.arange(count)
    settled, level_end = 0, 0
    level, free = 0.0, -1
    while free < 0:
        if settled == level_end:
            level, level_end, free = _next_level(distance, columns, settled, row_at)
            if free >= 0:
                break
        j = columns[settled]
        settled += 1
        i = row_at[j]
        offset = costs[i, j] - prices[j] - level
        for place in range(level_end, count):
            other = columns[place]
            value = costs[i, other] - prices[other] - offset
            if value >= distance[other]:
                continue
            distance[other], came_from[other] = value, i
            if value == level and row_at[other] < 0:
                free = other
                break
            if value == level:
                columns[place], columns[level_end] = columns[level_end], other
                level_end += 1
    for place in range(settled):
        j = columns[place]
        prices[j] += distance[j] - level
    while True:
        i = came_from[free]
        row_at[free] = i
        column_of[i], free = free, column_of[i]
        if i == start:
            return


@njit(cache=True)
def _next_level(
    distance: Floats, columns: Integers, settled: int, row_at: Integers
) -> tuple[float, int, int]:
    """The least distance of what is not settled, its columns moved to the front, a free one."""
    level, end = np.inf, settled
    for place in range(settled, len(columns)):
        j = columns[place]
        if distance[j] <= level:
            if distance[j] < level:
                level, end = distance[j], settled
            columns[place], columns[end] = columns[end], j
            end += 1
    for place in range(settled, end):
        if row_at[columns[place]] < 0:
            return level, end, columns[place]
    return level, end, -1


@njit(cache=True)
def dual_bound(costs: Floats, prices: Floats) -> float:
    """A lower bound on every assignment, whatever the prices."""
    total: float = prices.sum()
    for i in range(len(costs)):
        total += (costs[i] - prices).min()
    return total


@njit(cache=True)
def add_delays(
    depths: Indices, row_of: Integers, publications: Floats, topics: Indices, delays: Floats
) -> None:
    """Eq. 11 of a broker with these topics, added by position."""
    for p in topics:
        row, count = row_of[p], publications[p]
        for v in range(len(delays)):
            delays[v] += count * depths[row, v]


@njit(cache=True)
def reduced_bound(
    depths: Indices, row_of: Integers, publications: Floats, starts: Integers, topics: Indices
) -> float:
    """`dual_bound` of brokers' delays without keeping them, for the prices no broker is below."""
    count = depths.shape[1]
    delays, prices = np.empty(count), np.full(count, np.inf)
    total = 0.0
    for is_second in (False, True):
        for b in range(count):
            delays[:] = 0.0
            add_delays(depths, row_of, publications, topics[starts[b] : starts[b + 1]], delays)
            if is_second:
                total += (delays - prices).min()
            else:
                prices[:] = np.minimum(prices, delays)
    return total + float(prices.sum())

"""The judge for large plans of shifts only: the rules of `validate`, on arrays.

`validate` asks here first where there are many brokers: at 10,000 it takes seconds where this takes
a few hundredths. It never refuses on its own: what it does not accept goes to the slow judge, which
says why. It imports values only, no planner code.

A link is a key low * count + high. The table holds every link that was ever there: its key, whether
it is there now, and the steps in which it was last removed, added and leaned on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
from numba import njit

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Plan, Shift
from pubweave.planning.problem.problem import PlanningProblem

_KEY, _ROW, _REMOVED, _ADDED, _PIVOT = range(5)
_ABSENT = -1


@njit(cache=True)
def _slot(table: Ints, a: int, b: int, count: int) -> int:
    """The place of a link in the table, made where it has none."""
    key = min(a, b) * count + max(a, b)
    # Links of one broker are neighbors as numbers: spread them.
    place = ((key % 4294967291) * 2654435761 >> 12) & (len(table) - 1)
    while table[place, _KEY] != key:
        if table[place, _KEY] == _ABSENT:
            table[place, _KEY] = key
            break
        place = (place + 1) & (len(table) - 1)
    return place


@njit(cache=True)
def _has(keys: Ints, key: int) -> bool:
    at = np.searchsorted(keys, key)
    return bool(at < len(keys) and keys[at] == key)


@njit(cache=True)
def _is_connected(ends: Ints, leader: Ints) -> bool:
    """Whether so many links as a tree has join all brokers: each must join two parts."""
    for broker in range(len(leader)):
        leader[broker] = broker
    for row in range(len(ends)):
        a, b = ends[row, 0], ends[row, 1]
        while leader[a] != a:
            leader[a] = leader[leader[a]]
            a = leader[a]
        while leader[b] != b:
            leader[b] = leader[leader[b]]
            b = leader[b]
        if a == b:
            return False
        leader[a] = b
    return True


@njit(cache=True)
def _allows(row: Ints, table: Ints, count: int, fixed: Ints, forbidden: Ints) -> bool:
    """One shift against the state before its step and the shifts of the step so far."""
    step, i, j, k = row[0], row[1], row[2], row[3]
    if i in (j, k) or j == k:
        return False
    removed, pivot = _slot(table, i, j, count), _slot(table, j, k, count)
    added = _slot(table, i, k, count)
    if table[removed, _ROW] == _ABSENT or table[pivot, _ROW] == _ABSENT:
        return False
    if table[added, _ROW] != _ABSENT or _has(forbidden, table[added, _KEY]):
        return False
    if table[removed, _REMOVED] == step or _has(fixed, table[removed, _KEY]):
        return False
    if table[added, _ADDED] == step:
        return False
    table[removed, _REMOVED] = step
    table[added, _ADDED] = step
    table[pivot, _PIVOT] = step
    return True


@njit(cache=True)
def _carry_out(rows: Ints, table: Ints, ends: Ints, degree: Ints) -> bool:
    """Do the shifts of one step; False where a link that one of them leans on is removed."""
    count = len(degree)
    for n in range(len(rows)):
        removed = _slot(table, rows[n, 1], rows[n, 2], count)
        if table[removed, _PIVOT] == rows[n, 0]:
            return False
        added = _slot(table, rows[n, 1], rows[n, 3], count)
        place = table[removed, _ROW]
        table[removed, _ROW] = _ABSENT
        table[added, _ROW] = place
        ends[place, 0], ends[place, 1] = rows[n, 1], rows[n, 3]
        degree[rows[n, 2]] -= 1
        degree[rows[n, 3]] += 1
    return True


@njit(cache=True)
def is_valid(
    rows: Ints, links: Ints, target: Ints, fixed: Ints, forbidden: Ints, limits: Ints
) -> bool:
    """Whether shifts (step from 1, i, j, k), in the order of their steps, make a valid plan.

    ``links`` are the source's; ``target``, ``fixed`` (must not be removed) and ``forbidden`` are
    sorted keys. ``limits`` = (brokers, degree limit or 0, disjoint brokers 0/1)."""
    count = limits[0]
    size = 16
    while size < 2 * (len(links) + 2 * len(rows)):
        size *= 2
    table = np.full((size, 5), _ABSENT, np.int64)
    degree = np.zeros(count, np.int64)
    for n in range(len(links)):
        table[_slot(table, links[n, 0], links[n, 1], count), _ROW] = n
        degree[links[n, 0]] += 1
        degree[links[n, 1]] += 1
    ends = links.copy()
    leader = np.empty(count, np.int64)
    busy = np.zeros(count, np.int64)
    first = 0
    while first < len(rows):
        step, last = rows[first, 0], first
        while last < len(rows) and rows[last, 0] == step:
            if not _allows(rows[last], table, count, fixed, forbidden):
                return False
            for broker in rows[last, 1:]:
                if limits[2] and busy[broker] == step:
                    return False
                busy[broker] = step
            last += 1
        if not _carry_out(rows[first:last], table, ends, degree):
            return False
        if (limits[1] and degree.max() > limits[1]) or not _is_connected(ends, leader):
            return False
        first = last
    reached = np.sort(
        np.minimum(ends[:, 0], ends[:, 1]) * count + np.maximum(ends[:, 0], ends[:, 1])
    )
    return bool(np.array_equal(reached, target))


Ints = npt.NDArray[np.int64]


def accepts(problem: PlanningProblem, plan: Plan) -> bool:
    """True only where the plan is valid; False says nothing where it has other actions than shifts.

    Source and target must be trees."""
    if problem.source.brokers != problem.target.brokers or not all(plan.steps):
        return False
    number = {broker: index for index, broker in enumerate(problem.source.brokers)}
    rows = _rows(plan, number)
    if rows is None:
        return False
    target = _keys(number, problem.target.links)
    pinned = _keys(number, problem.pinned)
    limits = [len(number), problem.max_degree or 0, int(problem.disjoint_brokers)]
    return is_valid(
        rows,
        _pairs(number, problem.source.links),
        target,
        np.union1d(target, pinned) if len(pinned) else target,
        _keys(number, problem.forbidden),
        np.array(limits, dtype=np.int64),
    )


def _rows(plan: Plan, number: Mapping[BrokerId, int]) -> Ints | None:
    """Rows (step from 1, mover, old peer, new peer); None where they do not say the plan."""
    rows = []
    try:
        for place, step in enumerate(plan.steps, 1):
            for action in step:
                if not isinstance(action, Shift):
                    return None
                rows.append(
                    (place, number[action.mover], number[action.old_peer], number[action.new_peer])
                )
    except KeyError:
        return None
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _pairs(number: Mapping[BrokerId, int], links: Iterable[Link]) -> Ints:
    """Each link as two numbers; links of brokers that are not there cannot matter."""
    ends = [number.get(end, -1) for link in links for end in link]
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return pairs[pairs.min(axis=1) >= 0] if len(pairs) else pairs


def _keys(number: Mapping[BrokerId, int], links: Iterable[Link]) -> Ints:
    pairs = _pairs(number, links)
    keys: Ints = np.sort(pairs.min(axis=1) * len(number) + pairs.max(axis=1))
    return keys

"""Kernels of topic trees and of overlays by their routes. Arrays only; naive twins in
``tests/naive/dynatops.py`` and ``dynatops_systems.py``.

Greedy routes from one root never pass their end, so the routes to all positions form a tree, and
the positions below one are a run of the ring. Clockwise from the root, a parent comes before its
children: one pass over the ring is a pass down the tree; against the clock, up.

Routes: ``parents[a, v]`` is the broker before v on the route from a; ``parents[a, a]`` is a.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]
Flags = npt.NDArray[np.uint8]


@njit(cache=True)
def grow_tree(fingers: Indices, root: int, parents: Indices, depths: Indices) -> None:
    """The parent and the depth of every position; the root is its own parent. O(n log n)."""
    count = len(fingers)
    ends = np.empty(count, np.int64)
    ends[root] = count
    parents[root], depths[root] = root, 0
    for offset in range(count):
        v = root + offset if root + offset < count else root + offset - count
        # A later finger ends what the one before is responsible for.
        last = -1
        for k in range(fingers.shape[1]):
            ahead = fingers[v, k] - v
            if ahead < 0:
                ahead += count
            if ahead == 0 or offset + ahead >= ends[v]:
                continue
            child = fingers[v, k]
            if child == last:
                continue
            if last >= 0:
                ends[last] = offset + ahead
            ends[child] = ends[v]
            parents[child], depths[child] = v, depths[v] + 1
            last = child


@njit(cache=True)
def grow_trees(fingers: Indices, roots: Integers, parents: Indices, depths: Indices) -> None:
    """One row for each of the roots."""
    for row in range(len(roots)):
        grow_tree(fingers, roots[row], parents[row], depths[row])


@njit(cache=True)
def count_below(
    parents: Indices,
    roots: Integers,
    row_of: Integers,
    starts: Integers,
    topics: Indices,
    position_of: Integers,
    here: Flags,
    below: Indices,
) -> None:
    """By topic and position: is a subscriber there, and how many are there and below."""
    count = len(position_of)
    for b in range(count):
        for slot in range(starts[b], starts[b + 1]):
            here[topics[slot], position_of[b]] = 1
            below[topics[slot], position_of[b]] = 1
    for p in range(len(row_of)):
        row, root = row_of[p], roots[row_of[p]]
        for offset in range(count - 1, 0, -1):
            v = root + offset if root + offset < count else root + offset - count
            below[p, parents[row, v]] += below[p, v]


@njit(cache=True)
def charge(
    roots: Integers,
    row_of: Integers,
    depths: Indices,
    publications: Floats,
    here: Flags,
    below: Indices,
    relayed: Floats,
    delayed: Floats,
) -> None:
    """Eqs. 10 and 11 by position: what it relays unasked, and how far its own come."""
    for p in range(len(row_of)):
        root = roots[row_of[p]]
        for v in range(here.shape[1]):
            if here[p, v]:
                delayed[v] += publications[p] * depths[row_of[p], v]
            elif below[p, v] and v != root:
                relayed[v] += publications[p]


@njit(cache=True)
def relay_changes(
    parents: Indices,
    roots: Integers,
    row_of: Integers,
    publications: Floats,
    here: Flags,
    below: Indices,
    changes: Floats,
) -> None:
    """By topic and position: what a subscriber more there would change of the relay overhead."""
    count = here.shape[1]
    added = np.zeros(count, np.int64)
    for p in range(len(row_of)):
        row, root = row_of[p], roots[row_of[p]]
        added[root] = 0
        changes[p, root] = 0.0
        for offset in range(1, count):
            v = root + offset if root + offset < count else root + offset - count
            added[v] = 0 if below[p, v] else added[parents[row, v]] + 1
            # On a new way it is no relay itself; on an old one it was, unless it is one more here.
            change = 0 if here[p, v] else added[v] - 1
            changes[p, v] = publications[p] * change


@njit(cache=True)
def count_hops(parents: Indices, hops: Indices) -> None:
    """How long all routes are. O(n^2 * hops)."""
    for a in range(len(parents)):
        for v in range(len(parents)):
            at, count = v, 0
            while at != a:
                at = parents[a, at]
                count += 1
            hops[a, v] = count


@njit(cache=True)
def add_delays(parents: Indices, hops: Indices, rtt: Floats, delays: Floats) -> None:
    """The delay of all routes: what their hops take. O(n^2 * hops)."""
    for a in range(len(parents)):
        for level in range(1, hops[a].max() + 1):
            for v in range(len(parents)):
                if hops[a, v] == level:
                    before = parents[a, v]
                    delays[a, v] = delays[a, before] + rtt[before, v]


@njit(cache=True)
def tree_sizes(
    parents: Indices, roots: Integers, wanted: Flags, messages: Integers, relays: Integers
) -> None:
    """By topic: brokers in the tree but for its root, and those of them that do not want it."""
    marks = np.full(len(parents), -1, np.int64)
    for p in range(len(roots)):
        root = roots[p]
        marks[root] = p
        for b in range(len(wanted)):
            if not wanted[b, p]:
                continue
            v = b
            while marks[v] != p:
                marks[v] = p
                messages[p] += 1
                relays[p] += wanted[v, p] == 0
                v = parents[root, v]


@njit(cache=True)
def hops_within(
    starts: Integers,
    neighbors: Indices,
    wanted: Flags,
    publishers: Integers,
    topics: Integers,
    users: Indices,
    outcome: Floats,
) -> None:
    """Publications that spread among the brokers that want a topic, by the shortest ways.

    A publisher's broker that does not want the topic hands it to a neighbor that does, or else to
    the first broker that does. ``outcome``: messages, users reached, hops to them all."""
    count = len(wanted)
    queue, hops = np.empty(count, np.int64), np.empty(count, np.int64)
    for k in range(len(publishers)):
        p, first, extra = topics[k], publishers[k], 0
        if not wanted[first, p]:
            first, extra = _entrance(starts, neighbors, wanted, first, p), 1
            if first < 0:
                continue
        hops[:] = -1
        hops[first] = extra
        queue[0], read, write = first, 0, 1
        while read < write:
            at = queue[read]
            read += 1
            outcome[1] += users[at, p]
            outcome[2] += users[at, p] * hops[at]
            for slot in range(starts[at], starts[at + 1]):
                v = neighbors[slot]
                if wanted[v, p] and hops[v] < 0:
                    hops[v] = hops[at] + 1
                    queue[write] = v
                    write += 1
        outcome[0] += write - 1 + extra


@njit(cache=True)
def _entrance(starts: Integers, neighbors: Indices, wanted: Flags, at: int, p: int) -> int:
    for slot in range(starts[at], starts[at + 1]):
        if wanted[neighbors[slot], p]:
            return int(neighbors[slot])
    for b in range(len(wanted)):
        if wanted[b, p]:
            return b
    return -1


@njit(cache=True)
def route_by_prefix(table: Indices, digits: Indices, parents: Indices) -> None:
    """All routes that make one digit more right at each hop (Tapestry). O(n^2 * digits)."""
    for a in range(len(digits)):
        for end in range(len(digits)):
            at, before, level = a, a, 0
            while at != end:
                while digits[at, level] == digits[end, level]:
                    level += 1
                before, at = at, table[at, level, digits[end, level]]
            parents[a, end] = before


@njit(cache=True)
def fill_prefix_table(digits: Indices, rtt: Floats, by_rtt: bool, table: Indices) -> None:
    """By broker, level and digit: who shares so long a prefix and goes on with that digit.

    Of several the nearest, or (``by_rtt`` false) one that depends on the broker only. Brokers are
    in the order of their ids."""
    count, levels = digits.shape
    table[:] = -1
    for a in range(count):
        low, high = 0, count
        for level in range(levels):
            start = low
            own_low, own_high = low, high
            while start < high:
                stop = start + 1
                while stop < high and digits[stop, level] == digits[start, level]:
                    stop += 1
                table[a, level, digits[start, level]] = _one_of(a, start, stop, rtt, by_rtt)
                if digits[start, level] == digits[a, level]:
                    own_low, own_high = start, stop
                start = stop
            low, high = own_low, own_high
            if high - low <= 1:
                break


@njit(cache=True)
def _one_of(a: int, start: int, stop: int, rtt: Floats, by_rtt: bool) -> int:
    if start <= a < stop:
        return a
    if not by_rtt:
        return start + (a * 7919 + start) % (stop - start)
    found = start
    for v in range(start, stop):
        if rtt[a, v] < rtt[a, found]:
            found = v
    return found


@njit(cache=True)
def route_by_heads(heads: Indices, parents: Indices) -> None:
    """All routes up to the first square that has both ends and down again (GeoPS).

    ``heads[level, leaf]`` hosts the square of that level around the leaf; one that hosts several on
    the way counts once. O(n^2 * levels)."""
    levels, count = heads.shape
    for a in range(count):
        for end in range(count):
            top = 0
            while heads[top, a] != heads[top, end] or not _is_same_square(a, end, top, count):
                top += 1
            at, before = a, a
            for level in range(1, top + 1):
                if heads[level, a] != at:
                    before, at = at, heads[level, a]
            for level in range(top - 1, -1, -1):
                if heads[level, end] != at:
                    before, at = at, heads[level, end]
            parents[a, end] = before if levels else a


@njit(cache=True)
def _is_same_square(a: int, b: int, level: int, count: int) -> bool:
    side = 1
    while side * side < count:
        side *= 2
    rows = a // side >> level == b // side >> level
    return rows and a % side >> level == b % side >> level

"""Kernels on trees as arrays; naive twins in ``tests/naive/design.py``. Arrays only, no names.

A rooted tree is ``parent`` (-1 at the root), ``order`` (vertices in preorder), ``enter`` (place of
a vertex in it) and ``leave`` (place behind its subtree): u is in the subtree of v exactly if
enter[v] <= enter[u] < leave[v].

Exchanges, priced exactly, in two ways. **Take one away, put it back elsewhere** (`side_costs`,
`best_pair`): without a link the tree has two sides, and a set with members on both pays on each
side for the way from its own delivery tree to the new link's end. That way uses a link exactly if
all the set's members of that side are beyond it, so two weights per link give the cost for every
end at once, and one pass over the sets that cross the link prices all places where it could go.
**Add one, see which goes** (`ring_savings`): on the ring that a new link closes, a set needs all
but one of the gaps between its members' places; removing a link saves the gap it lies in.

Bounds for branch and bound: links are decided one by one, in or out. The forest of those that are
in fixes the delivery tree of a set within each of its parts; a set that touches several parts must
still leave all but one of them over their cheapest undecided link. Vertices and links are bits of
words: at most 11 vertices, so that 55 links fit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]


@njit(cache=True)
def row_starts(edges: Integers, count: int) -> Integers:
    """Where each vertex's edges begin in a list of all ends, vertex by vertex."""
    starts = np.zeros(count + 1, np.int64)
    for e in range(len(edges)):
        starts[edges[e, 0] + 1] += 1
        starts[edges[e, 1] + 1] += 1
    for v in range(count):
        starts[v + 1] += starts[v]
    return starts


@njit(cache=True)
def root_tree(
    edges: Integers, root: int, parent: Integers, order: Integers, enter: Integers, leave: Integers
) -> int:
    """Fill the arrays of the tree with these edges; returns how many vertices were reached."""
    count = len(parent)
    degree = row_starts(edges, count)
    fill = degree[:count].copy()
    ends = np.empty(2 * len(edges), np.int64)
    for e in range(len(edges)):
        a, b = edges[e, 0], edges[e, 1]
        ends[fill[a]] = b
        fill[a] += 1
        ends[fill[b]] = a
        fill[b] += 1
    parent[:] = -2
    stack = np.empty(count, np.int64)
    stack[0] = root
    parent[root] = -1
    depth, reached = 1, 0
    while depth > 0:
        depth -= 1
        v = stack[depth]
        enter[v] = reached
        order[reached] = v
        reached += 1
        for place in range(degree[v], degree[v + 1]):
            u = ends[place]
            if parent[u] == -2:
                parent[u] = v
                stack[depth] = u
                depth += 1
    for v in range(count):
        leave[v] = enter[v] + 1
    for place in range(reached - 1, 0, -1):
        v = order[place]
        if leave[v] > leave[parent[v]]:
            leave[parent[v]] = leave[v]
    return reached


@njit(cache=True)
def usage(
    starts: Integers,
    members: Indices,
    weights: Floats,
    parent: Integers,
    enter: Integers,
    leave: Integers,
    link_load: Floats,
    broker_load: Floats,
) -> None:
    """Weight of the sets whose delivery tree has the link above a vertex, and the vertex itself.

    The delivery tree of a set hangs from the lowest vertex above all members; below it, every
    vertex on the way up from a member belongs to it.
    """
    link_load[:] = 0.0
    broker_load[:] = 0.0
    seen = np.full(len(parent), -1, np.int64)
    for s in range(len(weights)):
        first = last = members[starts[s]]
        for place in range(starts[s] + 1, starts[s + 1]):
            m = members[place]
            if enter[m] < enter[first]:
                first = m
            if enter[m] > enter[last]:
                last = m
        top = first
        while leave[top] <= enter[last]:
            top = parent[top]
        seen[top] = s
        broker_load[top] += weights[s]
        for place in range(starts[s], starts[s + 1]):
            v = members[place]
            while seen[v] != s:
                seen[v] = s
                link_load[v] += weights[s]
                broker_load[v] += weights[s]
                v = parent[v]


@njit(cache=True)
def common_interest(starts: Integers, members: Indices, weights: Floats, common: Floats) -> None:
    """I_ij of all pairs: the weight of the sets with both; I_i on the diagonal."""
    common[:] = 0.0
    for s in range(len(weights)):
        for place in range(starts[s], starts[s + 1]):
            for other in range(starts[s], starts[s + 1]):
                common[members[place], members[other]] += weights[s]


@njit(cache=True)
def _bits_cost(bits: int, prices: Floats) -> float:
    cost = 0.0
    place = 0
    while bits:
        if bits & 1:
            cost += prices[place]
        bits >>= 1
        place += 1
    return cost


@njit(cache=True)
def lower_bound(
    label: Integers,
    ways: Integers,
    cheapest: Floats,
    masks: Integers,
    weights: Floats,
    processing: Floats,
    prices: Floats,
    ceiling: float,
) -> float:
    """What all sets cost at least, given a forest; ends early above ``ceiling``.

    ``label`` is the part of each vertex (its least vertex), ``ways[u, v, 0]`` and ``[u, v, 1]``
    the vertices and links between two of one part, ``cheapest`` each part's least way out.
    """
    count = len(label)
    total = 0.0
    first = np.empty(count, np.int64)
    for s in range(len(masks)):
        first[:] = -1
        brokers = 0
        links = 0
        leaving = 0.0
        least = np.inf
        for v in range(count):
            if not masks[s] >> v & 1:
                continue
            part = label[v]
            if first[part] < 0:
                first[part] = v
                leaving += cheapest[part]
                least = min(least, cheapest[part])
            brokers |= ways[first[part], v, 0]
            links |= ways[first[part], v, 1]
        cost = _bits_cost(brokers, processing) + _bits_cost(links, prices)
        if leaving > least:
            # Seen from the part that is cheapest to leave, every other part has a way in.
            cost += leaving - least
        total += float(weights[s]) * cost
        if total >= ceiling:
            return total
    return total


@njit(cache=True)
def join(
    link: int,
    a: int,
    b: int,
    label: Integers,
    ways: Integers,
    new_label: Integers,
    new_ways: Integers,
) -> None:
    """The forest with one link more."""
    new_label[:] = label
    new_ways[:] = ways
    low, high = min(label[a], label[b]), max(label[a], label[b])
    for u in range(len(label)):
        if label[u] != label[a]:
            continue
        for v in range(len(label)):
            if label[v] != label[b]:
                continue
            for kind in range(2):
                way = ways[u, a, kind] | ways[b, v, kind]
                if kind == 1:
                    way |= 1 << link
                new_ways[u, v, kind] = way
                new_ways[v, u, kind] = way
    for v in range(len(label)):
        if new_label[v] == high:
            new_label[v] = low


@njit(cache=True)
def ways_out(
    decided: int, ends: Integers, prices: Floats, label: Integers, cheapest: Floats
) -> bool:
    """Each part's cheapest undecided link to another; whether a tree can still come of it."""
    count = len(label)
    cheapest[:] = np.inf
    joined = label.copy()
    parts = 0
    for v in range(count):
        parts += label[v] == v
    for e in range(decided, len(ends)):
        a, b = label[ends[e, 0]], label[ends[e, 1]]
        if a == b:
            continue
        cheapest[a] = min(cheapest[a], prices[e])
        cheapest[b] = min(cheapest[b], prices[e])
        one, other = joined[a], joined[b]
        if one != other:
            parts -= 1
            for v in range(count):
                if joined[v] == other:
                    joined[v] = one
    if parts == 1:
        for v in range(count):
            if not np.isfinite(cheapest[v]):
                cheapest[v] = 0.0
    return parts == 1


@njit(cache=True)
def side_costs(
    removed: int,
    starts: Integers,
    members: Indices,
    weights: Floats,
    first: Integers,
    sets: Indices,
    parent: Integers,
    order: Integers,
    enter: Integers,
    leave: Integers,
    processing: Floats,
    above: Floats,
    seen_sets: Indices,
    stamp: int,
    out: Floats,
) -> float:
    """Without the link above ``removed``: what each vertex costs as its side's end of a new link.

    ``above`` is the price of the link above each vertex. The smaller side's sets (``first``,
    ``sets``: sets by vertex) are all that can cross. Returns the weight that crosses.
    """
    count = len(parent)
    low, high = enter[removed], leave[removed]
    climbed = np.zeros(count)
    inside = np.zeros(count)
    seen = np.full(count, -1, np.int64)
    crossing = 0.0
    is_below = 2 * (high - low) <= count
    size = high - low if is_below else count - (high - low)
    for number in range(size):
        place = low + number if is_below else (number if number < low else number + high - low)
        b = order[place]
        for q in range(first[b], first[b + 1]):
            s = sets[q]
            if seen_sets[s] == stamp:
                continue
            seen_sets[s] = stamp
            top_below, last_below, top_rest, last_rest = _outermost(
                members[starts[s] : starts[s + 1]], enter, low, high
            )
            if top_below < 0 or top_rest < 0:
                continue
            crossing += weights[s]
            while leave[top_below] <= enter[last_below]:
                top_below = parent[top_below]
            while leave[top_rest] <= enter[last_rest]:
                top_rest = parent[top_rest]
            inside[top_below] += weights[s]
            inside[top_rest] += weights[s]
            seen[top_below] = s
            seen[top_rest] = s
            for m in members[starts[s] : starts[s + 1]]:
                v = np.int64(m)
                while seen[v] != s:
                    seen[v] = s
                    climbed[v] += weights[s]
                    v = parent[v]
    _spread(removed, high, crossing, climbed, inside, parent, order, processing, above, out)
    return crossing


@njit(cache=True)
def _outermost(members: Indices, enter: Integers, low: int, high: int) -> tuple[int, int, int, int]:
    """The first and the last member in preorder among those in the run, and among the rest."""
    top_below = last_below = top_rest = last_rest = -1
    for m in members:
        if low <= enter[m] < high:
            if top_below < 0 or enter[m] < enter[top_below]:
                top_below = m
            if last_below < 0 or enter[m] > enter[last_below]:
                last_below = m
        else:
            if top_rest < 0 or enter[m] < enter[top_rest]:
                top_rest = m
            if last_rest < 0 or enter[m] > enter[last_rest]:
                last_rest = m
    return top_below, last_below, top_rest, last_rest


@njit(cache=True)
def _spread(
    removed: int,
    high: int,
    crossing: float,
    climbed: Floats,
    inside: Floats,
    parent: Integers,
    order: Integers,
    processing: Floats,
    above: Floats,
    out: Floats,
) -> None:
    """From the weights to the cost of every end, moving it from vertex to vertex.

    ``climbed[v] + inside[v]`` is the weight with members below v on its side, ``inside[v]`` (once
    summed up) that with all of its side's members below v. The removed link's subtree is the
    preorder's run from ``removed`` up to ``high``.
    """
    base_rest = base_below = 0.0
    is_below = False
    for place in range(len(order) - 1, 0, -1):
        v = order[place]
        if place == high - 1:
            is_below = True
        if v == removed:
            is_below = False
            continue
        inside[parent[v]] += inside[v]
        way = (above[v] + processing[parent[v]]) * inside[v]
        if is_below:
            base_below += way
        else:
            base_rest += way
    out[order[0]] = base_rest
    out[removed] = base_below
    for place in range(1, len(order)):
        v = order[place]
        if v == removed:
            continue
        u = parent[v]
        beyond = crossing - climbed[v] - inside[v]
        out[v] = (
            out[u] + (above[v] + processing[v]) * beyond - (above[v] + processing[u]) * inside[v]
        )


@njit(cache=True)
def best_pair(
    removed: int,
    crossing: float,
    costs: Floats,
    order: Integers,
    enter: Integers,
    leave: Integers,
    parent: Integers,
    candidates: Floats,
    degree: Integers,
    max_degree: int,
) -> tuple[int, int, float]:
    """The cheapest place for the removed link: its end on the root's side, below, and the cost.

    ``candidates`` are the prices of links that may be added. The place it was taken from does not
    count. Returns -1, -1, inf where there is none; of equal pairs the first in preorder.
    """
    low, high = enter[removed], leave[removed]
    top = parent[removed]
    best_rest = best_below = -1
    best = np.inf
    least_below = np.inf
    for place in range(low, high):
        least_below = min(least_below, costs[order[place]])
    for number in range(len(order) - (high - low)):
        i = order[number if number < low else number + high - low]
        if degree[i] - (i == top) >= max_degree or costs[i] + least_below >= best:
            continue
        for place in range(low, high):
            j = order[place]
            if degree[j] - (j == removed) >= max_degree or (i == top and j == removed):
                continue
            cost = costs[i] + costs[j] + crossing * candidates[i, j]
            if cost < best:
                best_rest, best_below, best = i, j, cost
    return best_rest, best_below, best


@njit(cache=True)
def ring_savings(
    ring: Integers,
    link_costs: Floats,
    processing: Floats,
    starts: Integers,
    members: Indices,
    weights: Floats,
    parent: Integers,
    order: Integers,
    saved: Floats,
) -> None:
    """What all sets together save if a ring link goes, by ring link (see `ci/rules` for rings).

    ``ring`` is a path of the tree, ``link_costs`` its links' prices and the proposed link's.
    """
    size = len(ring)
    projected = _projections(ring, parent, order)
    # Sums over the links and brokers before each place, twice round, so that a gap is a difference.
    links = np.zeros(2 * size + 1)
    brokers = np.zeros(2 * size + 1)
    for place in range(2 * size):
        links[place + 1] = links[place] + link_costs[place % size]
        brokers[place + 1] = brokers[place] + processing[ring[place % size]]
    steps = np.zeros(2 * size + 1)
    has = np.full(size, -1, np.int64)
    for s in range(len(weights)):
        for m in members[starts[s] : starts[s + 1]]:
            has[projected[m]] = s
        before = -1
        first = -1
        for place in range(2 * size):
            if has[place % size] != s:
                continue
            if before < 0:
                first = place
            else:
                gap = links[place] - links[before] + brokers[place] - brokers[before + 1]
                steps[before] += weights[s] * gap
                steps[place] -= weights[s] * gap
            before = place
            if place == first + size:
                break
    saved[:] = 0.0
    height = 0.0
    for place in range(2 * size):
        height += steps[place]
        saved[place % size] += height


@njit(cache=True)
def _projections(ring: Integers, parent: Integers, order: Integers) -> Integers:
    """For each vertex, the place on the path where one arrives from it."""
    projected = np.full(len(parent), -1, np.int64)
    for place in range(len(ring)):
        projected[ring[place]] = place
    top = 0
    for place in range(len(ring)):
        above = parent[ring[place]]
        if above < 0 or projected[above] < 0:
            top = place
    if projected[order[0]] < 0:
        projected[order[0]] = top
    for place in range(1, len(order)):
        v = order[place]
        if projected[v] < 0:
            projected[v] = projected[parent[v]]
    return projected

"""Kernels on trees as arrays; naive twins in ``tests/naive/design.py``. Arrays only, no names.

A rooted tree is ``parent`` (-1 at the root), ``order`` (vertices in preorder), ``enter`` (place of
a vertex in it) and ``leave`` (place behind its subtree): u is in the subtree of v exactly if
enter[v] <= enter[u] < leave[v].
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

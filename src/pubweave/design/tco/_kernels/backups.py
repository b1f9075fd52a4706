"""Kernels that choose backups (Shadows, Algorithms 11 and 12), lambda covers of a node's topics.

A node's weight is its degree and how many have it as a backup. Ties go to the node with more
topics, then to the smallest number. A topic that nobody else (who is no backup yet) wants is left.

Algorithm 12 looks at all subscribers of a topic. Where there are more than a window has, a random
window of them is enough: any light node will do, and the work no longer grows with the overlay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from pubweave.design.tco._kernels.parts import Indices, Integers
from pubweave.design.tco._kernels.rows import Bags, add, drop, has_sorted

Words = npt.NDArray[np.uint64]

NOBODY = 1 << 29
"""More than any weight."""
TAKEN = -2 * NOBODY
"""Taken from its weight, it makes a node heavier than nobody: a backup, or the node itself."""


class Weighing(NamedTuple):
    """What backups are chosen by; the arrays from ``less`` on are scratch, zero between calls."""

    topics_of: Bags
    nodes_of: Bags
    neighbors: Bags
    less: Indices
    """What Algorithm 12 has taken from a node's weight in this cover."""
    gains: Indices
    random: Words


@njit(cache=True)
def forget_backups(backups: Bags, primaries: Bags, node: int) -> None:
    """The node has no backups, and nobody has it as a primary."""
    for place in range(backups.starts[node], backups.starts[node] + backups.sizes[node]):
        drop(primaries, backups.items[place], node)
    backups.sizes[node] = 0


@njit(cache=True)
def rebuild_backups(
    weighing: Weighing,
    backups: Bags,
    primaries: Bags,
    nodes: Indices,
    coverage: int,
    window: int,
    is_greedy: bool,
) -> tuple[Bags, Bags]:
    """Algorithms 6 and 8: new backups for all these nodes, one after the other."""
    for node in nodes:
        backups, primaries = _build_backups(
            weighing, backups, primaries, node, coverage, window, is_greedy
        )
    return backups, primaries


@njit(cache=True)
def _build_backups(
    weighing: Weighing,
    backups: Bags,
    primaries: Bags,
    node: int,
    coverage: int,
    window: int,
    is_greedy: bool,
) -> tuple[Bags, Bags]:
    """New backups of a node: ``coverage`` covers that share no node. O(covers picks window)."""
    topics_of, nodes_of, neighbors, less, gains, random = weighing
    forget_backups(backups, primaries, node)
    start = topics_of.starts[node]
    topics = topics_of.items[start : start + topics_of.sizes[node]]
    picked = np.empty((len(topics), 2), np.int64)
    less[node] = TAKEN
    for _ in range(coverage):
        rest = topics.copy()
        left, picks = len(rest), 0
        while left > 0:
            if is_greedy:
                best = _cheapest_cover(
                    topics_of, nodes_of, neighbors, primaries, rest[:left], less, gains
                )
                if best < 0:
                    break
            else:
                place = _random_below(random, left)
                low, high = _window(nodes_of, rest[place], window, random)
                best = _lightest(topics_of, nodes_of, neighbors, primaries, low, high, less)
                if best < 0:
                    left -= 1
                    rest[place] = rest[left]
                    continue
                picked[picks, 0], picked[picks, 1] = low, high
                picks += 1
            backups = add(backups, node, best)
            primaries = add(primaries, best, node)
            less[best] = TAKEN
            left = _uncovered(topics_of, best, rest, left)
        _restore(nodes_of, picked[:picks], less)
    less[node] = 0
    for place in range(backups.starts[node], backups.starts[node] + backups.sizes[node]):
        less[backups.items[place]] = 0
    return backups, primaries


@njit(cache=True)
def _window(nodes_of: Bags, topic: int, window: int, random: Words) -> tuple[int, int]:
    """Where to look among the subscribers of a topic: all of them, or a random window."""
    low, size = nodes_of.starts[topic], nodes_of.sizes[topic]
    if size > window:
        low += _random_below(random, size - window + 1)
    return low, low + min(size, window)


@njit(cache=True)
def _restore(nodes_of: Bags, windows: Integers, less: Indices) -> None:
    """Weights as they are: a cover takes nothing from the next."""
    for at in range(len(windows)):
        for place in range(windows[at, 0], windows[at, 1]):
            node = nodes_of.items[place]
            if less[node] != TAKEN:
                less[node] = 0


@njit(cache=True)
def _uncovered(topics_of: Bags, node: int, rest: Indices, left: int) -> int:
    kept = 0
    for place in range(left):
        if not has_sorted(topics_of, node, rest[place]):
            rest[kept] = rest[place]
            kept += 1
    return kept


@njit(cache=True)
def _random_below(random: Words, bound: int) -> int:
    """The next number of a splitmix64 generator, below a bound."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = random[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(33)) % bound


@njit(cache=True)
def _lightest(
    topics_of: Bags,
    nodes_of: Bags,
    neighbors: Bags,
    primaries: Bags,
    low: int,
    high: int,
    less: Indices,
) -> int:
    """Algorithm 12: the subscriber of least weight; its weight is taken from all the others'."""
    best, weight, size = -1, NOBODY, 0
    for place in range(low, high):
        node = nodes_of.items[place]
        own = neighbors.sizes[node] + primaries.sizes[node] - less[node]
        if own > weight:
            continue
        wanted = topics_of.sizes[node]
        if own < weight or wanted > size or (wanted == size and node < best):
            best, weight, size = node, own, wanted
    if best < 0 or weight == 0:
        return best
    for place in range(low, high):
        node = nodes_of.items[place]
        if less[node] != TAKEN:
            less[node] += weight
    return best


@njit(cache=True)
def _cheapest_cover(
    topics_of: Bags,
    nodes_of: Bags,
    neighbors: Bags,
    primaries: Bags,
    rest: Indices,
    less: Indices,
    gains: Indices,
) -> int:
    """Algorithm 11: the node of least weight for each topic that it would cover, or -1."""
    best, weight, gain = -1, 1, 0
    for topic in rest:
        for place in range(nodes_of.starts[topic], nodes_of.starts[topic] + nodes_of.sizes[topic]):
            gains[nodes_of.items[place]] += 1
    for topic in rest:
        for place in range(nodes_of.starts[topic], nodes_of.starts[topic] + nodes_of.sizes[topic]):
            node = nodes_of.items[place]
            own_gain = gains[node]
            gains[node] = 0
            if own_gain == 0 or less[node] == TAKEN:
                continue
            own = neighbors.sizes[node] + primaries.sizes[node]
            one, other = own * gain, weight * own_gain
            is_tie = best >= 0 and one == other
            if best < 0 or one < other or (is_tie and _comes_first(topics_of, node, best)):
                best, weight, gain = node, own, own_gain
    return best


@njit(cache=True)
def _comes_first(topics_of: Bags, one: int, other: int) -> bool:
    a, b = topics_of.sizes[one], topics_of.sizes[other]
    return a > b or (a == b and one < other)

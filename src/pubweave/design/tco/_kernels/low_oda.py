"""Kernel of Low-ODA (Shadows, Algorithm 2): exact greedy choices without rescans; the verifier's.

A contribution only ever falls. So the rows are swept level by level: at level c, row by row, a row
whose bound is c is looked up; either it has a link that contributes c, then that is the next
one in canonical order, or its bound falls. What lies before a row's last best column can never
reach its bound again, so the next look begins there.

Two sweeps run: over all links (the paper's e1), once for the whole construction; and over links
that do not raise the maximum degree (e2), once for each value of it: while it stays, such rows
only become fewer.

The verifier walks over the links once (union-find); on purpose it shares nothing with what builds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from pubweave.design.tco._kernels.parts import (
    SCRATCH,
    Indices,
    Integers,
    Interests,
    Parts,
    Words,
    fill_topic_sets,
    give_sets,
    link,
)
from pubweave.design.tco._kernels.rows import best_of_row


class Sweep(NamedTuple):
    """A sweep over the rows in a mask; ``at`` is where it stands: level, row, the column found."""

    mask: Words
    bounds: Indices
    firsts: Indices
    at: Integers


class Building(NamedTuple):
    """What a construction knows; ``counts`` is links, parts left to join, maximum degree."""

    every: Sweep
    low: Sweep
    degrees: Indices
    counts: Integers
    chosen: Integers
    column_counts: Indices


@njit(cache=True)
def begin(interests: Interests, parts: Parts, degrees: Indices, max_degree: int) -> Building:
    """Everything before the first link."""
    rows = len(degrees)
    fill_topic_sets(interests, parts)
    give_sets(interests, parts)
    bounds = (interests.starts[1:] - interests.starts[:-1]).astype(np.int32)
    firsts = np.arange(1, rows + 1).astype(np.int32)
    at = np.array([bounds.max() if rows else 0, 0, 0])
    everyone = np.full(parts.width, ~np.uint64(0), np.uint64)
    every = Sweep(everyone, bounds, firsts, at)
    low = Sweep(np.zeros(parts.width, np.uint64), bounds.copy(), firsts.copy(), at.copy())
    left = 0
    for topic in range(len(parts.counts)):
        left += max(0, parts.counts[topic] - 1)
    counts = np.array([0, left, max_degree])
    _begin_degree(every, low, degrees, max_degree)
    return Building(
        every, low, degrees, counts, np.zeros(SCRATCH + 7, np.int64), np.zeros(rows, np.int32)
    )


@njit(cache=True)
def _begin_degree(every: Sweep, low: Sweep, degrees: Indices, max_degree: int) -> None:
    """The sweep over rows below a new maximum degree starts from what is known of all links."""
    low.bounds[:], low.firsts[:], low.at[:] = every.bounds, every.firsts, every.at
    low.at[1] = 0
    low.mask[:] = 0
    for u in range(len(degrees)):
        if degrees[u] < max_degree:
            low.mask[u >> 6] |= np.uint64(1) << np.uint64(u & 63)


@njit(cache=True)
def advance(
    interests: Interests, parts: Parts, building: Building, sweep: Sweep, floor: float
) -> bool:
    """Go on to the next link that contributes more than ``floor``; False if there is none."""
    mask, bounds, firsts, at = sweep
    rows = len(bounds)
    chosen, counts = building.chosen, building.column_counts
    while at[0] > floor:
        level = at[0]
        for u in range(at[1], rows):
            if bounds[u] != level or not (mask[u >> 6] >> np.uint64(u & 63)) & np.uint64(1):
                continue
            value, column = best_of_row(interests, parts, u, firsts[u], level, mask, chosen, counts)
            if value < level and firsts[u] > u + 1:
                value, column = best_of_row(
                    interests, parts, u, u + 1, level - 1, mask, chosen, counts
                )
            firsts[u] = column
            if value == level:
                at[1], at[2] = u, column
                return True
            bounds[u] = value
        below = 0
        for u in range(rows):
            if bounds[u] < level and (mask[u >> 6] >> np.uint64(u & 63)) & np.uint64(1):
                below = max(below, bounds[u])
        at[0], at[1] = below, 0
    return False


@njit(cache=True)
def construct(
    interests: Interests,
    parts: Parts,
    building: Building,
    rho: float,
    by_degree: bool,
    links: Indices,
    more: int,
) -> None:
    """Add so many links more, or fewer if every topic is one part; ``links`` has room for all."""
    every, low, degrees, counts = building.every, building.low, building.degrees, building.counts
    while counts[1] > 0 and more > 0:
        more -= 1
        found = by_degree and advance(interests, parts, building, low, 0.0)
        floor = rho * low.at[0] if found else 0.0
        if advance(interests, parts, building, every, floor):
            u, v = every.at[1], every.at[2]
        else:
            u, v = low.at[1], low.at[2]
        joined = link(interests, parts, u, v)
        assert joined > 0, "a link that joins nothing was chosen"
        counts[1] -= joined
        links[counts[0], 0], links[counts[0], 1] = u, v
        counts[0] += 1
        top = counts[2]
        for end in (u, v):
            degrees[end] += 1
            counts[2] = max(counts[2], degrees[end])
            if degrees[end] == top:
                low.mask[end >> 6] &= ~(np.uint64(1) << np.uint64(end & 63))
        if counts[2] > top:
            _begin_degree(every, low, degrees, counts[2])

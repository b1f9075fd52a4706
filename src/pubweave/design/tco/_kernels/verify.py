"""Kernel of the verifier: one walk over the links, with sets that grow together (union-find).

On purpose it shares nothing with the kernels that build overlays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]


@njit(cache=True)
def _root(parents: Indices, place: int) -> int:
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place


@njit(cache=True)
def roots_of(starts: Integers, topics: Indices, links: Indices) -> Indices:
    """For each subscription a representative of those connected with it within its topic."""
    parents = np.arange(len(topics)).astype(np.int32)
    for at in range(len(links)):
        one, one_end = starts[links[at, 0]], starts[links[at, 0] + 1]
        other, other_end = starts[links[at, 1]], starts[links[at, 1] + 1]
        while one < one_end and other < other_end:
            if topics[one] < topics[other]:
                one += 1
            elif topics[one] > topics[other]:
                other += 1
            else:
                a, b = _root(parents, one), _root(parents, other)
                parents[max(a, b)] = min(a, b)
                one += 1
                other += 1
    for place in range(len(parents)):
        parents[place] = _root(parents, place)
    return parents

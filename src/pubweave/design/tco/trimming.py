"""Beyond the paper: keeping degrees low between rounds, without hurry and without a rebuild.

Churn leaves two kinds of dirt. Links become needless when others are added near them: `trim`
drops them. And some nodes collect links, since a repair takes whom it finds among few: `relieve`
takes a link from the node of highest degree and mends the cut among the shadows of the other end,
if one or two links between nodes of lower degree do.
"""

from __future__ import annotations

import numpy as np

from pubweave.design.tco._kernels import churn as kernels
from pubweave.design.tco._kernels import mending as _kernels_mending
from pubweave.design.tco._kernels import trimming as _kernels_trimming
from pubweave.design.tco.interests import Indices
from pubweave.design.tco.state import OverlayArrays

RELIEF_LINKS_MAX = 2
"""A link taken away may cost at most so many others."""
TRIES = 4


def trim(state: OverlayArrays, nodes: Indices, searches: int) -> Indices:
    """Drop needless links of these nodes; searches for other ways are what takes time.

    O(searches common topics), each in proportion to the smaller side of a cut.
    """
    state.neighbors, dropped = _kernels_trimming.trim(
        state.wishes,
        state.neighbors,
        state.degree_counts,
        nodes,
        searches,
        state.marks,
        state.following,
        state.stamps,
    )
    state.link_count -= len(dropped)
    return dropped


def relieve(state: OverlayArrays, level: int, rho: float) -> tuple[Indices, Indices]:
    """Take one link from the node of highest degree; what was added, and what was removed."""
    hub = int(np.argmax(state.neighbors.sizes))
    others = [
        (len(common), other, common)
        for other in state.listed(state.neighbors, hub).tolist()
        for common in [_common_topics(state, hub, other)]
    ]
    for _, other, common in sorted(others, key=lambda each: each[:2])[:TRIES]:
        taken = np.array([[hub, other]], np.int32)
        state.unlink(taken)
        added = _around(state, hub, other, common, level, rho)
        if added is not None:
            state.link(added)
            return added, taken
        state.link(taken)
    none = np.zeros((0, 2), np.int32)
    return none, none


def _common_topics(state: OverlayArrays, one: int, other: int) -> Indices:
    return np.intersect1d(
        state.listed(state.topics_of, one), state.listed(state.topics_of, other), True
    )


def _around(
    state: OverlayArrays, hub: int, other: int, common: Indices, level: int, rho: float
) -> Indices | None:
    """Links that connect two nodes in these topics again without either's old link, if few do."""
    stamp = state.next_stamp()
    state.marks[[hub, other]] = stamp
    changed = np.array([other, hub], np.int32)
    shadows = kernels.shadow_set(
        state.topics_of, state.neighbors, state.backups, changed, state.marks, stamp
    )
    shadows = kernels.in_order(state.topics_of, np.append(shadows, np.int32(other)))
    seeds = np.tile(np.array([hub, other], np.int32), len(common))
    labels = state.labels_of_cut(common, np.arange(0, len(seeds) + 1, 2), seeds, shadows)
    for topic in labels.T:
        if len(np.unique(topic[topic >= 0])) < 2:  # nobody here who could reach the hub's piece
            return None
    links = np.empty((labels.size, 2), np.int32)
    degrees = state.neighbors.sizes[shadows]
    count = _kernels_mending.mend(labels, degrees, level, True, rho, links)
    added = shadows[links[:count]]
    lower = state.neighbors.sizes[added] < state.neighbors.sizes[hub]
    return added if count <= RELIEF_LINKS_MAX and lower.all() else None

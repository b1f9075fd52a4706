"""GeoPS' overlay: squares within squares, each with a broker as its head.

The map is cut into 2^k x 2^k leaves with a broker each; four squares make one of the next level.
Publications go up to the first square that holds both ends, and down again. A square's head is the
head of one of its four squares, so a broker that heads several along a way is one stop. Which of
the four it is alternates by level: that puts heads a third into their squares, not into corners.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubweave.design.dynatops._kernels import routed as kernels
from pubweave.design.dynatops._kernels.trees import Floats, Indices, Integers
from pubweave.design.dynatops.mapping.routed_overlay import RoutedOverlay
from pubweave.design.dynatops.placement.similarity import Clusters
from pubweave.design.tree.traffic import DesignError


def leaf_places(places: Places, side: int) -> tuple[Places, Integers]:
    """The middles of side x side leaves around all places, and the leaf of each place.

    >>> leaves, leaf_of = leaf_places(Places(np.array([0.0, 1.0]), np.array([0.0, 1.0])), 2)
    >>> leaf_of.tolist(), leaves.latitudes.tolist()
    ([0, 3], [0.25, 0.25, 0.75, 0.75])
    """
    if side < 1 or side & (side - 1):
        raise DesignError(f"a hierarchy needs a power of two of leaves along its side, not {side}")
    rows, latitudes = _cut(places.latitudes, side)
    columns, longitudes = _cut(places.longitudes, side)
    middles = Places(np.repeat(latitudes, side), np.tile(longitudes, side))
    return middles, rows * side + columns


def _cut(values: Floats, side: int) -> tuple[Integers, Floats]:
    """Which of so many equal strips each value is in, and their middles."""
    low, width = float(values.min()), max(float(np.ptp(values)), 1e-9) / side
    strips = np.minimum((values - low) / width, side - 1).astype(np.int64)
    middles: Floats = low + width * (np.arange(side, dtype=np.float64) + 0.5)
    return strips, middles


def hierarchy_overlay(side: int, roots: Integers, rtt: Floats | None = None) -> RoutedOverlay:
    """Routes between all leaves; ``roots`` are leaves by topic. O(side^4 * log side).

    >>> overlay = hierarchy_overlay(2, np.array([0]))
    >>> overlay.hops[0].tolist()
    [0, 2, 2, 1]
    """
    heads = square_heads(side)
    parents = np.zeros((side * side, side * side), np.int32)
    kernels.route_by_heads(heads, parents)
    return RoutedOverlay.of(parents, roots, rtt)


def square_heads(side: int) -> Indices:
    """By level and leaf: who heads the square of that level around the leaf."""
    leaves = np.arange(side * side)
    rows, columns = leaves // side, leaves % side
    heads = [leaves]
    for level in range(1, side.bit_length()):
        # Odd levels take the last of the four squares, even ones the first.
        step = (1 << (level - 1)) if level % 2 else 0
        corner_rows = (rows >> level << level) + step
        corner_columns = (columns >> level << level) + step
        heads.append(heads[-1][corner_rows * side + corner_columns])
    return np.array(heads, np.int32)


KM_PER_DEGREE = 111.2
RTT_MS_PER_KM = 1.0
"""Only ratios of delays count."""


@dataclass(frozen=True, eq=False)
class Places:
    """Points by latitude and longitude, close enough together for a flat map.

    >>> places = Places(np.array([40.0, 41.0]), np.array([-74.0, -74.0]))
    >>> round(float(places.distances_km(places)[0, 1]), 1)
    111.2
    """

    latitudes: Floats
    longitudes: Floats

    def __len__(self) -> int:
        return len(self.latitudes)

    def flat_km(self, at_latitude: float) -> tuple[Floats, Floats]:
        east = KM_PER_DEGREE * np.cos(np.radians(at_latitude))
        return self.latitudes * KM_PER_DEGREE, self.longitudes * east

    def distances_km(self, others: Places) -> Floats:
        """By place and other place. O(n m)."""
        middle = float(np.mean(self.latitudes))
        north, east = self.flat_km(middle)
        other_north, other_east = others.flat_km(middle)
        return np.hypot(north[:, None] - other_north, east[:, None] - other_east)


def round_trips(distances_km: Floats, rng: np.random.Generator) -> Floats:
    """Random, with means in proportion to distances (section 6.1.1): half to one and a half."""
    return RTT_MS_PER_KM * distances_km * rng.uniform(0.5, 1.5, distances_km.shape)


def area_clusters(places: Places, size: int) -> tuple[Clusters, Integers]:
    """Clusters of neighboring brokers, and the cluster of each; halved along the longer side.

    O(n log^2 n).

    >>> places = Places(np.array([0.0, 0.0, 5.0, 5.0]), np.array([0.0, 1.0, 0.0, 1.0]))
    >>> area_clusters(places, 2)[1].tolist()
    [0, 0, 1, 1]
    """
    north, east = places.flat_km(float(np.mean(places.latitudes)))
    parts: list[Integers] = []
    waiting = [(np.arange(len(places), dtype=np.int64), max(1, round(len(places) / size)))]
    while waiting:
        members, count = waiting.pop()
        if count == 1:
            parts.append(members)
            continue
        axis = north if np.ptp(north[members]) >= np.ptp(east[members]) else east
        ordered = members[np.argsort(axis[members], kind="stable")]
        half = count // 2
        cut = len(members) * half // count
        waiting += [(ordered[cut:], count - half), (ordered[:cut], half)]
    starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    members = np.concatenate(parts)
    cluster_of = np.empty(len(places), np.int64)
    cluster_of[members] = np.repeat(np.arange(len(parts)), np.diff(starts))
    return Clusters(starts, members), cluster_of

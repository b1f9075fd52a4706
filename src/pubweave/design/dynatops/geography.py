"""Brokers and users somewhere on earth: distances, round trips, areas with as many brokers each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubweave.design.dynatops._kernels_trees import Floats, Integers
from pubweave.design.dynatops.user_placement import Clusters

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

"""GeoPS' overlay: squares within squares, each with a broker as its head.

The map is cut into 2^k x 2^k leaves with a broker each; four squares make one of the next level.
Publications go up to the first square that holds both ends, and down again. A square's head is the
head of one of its four squares, so a broker that heads several along a way is one stop. Which of
the four it is alternates by level: that puts heads a third into their squares, not into corners.
"""

from __future__ import annotations

import numpy as np

from pubweave.design.dynatops import _kernels_routed as kernels
from pubweave.design.dynatops._kernels_trees import Floats, Indices, Integers
from pubweave.design.dynatops.geography import Places
from pubweave.design.dynatops.routed_overlay import RoutedOverlay
from pubweave.design.traffic import DesignError


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

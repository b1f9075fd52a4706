"""The cuts of one ordered kind of value, sorted, and the cells between some of them.

Every cell is a row of a bitmap's table. A cell holds the cuts after the end of the cell before it,
up to and including its own upper end. Each cut turns one bit over: that is its *flip*. So the bits
of a value are its cell's row with the flips up to the value applied, or the next cell's row with
the flips from the value to the cell's end applied.

All is kept in a few flat arrays: a query that finds nothing in the processor's cache then waits for
a dozen cache lines and not for as many Python objects as a cell has cuts.

Invariant: cuts are in order, and ``starts`` are the positions at which the cells' cuts begin.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import MutableSequence, Sequence
from typing import Any

import numpy as np

from pubweave.core.matching.row import Cut

SIDE = 1 << 8
"""The bit of a flip that tells the side of its cut; the byte's number is above, its bits below."""

FlippingCut = tuple[Any, int, int]
"""A cut (value, side) and the place of the bit that it turns over."""


class Scale:
    """Cells as consecutive table rows from ``first_row``; values are all numbers or all strings.

    Cell c ends at the cut (``ends[c]``, ``end_sides[c]``), the last one has no end. Its cuts are
    ``values`` and ``flips`` from ``starts[c]`` to ``starts[c + 1]``; ``inner_count`` counts those
    of all cells that end none.
    """

    __slots__ = (
        "end_row",
        "end_sides",
        "ends",
        "first_row",
        "flips",
        "inner_count",
        "starts",
        "values",
    )

    def __init__(self, first_row: int, cuts: Sequence[FlippingCut], limit: int) -> None:
        ordered = sorted(cuts)
        stops = choose_stops(ordered, limit)
        self.first_row = first_row
        self.end_row = first_row + len(stops) + 1
        self.values = _column([cut[0] for cut in ordered])
        self.flips = array("I", [_flip(side, place) for _, side, place in ordered])
        self.starts = array("I", [0, *stops, len(ordered)])
        # Asked by every query: a list is faster than an array, which makes a float of each value
        # anew. Passing through an array puts the floats side by side in memory.
        self.ends = list(_column([ordered[stop - 1][0] for stop in stops]))
        self.end_sides = bytearray(ordered[stop - 1][1] for stop in stops)
        ending = sum(self._is_end(self.cell_of_cut(cut[:2]), cut[:2]) for cut in ordered)
        self.inner_count = len(ordered) - ending

    @property
    def is_exact(self) -> bool:
        """Whether every cut ends a cell, so that no value ever meets a flip."""
        return not self.inner_count

    def row_of(self, value: Any) -> int:
        """The table row of the cell that a value lies in. O(log cells)."""
        ends = self.ends
        cell = bisect_left(ends, value)
        if cell < len(ends) and ends[cell] == value and not self.end_sides[cell]:
            cell += 1
        return self.first_row + cell

    def cell_of_cut(self, cut: Cut) -> int:
        """The number of the cell that a cut lies in or ends."""
        value, side = cut
        ends, sides = self.ends, self.end_sides
        cell = bisect_left(ends, value)
        while cell < len(ends) and ends[cell] == value and sides[cell] < side:
            cell += 1
        return cell

    def path(self, row: int, value: Any) -> tuple[int, Sequence[int]]:
        """The row to start from and the flips on the way to a value in the cell of ``row``."""
        if not self.inner_count:
            return row, ()
        cell = row - self.first_row
        start, stop = self.starts[cell], self.starts[cell + 1]
        values, flips = self.values, self.flips
        here = bisect_left(values, value, start, stop)
        while here < stop and values[here] == value and not flips[here] & SIDE:
            here += 1
        if here - start <= stop - here or row + 1 == self.end_row:
            return row, flips[start:here] if here > start else ()
        return row + 1, flips[here:stop]

    def add(self, cut: Cut, place: int) -> None:
        """Enter a cut. O(cuts), by moving memory."""
        cell = self.cell_of_cut(cut)
        here = self._position(cell, cut)
        if isinstance(self.values, array) and not _is_double(cut[0]):
            self.values = list(self.values)
        self.values.insert(here, cut[0])
        self.flips.insert(here, _flip(cut[1], place))
        np.frombuffer(self.starts, np.uintc)[cell + 1 :] += 1
        self.inner_count += not self._is_end(cell, cut)

    def remove(self, cut: Cut, place: int) -> None:
        """Take a cut out. O(cuts), by moving memory."""
        cell = self.cell_of_cut(cut)
        here = self.flips.index(_flip(cut[1], place), self._position(cell, cut))
        del self.values[here]
        del self.flips[here]
        np.frombuffer(self.starts, np.uintc)[cell + 1 :] -= 1
        self.inner_count -= not self._is_end(cell, cut)

    def _position(self, cell: int, cut: Cut) -> int:
        value, side = cut
        values, flips = self.values, self.flips
        stop = self.starts[cell + 1]
        here = bisect_left(values, value, self.starts[cell], stop)
        while side and here < stop and values[here] == value and not flips[here] & SIDE:
            here += 1
        return here

    def _is_end(self, cell: int, cut: Cut) -> bool:
        return cell < len(self.ends) and cut == (self.ends[cell], self.end_sides[cell])


def choose_stops(ordered: Sequence[FlippingCut], limit: int) -> list[int]:
    """The positions in sorted cuts after which cells end: at most ``limit``, equal cuts together.

    All of them if they fit; or all just before a value, so that values that are themselves ends
    of ranges (integers, mostly) meet no flips; or else quantiles.
    """
    stops = [
        position
        for position in range(1, len(ordered) + 1)
        if position == len(ordered) or ordered[position][:2] != ordered[position - 1][:2]
    ]
    if len(stops) <= limit:
        return stops
    before_values = [stop for stop in stops if not ordered[stop - 1][1]]
    if len(stops) / 3 < len(before_values) <= limit:
        return before_values
    step = len(ordered) / limit if limit else math.inf
    chosen = []
    last = 0
    for stop in stops:
        if stop - last >= step:
            chosen.append(stop)
            last = stop
    return chosen


def _flip(side: int, place: int) -> int:
    return place >> 3 << 9 | side << 8 | 1 << (place & 7)


def _is_double(value: Any) -> bool:
    """Whether a number keeps its exact value as a double; a string does not."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= 1 << 53)


def _column(values: list[Any]) -> MutableSequence[Any]:
    return array("d", values) if all(map(_is_double, values)) else values

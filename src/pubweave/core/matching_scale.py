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
from numpy.typing import NDArray

from pubweave.core.matching_row import Cut

CUTS_PER_CELL = 8
"""Where not every cut can end a cell, a cell is left with about so many."""

SIDE = 1 << 8
"""The bit of a flip that tells the side of its cut; the byte's number is above, its bits below."""

FlippingCut = tuple[Any, int, int]
"""A cut (value, side) and the place of the bit that it turns over."""


class Scale:
    """Cells as consecutive table rows from ``first_row``; values are all numbers or all strings."""

    __slots__ = (
        "_end_sides",
        "_ends",
        "_flips",
        "_inner_count",
        "_starts",
        "_values",
        "end_row",
        "first_row",
    )

    def __init__(self, first_row: int, cuts: Sequence[FlippingCut], limit: int) -> None:
        ordered = sorted(cuts)
        stops = choose_stops(ordered, limit)
        self.first_row = first_row
        self.end_row = first_row + len(stops) + 1
        self._values = _column([cut[0] for cut in ordered])
        self._flips = array("I", [_flip(side, place) for _, side, place in ordered])
        self._starts = array("I", [0, *stops, len(ordered)])
        self._ends = _column([ordered[stop - 1][0] for stop in stops])
        self._end_sides = bytearray(ordered[stop - 1][1] for stop in stops)
        ending = sum(self._is_end(self.cell_of_cut(cut[:2]), cut[:2]) for cut in ordered)
        self._inner_count = len(ordered) - ending

    @property
    def is_exact(self) -> bool:
        """Whether every cut ends a cell, so that no value ever meets a flip."""
        return not self._inner_count

    def cell_of(self, value: Any) -> int:
        """The number of the cell that a value lies in. O(log cells)."""
        ends = self._ends
        cell = bisect_left(ends, value)
        if cell < len(ends) and ends[cell] == value and not self._end_sides[cell]:
            cell += 1
        return cell

    def cell_of_cut(self, cut: Cut) -> int:
        """The number of the cell that a cut lies in or ends."""
        value, side = cut
        ends, sides = self._ends, self._end_sides
        cell = bisect_left(ends, value)
        while cell < len(ends) and ends[cell] == value and sides[cell] < side:
            cell += 1
        return cell

    def path(self, cell: int, value: Any) -> tuple[int, Sequence[int]]:
        """The nearer cell to start from, and the flips on the way from its row to a value."""
        if not self._inner_count:
            return cell, ()
        start, stop = self._starts[cell], self._starts[cell + 1]
        values, flips = self._values, self._flips
        here = bisect_left(values, value, start, stop)
        while here < stop and values[here] == value and not flips[here] & SIDE:
            here += 1
        if here - start <= stop - here or cell == len(self._ends):
            return cell, flips[start:here] if here > start else ()
        return cell + 1, flips[here:stop]

    def flips_of(self, first_cell: int, end_cell: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The bytes and bits that the cuts of consecutive cells turn over."""
        found = np.array(self._flips[self._starts[first_cell] : self._starts[end_cell]], np.uint32)
        return found >> 9, found.astype(np.uint8)

    def add(self, cut: Cut, place: int) -> None:
        """Enter a cut. O(cuts), by moving memory."""
        cell = self.cell_of_cut(cut)
        here = self._position(cell, cut)
        if isinstance(self._values, array) and not _is_double(cut[0]):
            self._values = list(self._values)
        self._values.insert(here, cut[0])
        self._flips.insert(here, _flip(cut[1], place))
        np.frombuffer(self._starts, np.uintc)[cell + 1 :] += 1
        self._inner_count += not self._is_end(cell, cut)

    def remove(self, cut: Cut, place: int) -> None:
        """Take a cut out. O(cuts), by moving memory."""
        cell = self.cell_of_cut(cut)
        here = self._flips.index(_flip(cut[1], place), self._position(cell, cut))
        del self._values[here]
        del self._flips[here]
        np.frombuffer(self._starts, np.uintc)[cell + 1 :] -= 1
        self._inner_count -= not self._is_end(cell, cut)

    def _position(self, cell: int, cut: Cut) -> int:
        value, side = cut
        values, flips = self._values, self._flips
        stop = self._starts[cell + 1]
        here = bisect_left(values, value, self._starts[cell], stop)
        while side and here < stop and values[here] == value and not flips[here] & SIDE:
            here += 1
        return here

    def _is_end(self, cell: int, cut: Cut) -> bool:
        return cell < len(self._ends) and cut == (self._ends[cell], self._end_sides[cell])


def choose_stops(ordered: Sequence[FlippingCut], limit: int) -> list[int]:
    """The positions in sorted cuts after which cells end: at most ``limit``, equal cuts together.

    All of them if they fit, otherwise quantiles.
    """
    stops = [
        position
        for position in range(1, len(ordered) + 1)
        if position == len(ordered) or ordered[position][:2] != ordered[position - 1][:2]
    ]
    if len(stops) <= limit:
        return stops
    step = max(len(ordered) / limit if limit else math.inf, float(CUTS_PER_CELL))
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

"""One attribute of a bitmap: which row of the table a value selects.

The values an attribute can have, in one order: absent, true, false, NaN, all numbers, all strings.
Chosen cuts divide numbers and strings into cells; a bitmap has one row per cell. A constraint sets
its bit in every row whose cell begins inside it. The cuts of constraints inside a cell and at its
upper end are the cell's *flips*: going from its row upwards to a value, or from the next row
downwards, the flips on the way turn their bits over. So the row of a value is exact and nothing
has to be checked afterwards.

Invariant: the row of a value, flips applied, has exactly the bits of the constraints it satisfies.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pubweave.core.matching_row import Constraint, Cut, Kind, kind_of
from pubweave.model.publications import Value

Words = NDArray[Any]
PlacedCut = tuple[int, Any, int]
"""The table row of a cell and a cut (value, side) inside it or at its upper end."""

ABSENT, TRUE, FALSE, NAN, FIRST_NUMBER = range(5)

CUTS_PER_CELL = 8
"""Where not every cut can be chosen, a cell is left with about so many; half of half are met."""


class Scale:
    """The cells of one ordered kind, as consecutive rows from ``first_row``."""

    __slots__ = ("first_row", "sides", "values")

    def __init__(self, first_row: int, points: Iterable[Cut]) -> None:
        pairs = list(points)
        self.first_row = first_row
        self.values: list[Any] = [value for value, _ in pairs]
        self.sides: list[int] = [side for _, side in pairs]

    @property
    def end_row(self) -> int:
        return self.first_row + len(self.values) + 1

    def row_of(self, value: Any) -> int:
        """The row of the cell that a value lies in."""
        values = self.values
        index = bisect_left(values, value)
        if index < len(values) and values[index] == value and not self.sides[index]:
            index += 1
        return self.first_row + index

    def locate(self, cut: Cut) -> int:
        """The row of the cell that a cut lies in or ends."""
        value, side = cut
        values, sides = self.values, self.sides
        index = bisect_left(values, value)
        while index < len(values) and values[index] == value and sides[index] < side:
            index += 1
        return self.first_row + index

    def is_chosen(self, row: int, cut: Cut) -> bool:
        """Whether a cut is the upper end of the cell of a row."""
        index = row - self.first_row
        return index < len(self.values) and cut == (self.values[index], self.sides[index])


class Flips:
    """The cuts of one cell, sorted; each turns over one bit of a byte of the table row.

    Parallel arrays rather than a list of tuples: reading a cell that no query has touched lately
    then waits for a few cache lines instead of for every tuple.
    """

    __slots__ = ("bits", "bytes", "sides", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.sides = bytearray()
        self.bytes = array("I")
        self.bits = bytearray()

    def count_before(self, value: Any) -> int:
        """How many of the cuts lie before a value."""
        values = self.values
        count = bisect_left(values, value)
        while count < len(values) and values[count] == value and not self.sides[count]:
            count += 1
        return count

    def add(self, cut: Cut, place: int) -> None:
        index = self._first(cut)
        self.values.insert(index, cut[0])
        self.sides.insert(index, cut[1])
        self.bytes.insert(index, place >> 3)
        self.bits.insert(index, 1 << (place & 7))

    def remove(self, cut: Cut, place: int) -> None:
        index = self._first(cut)
        while self.bytes[index] != place >> 3 or self.bits[index] != 1 << (place & 7):
            index += 1
        for column in (self.values, self.sides, self.bytes, self.bits):
            del column[index]

    def _first(self, cut: Cut) -> int:
        value, side = cut
        values, sides = self.values, self.sides
        index = bisect_left(values, value)
        while index < len(values) and values[index] == value and sides[index] < side:
            index += 1
        return index


class Axis:
    """The rows of one attribute within the table of a bitmap; `attach` ties it to the table."""

    __slots__ = (
        "_flips",
        "_inner_count",
        "_scratch",
        "_scratch_row",
        "_table",
        "attribute",
        "end_row",
        "first_row",
        "index",
        "numbers",
        "strings",
    )

    def __init__(
        self, attribute: str, first_row: int, constraints: Iterable[Constraint], limit: int
    ) -> None:
        numbers: Counter[Cut] = Counter()
        strings: Counter[Cut] = Counter()
        for constraint in constraints:
            if constraint.kind is Kind.NUMBER:
                numbers.update(constraint.cuts())
            elif constraint.kind is Kind.STRING:
                strings.update(constraint.cuts())
        share = limit * len(numbers) // max(1, len(numbers) + len(strings))
        self.attribute = attribute
        self.first_row = first_row
        self.numbers = Scale(first_row + FIRST_NUMBER, choose_points(numbers, share))
        self.strings = Scale(self.numbers.end_row, choose_points(strings, limit - share))
        self.end_row = self.strings.end_row
        self.index = first_row
        self._flips: dict[int, Flips] = {}
        self._inner_count = 0
        self._table: Words = np.zeros((0, 0), np.uint8)
        self._scratch = bytearray()
        self._scratch_row: Words = self._table

    def attach(self, table: Words) -> None:
        """Answer `row` from this table from now on."""
        self._table = table
        self._scratch = bytearray(table.shape[1] * table.itemsize)
        self._scratch_row = np.frombuffer(self._scratch, table.dtype)

    @property
    def is_exact(self) -> bool:
        """Whether every cut ends a cell, so that `index_of` alone selects the right row."""
        return not self._inner_count

    def index_of(self, value: Value | None) -> int:
        """The table row of the cell that a value, or None where it is absent, lies in."""
        kind = value.__class__
        if (kind is float or kind is int) and value == value:
            return self.numbers.row_of(value)
        if value is None:
            return self.first_row + ABSENT
        if isinstance(value, bool):
            return self.first_row + (TRUE if value else FALSE)
        if kind_of(value) is Kind.STRING:
            return self.strings.row_of(value)
        return self.numbers.row_of(value) if value == value else self.first_row + NAN

    def row(self, value: Value | None) -> Any:
        """The bits that a value satisfies; valid until the next call. O(log cells + flips).

        Leaves the table row of the value's cell in ``index``.
        """
        if value.__class__ is float:
            # The most frequent case of `index_of`, without its calls.
            scale = self.numbers
            values = scale.values
            index = bisect_left(values, value)
            if index < len(values) and values[index] == value and not scale.sides[index]:
                index += 1
            index = index + scale.first_row if value == value else self.first_row + NAN
        else:
            index = self.index_of(value)
        self.index = index
        flips = self._flips.get(index) if self._inner_count else None
        if flips is None:
            return self._table[index]
        count = flips.count_before(value)
        if not count:
            return self._table[index]
        flipped, bits = flips.bytes, flips.bits
        if 2 * count > len(bits) and index + 1 not in (self.strings.first_row, self.end_row):
            index += 1
            flipped, bits = flipped[count:], bits[count:]
        else:
            flipped = flipped[:count]
        self._scratch_row[:] = self._table[index]
        scratch = self._scratch
        for byte, bit in zip(flipped, bits):  # noqa: B905 - upwards, the first flips only
            scratch[byte] ^= bit
        return self._scratch_row

    def clear_flipped(self, rows: Iterable[int], words: Words) -> None:
        """Clear the bits of all constraints that begin or end in the cells of these rows."""
        in_bytes = words.view(np.uint8)
        for row in rows:
            flips = self._flips.get(row)
            if flips is not None:
                mask = ~np.frombuffer(flips.bits, np.uint8)
                np.bitwise_and.at(in_bytes, np.frombuffer(flips.bytes, np.uint32), mask)

    def project(
        self, constraint: Constraint | None
    ) -> tuple[list[tuple[int, int]], list[PlacedCut]]:
        """The table rows [start, end) that a constraint covers, and its cuts by cell."""
        first = self.first_row
        if constraint is None:
            return [(first, self.end_row)], []
        kind = constraint.kind
        if kind is Kind.ANY:
            return [(first + TRUE, self.end_row)], []
        if kind is Kind.BOOLEAN:
            row = first + (FALSE if True in constraint.holes else TRUE)
            return [(row, row + 1)], []
        scale = self.numbers if kind is Kind.NUMBER else self.strings
        ranges: list[tuple[int, int]] = []
        cuts: list[PlacedCut] = []
        for low, high in constraint.spans():
            start, end = scale.first_row, scale.end_row
            if low is not None:
                row = scale.locate(low)
                start = row + 1
                cuts.append((row, *low))
            if high is not None:
                row = scale.locate(high)
                end = row + 1
                cuts.append((row, *high))
            ranges.append((start, end))
        if constraint.admits_nan:
            ranges.append((first + NAN, first + NAN + 1))
        return ranges, cuts

    def add_flip(self, placed: PlacedCut, place: int) -> None:
        """Turn the bit at a place of the table row over beyond a cut."""
        row, *cut = placed
        flips = self._flips.get(row)
        if flips is None:
            flips = self._flips[row] = Flips()
        flips.add((cut[0], cut[1]), place)
        self._inner_count += not self._scale_of(row).is_chosen(row, (cut[0], cut[1]))

    def remove_flip(self, placed: PlacedCut, place: int) -> None:
        row, *cut = placed
        self._flips[row].remove((cut[0], cut[1]), place)
        self._inner_count -= not self._scale_of(row).is_chosen(row, (cut[0], cut[1]))

    def _scale_of(self, row: int) -> Scale:
        return self.numbers if row < self.strings.first_row else self.strings


def choose_points(cuts: Counter[Cut], limit: int) -> list[Cut]:
    """At most ``limit`` cuts that leave about equally many cuts inside each cell.

    All of them if they fit. Otherwise quantiles, preferably just before a value: publications
    whose values are themselves such ends (integers against integer ranges) then meet no flip.
    """
    ordered = sorted(cuts)
    if len(ordered) <= limit:
        return ordered
    total = sum(cuts.values())
    limit = min(limit, math.ceil(total / CUTS_PER_CELL))
    step = total / limit if limit else math.inf
    points: list[Cut] = []
    weight = 0.0
    for cut in ordered:
        weight += cuts[cut]
        if weight >= step:
            point = cut if cuts[cut] >= step else (cut[0], 0)
            if not points or points[-1] < point:
                points.append(point)
            weight = 0.0
    return points

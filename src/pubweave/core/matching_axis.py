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

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pubweave.core.matching_row import KIND_BY_TYPE, Constraint, Cut, Kind, kind_of
from pubweave.model.publications import Value

Words = NDArray[Any]
PlacedCut = tuple[int, Any, int]
"""The table row of a cell and a cut (value, side) inside it or at its upper end."""

ABSENT, TRUE, FALSE, NAN, FIRST_NUMBER = range(5)


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

    def row_of(self, value: Value) -> int:
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

    def __len__(self) -> int:
        return len(self.values)

    def count_before(self, value: Any) -> int:
        """How many of the cuts lie before a value."""
        values = self.values
        count = bisect_left(values, value)
        while count < len(values) and values[count] == value and not self.sides[count]:
            count += 1
        return count

    def add(self, value: Any, side: int, place: int) -> None:
        index = self._first(value, side)
        self.values.insert(index, value)
        self.sides.insert(index, side)
        self.bytes.insert(index, place >> 3)
        self.bits.insert(index, 1 << (place & 7))

    def remove(self, value: Any, side: int, place: int) -> None:
        index = self._first(value, side)
        while self.bytes[index] != place >> 3 or self.bits[index] != 1 << (place & 7):
            index += 1
        for column in (self.values, self.sides, self.bytes, self.bits):
            del column[index]

    def _first(self, value: Any, side: int) -> int:
        values, sides = self.values, self.sides
        index = bisect_left(values, value)
        while index < len(values) and values[index] == value and sides[index] < side:
            index += 1
        return index


class Axis:
    """The rows of one attribute within the table of a bitmap; `attach` ties it to the table."""

    __slots__ = (
        "_flips",
        "_scratch",
        "_scratch_row",
        "_table",
        "attribute",
        "end_row",
        "first_row",
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
        self._flips: dict[int, Flips] = {}
        self._table: Words = np.zeros((0, 0), np.uint8)
        self._scratch = bytearray()
        self._scratch_row: Words = self._table

    def attach(self, table: Words) -> None:
        """Answer `row` from this table from now on."""
        self._table = table
        self._scratch = bytearray(table.shape[1] * table.itemsize)
        self._scratch_row = np.frombuffer(self._scratch, table.dtype)

    def row(self, value: Value | None) -> Any:
        """The bits that a value satisfies; valid until the next call. O(log cells + flips)."""
        kind = value.__class__
        if kind is float or kind is int:
            scale = self.numbers
        elif value is None:
            return self._table[self.first_row + ABSENT]
        else:
            found = KIND_BY_TYPE.get(kind) or kind_of(value)
            if found is Kind.BOOLEAN:
                return self._table[self.first_row + (TRUE if value else FALSE)]
            scale = self.strings if found is Kind.STRING else self.numbers
        if value != value:
            return self._table[self.first_row + NAN]
        index = scale.row_of(value)  # type: ignore[arg-type]
        flips = self._flips.get(index)
        if flips is None:
            return self._table[index]
        count = flips.count_before(value)
        upwards = 2 * count <= len(flips) or index + 1 == scale.end_row
        return self._upwards(index, flips, count) if upwards else self._downwards(index, flips, count)

    def _upwards(self, index: int, flips: Flips, count: int) -> Any:
        if not count:
            return self._table[index]
        self._scratch_row[:] = self._table[index]
        scratch = self._scratch
        for byte, bits in zip(flips.bytes[:count], flips.bits, strict=False):
            scratch[byte] ^= bits
        return self._scratch_row

    def _downwards(self, index: int, flips: Flips, count: int) -> Any:
        self._scratch_row[:] = self._table[index + 1]
        scratch = self._scratch
        for byte, bits in zip(flips.bytes[count:], flips.bits[count:], strict=True):
            scratch[byte] ^= bits
        return self._scratch_row

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
        for low, high in constraint.spans() if constraint.holes else (constraint.outline,):
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

    def add_flip(self, cut: PlacedCut, place: int) -> None:
        """Turn the bit at a place of the row over beyond a cut."""
        row, value, side = cut
        flips = self._flips.get(row)
        if flips is None:
            flips = self._flips[row] = Flips()
        flips.add(value, side, place)

    def remove_flip(self, cut: PlacedCut, place: int) -> None:
        row, value, side = cut
        self._flips[row].remove(value, side, place)


def choose_points(cuts: Counter[Cut], limit: int) -> list[Cut]:
    """At most ``limit`` cuts that leave about equally many cuts inside each cell.

    All of them if they are few. Otherwise quantiles, preferably just before a value: publications
    whose values are themselves such ends (integers against integer ranges) then meet no flip.
    """
    ordered = sorted(cuts)
    if len(ordered) <= limit:
        return ordered
    if limit == 0:
        return []
    step = sum(cuts.values()) / limit
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

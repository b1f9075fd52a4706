"""One attribute of a bitmap: which row of the table a value selects.

The values an attribute can have, in one order: absent, true, false, NaN, all numbers, all strings.
Chosen cuts divide numbers and strings into cells; a bitmap has one row per cell. A constraint sets
its bit in every row that begins inside it. Cuts of constraints that were not chosen lie inside a
cell: they are kept as *flips*, sorted within the cell, and turn their bit over for values beyond
them, so that a row with its flips applied is exact and nothing has to be checked afterwards.

Invariant: the row of a value, flips applied, has exactly the bits of the constraints it satisfies.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pubweave.core.matching_row import KIND_BY_TYPE, Constraint, Cut, Kind, kind_of
from pubweave.model.publications import Value

Words = NDArray[Any]
Flip = tuple[Any, int, int, int]
"""A cut (value, side), the byte of a row and the bits of it that turn over beyond the cut."""

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

    def locate(self, cut: Cut) -> tuple[int, bool]:
        """The row of the cell before or around a cut, and whether it lies inside that cell."""
        value, side = cut
        values, sides = self.values, self.sides
        index = bisect_left(values, value)
        while index < len(values) and values[index] == value and sides[index] < side:
            index += 1
        chosen = index < len(values) and values[index] == value and sides[index] == side
        return self.first_row + index, not chosen


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
        self._flips: dict[int, list[Flip]] = {}
        self._table: Words = np.zeros((0, 0), np.uint8)
        self._scratch = bytearray()
        self._scratch_row: Words = self._table

    def attach(self, table: Words) -> None:
        """Answer `row` from this table from now on."""
        self._table = table
        self._scratch = bytearray(table.shape[1] * table.itemsize)
        self._scratch_row = np.frombuffer(self._scratch, table.dtype)

    def row(self, value: Value | None) -> Words:
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
        return self._flipped(index, value, flips) if flips else self._table[index]

    def _flipped(self, index: int, value: Any, flips: list[Flip]) -> Words:
        cut, side, _, _ = flips[0]
        if cut > value or (side and cut == value):
            return self._table[index]
        self._scratch_row[:] = self._table[index]
        scratch = self._scratch
        for cut, side, byte, bits in flips:
            if cut >= value and (side or cut != value):
                break
            scratch[byte] ^= bits
        return self._scratch_row

    def project(self, constraint: Constraint | None) -> tuple[list[tuple[int, int]], list[Any]]:
        """The table rows [start, end) that a constraint covers and its cuts inside cells.

        Each inner cut is (row, value, side); no constraint covers all rows.
        """
        first = self.first_row
        if constraint is None:
            return [(first, self.end_row)], []
        if constraint.kind is Kind.ANY:
            return [(first + TRUE, self.end_row)], []
        if constraint.kind is Kind.BOOLEAN:
            rows = [
                row for row, value in ((TRUE, True), (FALSE, False)) if value not in constraint.holes
            ]
            return [(first + row, first + row + 1) for row in rows], []
        scale = self.numbers if constraint.kind is Kind.NUMBER else self.strings
        ranges = [(first + NAN, first + NAN + 1)] if constraint.admits_nan else []
        inner: list[Any] = []
        for low, high in constraint.spans():
            start, end = scale.first_row, scale.end_row
            if low is not None:
                row, inside = scale.locate(low)
                start = row + 1
                if inside:
                    inner.append((row, *low))
            if high is not None:
                row, inside = scale.locate(high)
                end = row + 1
                if inside:
                    inner.append((row, *high))
            ranges.append((start, end))
        return ranges, inner

    def add_flip(self, row: int, flip: Flip) -> None:
        insort(self._flips.setdefault(row, []), flip)

    def append_flip(self, row: int, flip: Flip) -> None:
        """Add in bulk; `sort_flips` must follow before the next `row`."""
        self._flips.setdefault(row, []).append(flip)

    def sort_flips(self) -> None:
        for flips in self._flips.values():
            flips.sort()

    def remove_flip(self, row: int, flip: Flip) -> None:
        flips = self._flips[row]
        flips.remove(flip)
        if not flips:
            del self._flips[row]


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

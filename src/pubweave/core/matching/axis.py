"""One attribute of a bitmap: which row of the table a value selects.

The values an attribute can have, in one order: absent, true, false, NaN, all numbers, all strings.
The first four have a row each, numbers and strings one per cell of their `Scale`. A constraint has
its bit set in every row whose cell begins inside it.

Invariant: the row that `path` names, its flips applied, has exactly the bits of the constraints
that a value satisfies, so that nothing has to be checked afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from numpy.typing import NDArray

from pubweave.core.matching.row import AttributeInterval, ValueKind, kind_of
from pubweave.core.matching.scale import FlippingCut, Scale
from pubweave.model.publications import Value

Words = NDArray[Any]

EXACT = 1 << 53
"""Up to here integers are exact as floats, and floats are much faster to compare with floats."""

ABSENT, TRUE, FALSE, NAN, FIRST_NUMBER = range(5)


class Axis:
    """The rows of one attribute within the table of a bitmap."""

    __slots__ = (
        "_numbers",
        "_strings",
        "attribute",
        "end_row",
        "first_row",
    )

    def __init__(
        self,
        attribute: str,
        first_row: int,
        constraints: Iterable[tuple[AttributeInterval, int]],
        limit: int,
    ) -> None:
        """``constraints`` come with the places of their bits, ``limit`` bounds the cells."""
        numbers: list[FlippingCut] = []
        strings: list[FlippingCut] = []
        for constraint, place in constraints:
            if constraint.kind is ValueKind.NUMBER:
                numbers += [(*cut, place) for cut in constraint.cuts()]
            elif constraint.kind is ValueKind.STRING:
                strings += [(*cut, place) for cut in constraint.cuts()]
        share = limit * len(numbers) // max(1, len(numbers) + len(strings))
        self.attribute = attribute
        self.first_row = first_row
        self._numbers = Scale(first_row + FIRST_NUMBER, numbers, share)
        self._strings = Scale(self._numbers.end_row, strings, limit - share)
        self.end_row = self._strings.end_row

    @property
    def is_exact(self) -> bool:
        """Whether `index_of` alone selects the right row, whatever the value."""
        return self._numbers.is_exact and self._strings.is_exact

    def index_of(self, value: Value | None) -> int:
        """The table row of the cell that a value, or None where it is absent, lies in."""
        if value.__class__ is int and -EXACT <= value <= EXACT:
            value = float(value)
        if value.__class__ is float and value == value:
            # `Scale.row_of` without the call: this is the innermost loop of a broker.
            scale = self._numbers
            ends = scale.ends
            cell = bisect_left(ends, value)
            if cell < len(ends) and ends[cell] == value and not scale.end_sides[cell]:
                cell += 1
            return scale.first_row + cell
        return self._unusual_index_of(value)

    def _unusual_index_of(self, value: Value | None) -> int:
        scale = self._scale_of(value)
        if scale is not None:
            return scale.row_of(value)
        if value is None:
            return self.first_row + ABSENT
        if value != value:
            return self.first_row + NAN
        return self.first_row + (TRUE if value else FALSE)

    def path(self, value: Value | None) -> tuple[int, Sequence[int]]:
        """The table row to start from for a value, and the flips still to be applied to it.

        O(log cells + flips).
        """
        index = self.index_of(value)
        numbers = self._numbers
        if numbers.inner_count and numbers.first_row <= index < numbers.end_row:
            return numbers.path(index, value)
        if self._strings.inner_count and index >= self._strings.first_row:
            return self._strings.path(index, value)
        return index, ()

    def _scale_of(self, value: Value | None) -> Scale | None:
        """The scale a value lies on; None if it is absent, a boolean or NaN."""
        kind = value.__class__
        if kind is float or kind is int:
            return self._numbers if value == value else None
        if kind is str:
            return self._strings
        if value is None or isinstance(value, bool):
            return None
        if kind_of(value) is ValueKind.STRING:
            return self._strings
        return self._numbers if value == value else None

    def ranges(self, constraint: AttributeInterval | None) -> list[tuple[int, int]]:
        """The table rows [start, end) in which a constraint has its bit; all for none."""
        first = self.first_row
        if constraint is None:
            return [(first, self.end_row)]
        kind = constraint.kind
        if kind is ValueKind.ANY:
            return [(first + TRUE, self.end_row)]
        if kind is ValueKind.BOOLEAN:
            row = first + (FALSE if True in constraint.holes else TRUE)
            return [(row, row + 1)]
        scale = self._numbers if kind is ValueKind.NUMBER else self._strings
        first = scale.first_row
        found = [
            (
                first if low is None else first + scale.cell_of_cut(low) + 1,
                scale.end_row if high is None else first + scale.cell_of_cut(high) + 1,
            )
            for low, high in constraint.spans()
        ]
        if constraint.admits_nan:
            found.append((self.first_row + NAN, self.first_row + NAN + 1))
        return found

    def add_flips(self, constraint: AttributeInterval, place: int) -> None:
        """Enter the cuts of a constraint whose bit is at a place of the table row."""
        if constraint.kind in (ValueKind.NUMBER, ValueKind.STRING):
            scale = self._numbers if constraint.kind is ValueKind.NUMBER else self._strings
            for cut in constraint.cuts():
                scale.add(cut, place)

    def remove_flips(self, constraint: AttributeInterval, place: int) -> None:
        if constraint.kind in (ValueKind.NUMBER, ValueKind.STRING):
            scale = self._numbers if constraint.kind is ValueKind.NUMBER else self._strings
            for cut in constraint.cuts():
                scale.remove(cut, place)


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds; the defaults were measured, smaller ones let tests cross them with few filters.

    ``small``: rows of a leaf that are checked one by one; ``cells``: cells per attribute of a
    bitmap; ``axes``: attributes per bitmap; ``few``: destinations for which Python integers beat
    numpy; ``topics``: topics whose route is remembered.
    """

    small: int = 16
    cells: int = 2048
    axes: int = 16
    few: int = 16
    topics: int = 65536

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(
                    f"the limit {field.name!r} of a matching index must be at least 1, "
                    f"got {getattr(self, field.name)}"
                )

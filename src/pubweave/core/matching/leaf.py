"""A leaf of the matching index: all rows with one access, in the form that answers fastest.

Rows without anything left to check only count their destination. A handful is checked one by one
(the tail). More become bitmaps over their most used attributes. Leaves re-form when they have
doubled or shrunk to a quarter, so that the work per change stays constant on average.

Invariant: every conditional row is in a shadow, in the tail, or in exactly one bitmap (its
``home``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pubweave.core.matching.axis import Limits
from pubweave.core.matching.bitmap import Attributes, Bitmap
from pubweave.core.matching.row import AttributeInterval, Destination, Row, ValueKind

REBUILD_SHARE = 6
"""Entering a row costs about as much as six rows cost in a rebuild."""


class Leaf:
    """Rows that share an access; `always` counts the unconditional ones by destination slot."""

    __slots__ = (
        "_fronts",
        "_limits",
        "_reform_above",
        "_reform_below",
        "_size",
        "always",
        "bitmaps",
        "is_settled",
        "tail",
    )

    def __init__(self, limits: Limits) -> None:
        self.always: dict[int, int] = {}
        self.tail: dict[Row, None] = {}
        self.bitmaps: list[Bitmap] = []
        self.is_settled = True
        self._fronts = CoverSets()
        self._limits = limits
        self._size = 0
        self._reform_above = 2 * limits.small
        self._reform_below = 0

    @property
    def is_empty(self) -> bool:
        return not self._size and not self.always

    @property
    def has_rows(self) -> bool:
        return self._size > 0

    def answer(self, attributes: Attributes) -> tuple[Any, ...] | None:
        """Its destinations hit, in a deterministic order; None where marks must tell."""
        if not self.is_settled:
            self.settle()
        bitmaps = self.bitmaps
        if self.tail or self.always or len(bitmaps) != 1 or not bitmaps[0].exact:
            return None
        return bitmaps[0].answer(attributes)

    def add(self, row: Row) -> None:
        """Take a row in. O(1); `settle` finds it a bitmap before the next query."""
        if row.is_unconditional:
            slot = row.destination.slot
            self.always[slot] = self.always.get(slot, 0) + 1
            return
        covered = self._fronts.add(row)
        if covered is None:
            return
        for other in covered:
            self._withdraw(other)
        self._size += 1
        self.tail[row] = None
        self.is_settled = False

    def remove(self, row: Row) -> None:
        """Let a row go. O(cells) amortised."""
        if row.is_unconditional:
            slot = row.destination.slot
            self.always[slot] -= 1
            if not self.always[slot]:
                del self.always[slot]
            return
        uncovered = self._fronts.remove(row)
        if uncovered is None:
            return
        self._withdraw(row)
        for other in uncovered:
            self.add(other)
        if self._size < self._reform_below:
            self._reform()

    def _withdraw(self, row: Row) -> None:
        self._size -= 1
        if row.home is None:
            del self.tail[row]
        else:
            row.home.remove(row)

    def settle(self) -> None:
        """Move new rows from the tail into bitmaps. O(cells) for each, amortised.

        Many at once, as after a link came up, are cheaper built anew than entered one by one.
        """
        self.is_settled = True
        many = len(self.tail) > max(self._limits.small, self._size // REBUILD_SHARE)
        if self._size > self._reform_above or many:
            self._reform()
            return
        for row in list(self.tail):
            home = next((bitmap for bitmap in self.bitmaps if bitmap.accepts(row)), None)
            if home is not None:
                del self.tail[row]
                home.add(row)
        if len(self.tail) > self._limits.small:
            self._form(list(self.tail))

    def _reform(self) -> None:
        rows = [row for bitmap in self.bitmaps for row in bitmap.rows()]
        rows += self.tail
        self.bitmaps = []
        self._reform_above = 2 * max(self._size, self._limits.small)
        self._reform_below = self._size // 4
        self._form(rows)

    def _form(self, rows: list[Row]) -> None:
        """Make bitmaps of rows that are in none, keep what is too few for one as the tail."""
        tail: list[Row] = []
        while len(rows) + len(tail) > self._limits.small and rows:
            used = Counter(c.attribute for row in rows for c in row.constraints)
            axes = tuple(attribute for attribute, _ in used.most_common(self._limits.axes))
            exact, checked, rows = _split(rows, axes)
            for part, is_exact in ((exact, True), (checked, False)):
                if len(part) + len(tail) <= self._limits.small:
                    tail += part
                else:
                    self._form_bitmap(axes, part, is_exact)
        self.tail = dict.fromkeys(tail + rows)
        for row in self.tail:
            row.home = None

    def _form_bitmap(self, axes: tuple[str, ...], rows: list[Row], exact: bool) -> None:
        for row in rows:
            row.tests = ()
        self.bitmaps.append(Bitmap(axes, rows, self._limits, exact=exact))


def _split(rows: Iterable[Row], axes: tuple[str, ...]) -> tuple[list[Row], list[Row], list[Row]]:
    """Rows wholly described by the axes, rows that touch them, and the others."""
    exact: list[Row] = []
    touching: list[Row] = []
    others: list[Row] = []
    for row in rows:
        known = [c.attribute in axes for c in row.constraints]
        if all(known) and not row.loose:
            exact.append(row)
        elif any(known):
            touching.append(row)
        else:
            others.append(row)
    return exact, touching, others


# Which rows of a leaf need no look because another row of the same destination covers them.
#
# A destination is hit if any of its rows is. So a row whose publications all satisfy another row
# of the same destination can wait in that row's shadow until the other goes. Of the ranges that
# come over a link, most are in some shadow.
#
# Invariant: a row in a shadow is covered by its coverer, and a coverer is in no shadow itself.


COMPARED = 64
"""So many rows per destination are compared with a new one, the last successful ones first.

Without a bound, ranges of which none covers another would make every change linear."""


class CoverSets:
    """For each destination the rows that are in no shadow."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[Destination, list[Row]] = {}

    def add(self, row: Row) -> list[Row] | None:
        """Enter a row; None if it went into a shadow, else the rows that went into its own.

        O(COMPARED) for rows without a shadow of their own.
        """
        front = self._rows.setdefault(row.destination, [])
        for index, other in enumerate(front[:COMPARED]):
            if covers(other, row):
                front.insert(0, front.pop(index))
                row.coverer = other
                other.shadowed[row] = None
                return None
        covered = [other for other in front[:COMPARED] if covers(row, other)]
        for other in covered:
            front.remove(other)
            for shadowed in (other, *other.shadowed):
                shadowed.coverer = row
                row.shadowed[shadowed] = None
            other.shadowed.clear()
        front.append(row)
        return covered

    def remove(self, row: Row) -> list[Row] | None:
        """Take a row out; None if it was in a shadow, else the rows that lost their coverer."""
        if row.coverer is not None:
            del row.coverer.shadowed[row]
            row.coverer = None
            return None
        front = self._rows[row.destination]
        front.remove(row)
        if not front:
            del self._rows[row.destination]
        freed = list(row.shadowed)
        for other in freed:
            other.coverer = None
        row.shadowed.clear()
        return freed


def covers(wide: Row, narrow: Row) -> bool:
    """Whether whatever satisfies one row satisfies the other; may miss it, never invents it."""
    for constraint in wide.constraints:
        inner = narrow.constraint_on(constraint.attribute)
        if inner is None or not _contains(constraint, inner):
            return False
    return all(predicate in narrow.loose for predicate in wide.loose)


def _contains(outer: AttributeInterval, inner: AttributeInterval) -> bool:
    if outer.kind is not inner.kind:
        return outer.kind is ValueKind.ANY
    low, high = outer.low, outer.high
    if low is not None and (inner.low is None or inner.low < low):
        return False
    if high is not None and (inner.high is None or inner.high > high):
        return False
    return not outer.holes or all(_excludes(inner, hole) for hole in outer.holes)


def _excludes(constraint: AttributeInterval, value: object) -> bool:
    low, high = constraint.low, constraint.high
    return (
        value in constraint.holes
        or (low is not None and (value, 1) <= low)
        or (high is not None and (value, 0) >= high)
    )

"""A leaf of the matching index: all rows with one access, in the form that answers fastest.

Rows without anything left to check only count their destination. A handful is checked one by one
(the tail). More become bitmaps over their most used attributes. Leaves re-form when they have
doubled or shrunk to a quarter, so that the work per change stays constant on average.

Invariant: every conditional row is in the tail or in exactly one bitmap (its ``home``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from pubweave.core.matching_bitmap import Bitmap
from pubweave.core.matching_row import Row


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a leaf changes form.

    ``small``: rows checked one by one, ``cells``: cuts chosen per attribute, ``axes``: attributes
    per bitmap, ``topics``: topics whose route is remembered.
    """

    small: int = 16
    cells: int = 1024
    axes: int = 16
    topics: int = 65536

    def __post_init__(self) -> None:
        for name in ("small", "cells", "axes", "topics"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}_limit must be at least 1, got {getattr(self, name)}")


class Leaf:
    """Rows that share an access; `always` counts the unconditional ones by destination slot."""

    __slots__ = ("_limits", "_reform_above", "_reform_below", "_size", "always", "bitmaps", "tail")

    def __init__(self, limits: Limits) -> None:
        self.always: dict[int, int] = {}
        self.tail: dict[Row, None] = {}
        self.bitmaps: list[Bitmap] = []
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

    @property
    def sole_bitmap(self) -> Bitmap | None:
        """The bitmap that alone has the whole answer, if there is one."""
        if len(self.bitmaps) == 1 and not self.tail and not self.always:
            bitmap = self.bitmaps[0]
            return bitmap if bitmap.exact else None
        return None

    def add(self, row: Row) -> None:
        """Take a row in. O(cells) amortised."""
        if row.is_unconditional:
            slot = row.destination.slot
            self.always[slot] = self.always.get(slot, 0) + 1
            return
        self._size += 1
        for bitmap in self.bitmaps:
            if bitmap.accepts(row):
                bitmap.add(row)
                break
        else:
            self.tail[row] = None
        self._reform_if_due()

    def remove(self, row: Row) -> None:
        """Let a row go. O(cells) amortised."""
        if row.is_unconditional:
            slot = row.destination.slot
            self.always[slot] -= 1
            if not self.always[slot]:
                del self.always[slot]
            return
        self._size -= 1
        if row.home is None:
            del self.tail[row]
        else:
            row.home.remove(row)
        self._reform_if_due()

    def _reform_if_due(self) -> None:
        if self._size > self._reform_above or self._size < self._reform_below:
            rows = chain(*(bitmap.rows() for bitmap in self.bitmaps), self.tail)
            rest = list(rows)
            self.bitmaps = []
            self._reform_above = 2 * max(self._size, self._limits.small)
            self._reform_below = self._size // 4
            self._form(rest)
        elif len(self.tail) > self._limits.small:
            self._form(list(self.tail))

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
                    self._make_bitmap(axes, part, is_exact)
        self.tail = dict.fromkeys(tail + rows)
        for row in self.tail:
            row.home = None

    def _make_bitmap(self, axes: tuple[str, ...], rows: list[Row], exact: bool) -> None:
        for row in rows:
            row.tests = ()
        self.bitmaps.append(Bitmap(axes, rows, exact=exact, cell_limit=self._limits.cells))


def _split(
    rows: Iterable[Row], axes: tuple[str, ...]
) -> tuple[list[Row], list[Row], list[Row]]:
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

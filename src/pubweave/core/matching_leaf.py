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
from typing import Any

from pubweave.core.matching_bitmap import FEW, Attributes, Bitmap, widest
from pubweave.core.matching_row import Row

REBUILD_SHARE = 6
"""Entering a row costs about as much as six rows cost in a rebuild."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a leaf changes form.

    ``small``: rows checked one by one, ``cells``: cuts chosen per attribute, ``axes``: attributes
    per bitmap, ``wide``: rows per destination set apart, ``topics``: topics whose route is kept.
    """

    small: int = 16
    cells: int = 1024
    axes: int = 16
    wide: int = 64
    topics: int = 65536

    def __post_init__(self) -> None:
        for name in ("small", "cells", "axes", "wide", "topics"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}_limit must be at least 1, got {getattr(self, name)}")


class Leaf:
    """Rows that share an access; `always` counts the unconditional ones by destination slot.

    With few destinations and many rows (the links of a broker), the widest rows of each
    destination are a bitmap of their own, `wide`: it alone usually shows that everyone is hit.
    """

    __slots__ = (
        "_limits",
        "_reform_above",
        "_reform_below",
        "_size",
        "_wide_has_all",
        "always",
        "bitmaps",
        "is_settled",
        "tail",
        "wide",
    )

    def __init__(self, limits: Limits) -> None:
        self.always: dict[int, int] = {}
        self.tail: dict[Row, None] = {}
        self.bitmaps: list[Bitmap] = []
        self.wide: Bitmap | None = None
        self.is_settled = True
        self._limits = limits
        self._size = 0
        self._wide_has_all: bool | None = None
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
        wide = self.wide
        if wide is None:
            return bitmaps[0].answer(attributes)
        hit = wide.answer(attributes)
        if len(hit) == wide.destination_count and self._is_wide_enough():
            return hit
        return tuple(dict.fromkeys(hit + bitmaps[0].answer(attributes)))

    def _is_wide_enough(self) -> bool:
        """Whether every destination of the leaf has a row in `wide`."""
        if self._wide_has_all is None:
            known = self.wide.destinations if self.wide is not None else ()
            self._wide_has_all = all(
                destination in known
                for bitmap in self.bitmaps
                for destination in bitmap.destinations
            )
        return self._wide_has_all

    def add(self, row: Row) -> None:
        """Take a row in. O(1); `settle` finds it a bitmap before the next query."""
        if row.is_unconditional:
            slot = row.destination.slot
            self.always[slot] = self.always.get(slot, 0) + 1
            return
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
        self._size -= 1
        self._wide_has_all = None
        if row.home is None:
            del self.tail[row]
        else:
            row.home.remove(row)
        if self._size < self._reform_below:
            self._reform()

    def settle(self) -> None:
        """Move new rows from the tail into bitmaps. O(cells) for each, amortised.

        Many at once, as after a link came up, are cheaper built anew than entered one by one.
        """
        self.is_settled = True
        self._wide_has_all = None
        many = len(self.tail) > max(self._limits.small, self._size // REBUILD_SHARE)
        if self._size > self._reform_above or many:
            self._reform()
            return
        for row in list(self.tail):
            bitmap = self._home_for(row)
            if bitmap is not None:
                del self.tail[row]
                bitmap.add(row)
        if len(self.tail) > self._limits.small:
            self._form(list(self.tail))

    def _home_for(self, row: Row) -> Bitmap | None:
        wide = self.wide
        if wide is not None and row.destination not in wide.destinations and wide.accepts(row):
            return wide
        return next((bitmap for bitmap in self.bitmaps if bitmap.accepts(row)), None)

    def all_bitmaps(self) -> list[Bitmap]:
        return self.bitmaps if self.wide is None else [self.wide, *self.bitmaps]

    def _reform(self) -> None:
        rows = [row for bitmap in self.all_bitmaps() for row in bitmap.rows()]
        rows += self.tail
        self.bitmaps = []
        self.wide = None
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
            if self.wide is None:
                exact = self._form_wide(axes, exact)
            for part, is_exact in ((exact, True), (checked, False)):
                if len(part) + len(tail) <= self._limits.small:
                    tail += part
                else:
                    self.bitmaps.append(self._bitmap(axes, part, is_exact))
        self.tail = dict.fromkeys(tail + rows)
        for row in self.tail:
            row.home = None

    def _form_wide(self, axes: tuple[str, ...], rows: list[Row]) -> list[Row]:
        """Put the widest rows of few destinations apart and return the others."""
        count = len({row.destination for row in rows})
        if count > FEW or len(rows) < 4 * self._limits.wide * count or not rows:
            return rows
        chosen = dict.fromkeys(widest(axes, rows, self._limits.wide))
        self.wide = self._bitmap(axes, list(chosen), True)
        return [row for row in rows if row not in chosen]

    def _bitmap(self, axes: tuple[str, ...], rows: list[Row], exact: bool) -> Bitmap:
        for row in rows:
            row.tests = ()
        return Bitmap(axes, rows, exact=exact, cell_limit=self._limits.cells)


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

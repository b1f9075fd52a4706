"""Which rows of a leaf need no look because another row of the same destination covers them.

A destination is hit if any of its rows is. So a row whose publications all satisfy another row of
the same destination can wait in that row's shadow until the other goes. Of the ranges that come
over a link, most are in some shadow.

Invariant: a row in a shadow is covered by its coverer, and a coverer is in no shadow itself.
"""

from __future__ import annotations

from pubweave.core.matching_row import Constraint, Destination, Kind, Row

COMPARED = 64
"""So many rows per destination are compared with a new one, the last successful ones first.

Without a bound, ranges of which none covers another would make every change linear."""


class Fronts:
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


def _contains(outer: Constraint, inner: Constraint) -> bool:
    if outer.kind is not inner.kind:
        return outer.kind is Kind.ANY
    low, high = outer.low, outer.high
    if low is not None and (inner.low is None or inner.low < low):
        return False
    if high is not None and (inner.high is None or inner.high > high):
        return False
    return not outer.holes or all(_excludes(inner, hole) for hole in outer.holes)


def _excludes(constraint: Constraint, value: object) -> bool:
    low, high = constraint.low, constraint.high
    return (
        value in constraint.holes
        or (low is not None and (value, 1) <= low)
        or (high is not None and (value, 0) >= high)
    )

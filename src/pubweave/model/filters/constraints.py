"""What predicates on one attribute allow together, as one value for each kind of operand.

A constraint answers three questions: is this value allowed (`allows`), is some value allowed by
both of us (`meets`), do I allow everything you allow (`includes`). Nothing here knows of filters:
`filters/relations` folds predicates into constraints; those of strings are in
`filters/strings`.

Invariant: every constraint but `Never` allows some value, its bounds are as tight as its
exclusions make them, and no exclusion lies outside its bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

import msgspec

from pubweave.model.filters.filter import Operator
from pubweave.model.publications import Value


class Constraint(Protocol):
    """A set of values that one attribute may have."""

    def allows(self, value: Value) -> bool:
        """Whether a value is in the set."""

    def meets(self, other: Constraint) -> bool:
        """Whether the two sets have a value in common; never a false no."""

    def includes(self, other: Constraint) -> bool:
        """Whether the other set is a part of this one; never a false yes."""


class Never(msgspec.Struct, frozen=True, gc=False):
    """No value at all: the predicates contradict each other."""

    def allows(self, value: Value) -> bool:
        return False

    def meets(self, other: Constraint) -> bool:
        return False

    def includes(self, other: Constraint) -> bool:
        return isinstance(other, Never)


class Present(msgspec.Struct, frozen=True, gc=False):
    """Every value of every kind: the attribute only has to be present."""

    def allows(self, value: Value) -> bool:
        return True

    def meets(self, other: Constraint) -> bool:
        return not isinstance(other, Never)

    def includes(self, other: Constraint) -> bool:
        return True


class BooleanValue(msgspec.Struct, frozen=True, gc=False):
    """One truth value: with two of them, ``!= true`` says as much as ``= false``."""

    value: bool

    def allows(self, value: Value) -> bool:
        return value is self.value

    def meets(self, other: Constraint) -> bool:
        if type(other) is BooleanValue:
            return other.value is self.value
        return isinstance(other, Present)

    def includes(self, other: Constraint) -> bool:
        return other == self or isinstance(other, Never)


class NumberRange(msgspec.Struct, frozen=True, gc=False):
    """The real numbers between two bounds without a few; an infinite bound is open.

    Bounds keep the type they were written with: Python compares int and float exactly.
    """

    low: int | float = -math.inf
    low_open: bool = True
    high: int | float = math.inf
    high_open: bool = True
    excluded: frozenset[int | float] = frozenset()

    def allows(self, value: Value) -> bool:
        if isinstance(value, (bool, str)):
            return False
        return self._spans(value) and value not in self.excluded

    def meets(self, other: Constraint) -> bool:
        if type(other) is not NumberRange:
            return isinstance(other, Present)
        low = other.low if other.low > self.low else self.low
        high = other.high if other.high < self.high else self.high
        if low != high:
            # Between two reals there are more than finitely many exclusions can take away.
            return low < high
        return self.allows(low) and other.allows(low)

    def includes(self, other: Constraint) -> bool:
        if type(other) is not NumberRange:
            return isinstance(other, Never)
        if other.low < self.low or other.high > self.high:
            return False
        if other.low == self.low and self.low_open and not other.low_open:
            return False
        if other.high == self.high and self.high_open and not other.high_open:
            return False
        return not self.excluded or not any(other.allows(v) for v in self.excluded)

    def _spans(self, value: int | float) -> bool:
        above = self.low < value or (self.low == value and not self.low_open)
        return above and (value < self.high or (self.high == value and not self.high_open))


NEVER = Never()
PRESENT = Present()


def number_range(pairs: Iterable[tuple[Operator, int | float]]) -> NumberRange | None:
    """The range that order and equality comparisons leave; None where they leave nothing.

    >>> number_range([(Operator.GE, 1), (Operator.NE, 1)])
    NumberRange(low=1, low_open=True, high=inf, high_open=True, excluded=frozenset())
    """
    # Bounds as (value, rank): of two bounds at the same value the open one is the tighter.
    lows: list[tuple[int | float, bool]] = [(-math.inf, True)]
    highs: list[tuple[int | float, bool]] = [(math.inf, False)]
    excluded: set[int | float] = set()
    for operator, value in pairs:
        if operator is Operator.NE:
            excluded.add(value)
        if operator in (Operator.EQ, Operator.GE, Operator.GT):
            lows.append((value, operator is Operator.GT))
        if operator in (Operator.EQ, Operator.LE, Operator.LT):
            highs.append((value, operator is not Operator.LT))
    low, low_open = max(lows)
    high, high_closed = min(highs)
    low_open = low_open or low in excluded
    high_open = not high_closed or high in excluded
    if low > high or (low == high and (low_open or high_open)):
        return None
    inside = frozenset(value for value in excluded if low < value < high)
    return NumberRange(low, low_open, high, high_open, inside)

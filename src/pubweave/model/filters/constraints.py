"""What predicates on one attribute allow together, as one value for each kind of operand.

A constraint answers three questions: is this value allowed (`allows`), is some value allowed by
both of us (`meets`), do I allow everything you allow (`includes`). `filters/relations` folds
predicates into constraints.

Invariant: every constraint but `Never` allows some value, its bounds are as tight as its
exclusions make them, and no exclusion lies outside its bounds.

Strings are one interval and shapes within it. In code-point order the string right after ``s`` is
``s + NUL``, so every bound can be written as an inclusive lower and an exclusive upper one, and a
prefix is an interval as well. An interval holds finitely many strings only if its upper bound is
its lower bound followed by NULs; then everything is decided by trying them. Any other interval
contains all strings that begin with some root; there, whatever must be contained or come last can
be appended, and finitely many excluded strings do not matter.

`meets` and `includes` are therefore exact, but for two cases in which they are merely safe: more
than `ENUMERATED_MAX` strings that differ in trailing NULs, and a piece that all strings of an
interval contain before they differ once the interval's ends are ruled out by a suffix.
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


ENUMERATED_MAX = 64
"""How many strings of a finite interval are tried one by one."""

_NUL = "\0"
_LAST = "\U0010ffff"


class StringRange(msgspec.Struct, frozen=True, gc=False):
    """The strings in ``[low, high)`` with a suffix and all pieces, without the excluded ones.

    ``high`` None is no upper bound; ``values`` holds all strings where they are few, else None;
    ``common`` is the prefix that all strings of the interval share.
    """

    low: str = ""
    high: str | None = None
    excluded: frozenset[str] = frozenset()
    suffix: str = ""
    pieces: tuple[str, ...] = ()
    values: tuple[str, ...] | None = None
    common: str = ""

    @property
    def is_everything(self) -> bool:
        """Whether every string is allowed."""
        return not (self.low or self.excluded or self.suffix or self.pieces) and self.high is None

    def allows(self, value: Value) -> bool:
        if not isinstance(value, str) or value < self.low:
            return False
        if self.high is not None and value >= self.high:
            return False
        if self.excluded and value in self.excluded:
            return False
        return not (self.suffix or self.pieces) or self._has_shape(value)

    def meets(self, other: Constraint) -> bool:
        if type(other) is not StringRange:
            return isinstance(other, Present)
        few, test = (other.values, self) if self.values is None else (self.values, other)
        if few is not None:
            return test.allows(few[0]) if len(few) == 1 else any(map(test.allows, few))
        low = max(self.low, other.low)
        high = _lower(self.high, other.high)
        if high is not None and low >= high:
            return False
        if not (self.suffix.endswith(other.suffix) or other.suffix.endswith(self.suffix)):
            return False
        if not _is_enumerable(low, high):
            return True
        suffixes, pieces = (self.suffix, other.suffix), self.pieces + other.pieces
        return _range(low, high, self.excluded | other.excluded, suffixes, pieces) is not None

    def includes(self, other: Constraint) -> bool:
        if type(other) is not StringRange:
            return isinstance(other, Never)
        few = other.values
        if few is not None:
            return self.allows(few[0]) if len(few) == 1 else all(map(self.allows, few))
        if self.values is not None:
            return False
        if other.low < self.low and other._reaches(other.low, _lower(self.low, other.high)):
            return False
        if self.high is not None and _lower(self.high, other.high) != other.high:
            start = max(self.high, other.low)
            if other._reaches(start, other.high):
                return False
        if self.excluded and any(other.allows(value) for value in self.excluded):
            return False
        return other.suffix.endswith(self.suffix) and all(map(other._forces, self.pieces))

    def _has_shape(self, value: str) -> bool:
        return value.endswith(self.suffix) and all(piece in value for piece in self.pieces)

    def _reaches(self, low: str, high: str | None) -> bool:
        """Whether some allowed string lies in a non-empty part of the interval."""
        return _range(low, high, self.excluded, (self.suffix,), self.pieces) is not None

    def _forces(self, piece: str) -> bool:
        """Whether every allowed string is known to contain a piece."""
        if piece in self.common or piece in self.suffix:
            return True
        return any(piece in own for own in self.pieces)


def string_range(pairs: Iterable[tuple[Operator, str]]) -> StringRange | None:
    """The range that string comparisons leave; None where they leave nothing.

    >>> string_range([(Operator.PREFIX, "ab"), (Operator.LT, "abc")]).high
    'abc'
    """
    low, high = "", None
    excluded, suffixes, pieces = set(), [], []
    for operator, value in pairs:
        match operator:
            case Operator.NE:
                excluded.add(value)
            case Operator.SUFFIX:
                suffixes.append(value)
            case Operator.CONTAINS:
                pieces.append(value)
            case _:
                start, end = _interval(operator, value)
                low, high = max(low, start), _lower(high, end)
    return _range(low, high, frozenset(excluded), tuple(suffixes), tuple(pieces))


def prefix_end(prefix: str) -> str | None:
    """The first string after all those with a prefix; None where there is none.

    >>> prefix_end("ab")
    'ac'
    """
    stem = prefix.rstrip(_LAST)
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None


def _interval(operator: Operator, value: str) -> tuple[str, str | None]:
    """The strings that an order comparison, an equality or a prefix allows, as [low, high)."""
    match operator:
        case Operator.EQ:
            return value, value + _NUL
        case Operator.LT:
            return "", value
        case Operator.LE:
            return "", value + _NUL
        case Operator.GT:
            return value + _NUL, None
        case Operator.GE:
            return value, None
        case Operator.PREFIX:
            return value, prefix_end(value)
        case _:
            raise AssertionError(f"{operator} is no interval of strings")


def _range(
    low: str,
    high: str | None,
    excluded: frozenset[str],
    suffixes: tuple[str, ...],
    pieces: tuple[str, ...],
) -> StringRange | None:
    """The range with these properties in its tightest form; None if it is empty."""
    suffix = max(suffixes, key=len, default="")
    if not all(suffix.endswith(other) for other in suffixes):
        return None
    while low in excluded:
        low += _NUL
    while high is not None and high.endswith(_NUL) and high[:-1] in excluded:
        high = high[:-1]
    if high is not None and low >= high:
        return None
    common = _common_prefix(low, high)
    needed = _independent(pieces, (suffix, common))
    loose = StringRange(low, high, frozenset(), suffix, needed, None, common)
    excluded = frozenset(value for value in excluded if loose.allows(value))
    values = None
    if high is not None and _is_enumerable(low, high):
        candidates = (low + _NUL * n for n in range(len(high) - len(low)))
        values = tuple(v for v in candidates if v not in excluded and loose.allows(v))
        if not values:
            return None
    return StringRange(low, high, excluded, suffix, needed, values, common)


def _lower(one: str | None, other: str | None) -> str | None:
    """The lower of two upper bounds, None being none."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _is_enumerable(low: str, high: str | None) -> bool:
    """Whether [low, high) holds finitely many strings, and few."""
    if high is None or len(high) - len(low) > ENUMERATED_MAX:
        return False
    return high.startswith(low) and not high[len(low) :].strip(_NUL)


def _common_prefix(low: str, high: str | None) -> str:
    """The longest prefix of all strings in [low, high)."""
    shared = 0
    if high is not None:
        while shared < min(len(low), len(high)) and low[shared] == high[shared]:
            shared += 1
    end = prefix_end(low[: shared + 1])
    if shared < len(low) and (end is None or (high is not None and end >= high)):
        shared += 1
        # Nothing sorts after the last code point, so that it changes no upper bound.
        while shared < len(low) and low[shared] == _LAST:
            shared += 1
    return low[:shared]


def _independent(pieces: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """The pieces, sorted, that are not contained in another piece nor in what is given."""
    kept: list[str] = []
    for piece in sorted(set(pieces), key=lambda p: (-len(p), p)):
        if not any(piece in other for other in (*given, *kept)):
            kept.append(piece)
    return tuple(sorted(kept))

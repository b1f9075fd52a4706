"""What string comparisons on one attribute allow: one interval of strings, and shapes within it.

In code-point order the string right after ``s`` is ``s + NUL``, so every bound can be written as
an inclusive lower and an exclusive upper one, and a prefix is an interval as well. An interval
holds finitely many strings only if its upper bound is its lower bound followed by NULs; then
everything is decided by trying them. Any other interval contains all strings that begin with some
root; there, whatever must be contained or come last can be appended, and finitely many excluded
strings do not matter.

`meets` and `includes` are therefore exact, but for two cases in which they are merely safe: more
than `ENUMERATED_MAX` strings that differ in trailing NULs, and a piece that all strings of an
interval contain before they differ once the interval's ends are ruled out by a suffix.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pubweave.model.filters.constraints import Constraint, Never, Present
from pubweave.model.filters.filter import Operator
from pubweave.model.publications import Value

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

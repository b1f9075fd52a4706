"""One filter of the matching index, taken apart.

A filter becomes an access (which topics, and at most one equality that names its leaf) and a row:
what is left to check, one `Constraint` per attribute plus the `loose` predicates (suffix, contains)
that no interval can express. Nothing here knows where rows are kept.

Invariant: access and row together say exactly what `Filter.matches` says; a filter that no
publication can satisfy may be recognised as such (`take_apart` returns None) but need not be.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pubweave.model.filters import Filter, Operator, Predicate
from pubweave.model.publications import TOPIC_ATTRIBUTE, Value

Cut = tuple[Any, int]
"""A place between values: just before (``(v, 0)``) or just after (``(v, 1)``) the value v."""

Test = tuple[str, "Kind", Callable[[Any], bool]]

LOOSE_OPERATORS = frozenset({Operator.SUFFIX, Operator.CONTAINS})


class Kind(enum.Enum):
    """The types comparisons go by; ANY is what ``is present`` alone asks for."""

    ANY = "any"
    BOOLEAN = "boolean"
    NUMBER = "number"
    STRING = "string"


KIND_BY_TYPE: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
}


def kind_of(value: Value) -> Kind:
    """The kind of a value, also of an instance of a subclass such as a numpy float."""
    if isinstance(value, bool):
        return Kind.BOOLEAN
    return Kind.STRING if isinstance(value, str) else Kind.NUMBER


@dataclass(slots=True, eq=False)
class Constraint:
    """The values one attribute may have: of one kind, between two cuts, without the holes.

    A missing cut is unbounded. For booleans only the holes count.
    """

    attribute: str
    kind: Kind
    low: Cut | None = None
    high: Cut | None = None
    holes: tuple[Value, ...] = ()

    def spans(self) -> Iterator[tuple[Cut | None, Cut | None]]:
        """The intervals left between the holes; some may be empty (start == end)."""
        start = self.low
        for hole in self.holes:
            yield start, (hole, 0)
            start = (hole, 1)
        yield start, self.high

    def cuts(self) -> Iterator[Cut]:
        """Where the set of values begins or ends."""
        for span in self.spans():
            for cut in span:
                if cut is not None:
                    yield cut

    @property
    def admits_nan(self) -> bool:
        """NaN is unequal to everything and compares with nothing."""
        return self.kind is Kind.NUMBER and self.low is None and self.high is None


@dataclass(slots=True, eq=False)
class Destination:
    """Who wants publications; ``slot`` is its place in the index while ``count`` filters name it."""

    value: Any
    slot: int
    count: int = 0


@dataclass(slots=True, eq=False)
class Access:
    """What a publication must show before a row is even looked at."""

    topic: str | None
    pattern: tuple[Predicate, ...]
    attribute: str | None = None
    value: Hashable = None

    @property
    def prefix(self) -> str:
        """The longest prefix that every topic of the pattern has."""
        prefixes = [p.value for p in self.pattern if p.operator is Operator.PREFIX]
        return max((v for v in prefixes if isinstance(v, str)), key=len, default="")


@dataclass(slots=True, eq=False)
class Row:
    """What is left to check of one filter once its access is satisfied."""

    key: Hashable
    filter: Filter
    destination: Destination
    access: Access | None
    constraints: tuple[Constraint, ...] = ()
    loose: tuple[Predicate, ...] = ()
    tests: tuple[Test, ...] = ()
    home: Any = None
    place: int = 0

    @property
    def is_unconditional(self) -> bool:
        return not self.constraints

    def constraint_on(self, attribute: str) -> Constraint | None:
        for constraint in self.constraints:
            if constraint.attribute == attribute:
                return constraint
        return None

    def holds(self, attributes: Mapping[str, Value]) -> bool:
        """Whether the row's part of the filter is satisfied. O(predicates)."""
        for attribute, kind, test in self.tests or self._prepare():
            value = attributes.get(attribute)
            if value is None:
                return False
            if kind is not Kind.ANY:
                found = KIND_BY_TYPE.get(value.__class__) or kind_of(value)
                if found is not kind or not test(value):
                    return False
        return True

    def _prepare(self) -> tuple[Test, ...]:
        tests = [(c.attribute, c.kind, _test(c)) for c in self.constraints]
        tests += [(p.attribute, Kind.STRING, _loose_test(p)) for p in self.loose]
        self.tests = tuple(tests)
        return self.tests


def take_apart(key: Hashable, filter: Filter, destination: Destination) -> Row:
    """The row of a filter; its access is None if no publication can satisfy the filter."""
    by_attribute: dict[str, list[Predicate]] = {}
    for predicate in filter.predicates:
        by_attribute.setdefault(predicate.attribute, []).append(predicate)
    dead = Row(key, filter, destination, None)
    access = _topic_access(by_attribute.pop(TOPIC_ATTRIBUTE, []))
    if access is None:
        return dead
    constraints = []
    for attribute, predicates in by_attribute.items():
        constraint = constrain(attribute, predicates)
        if constraint is None:
            return dead
        constraints.append(constraint)
    named = _naming_constraint(constraints)
    if named is not None and named.low is not None:
        access.attribute, access.value = named.attribute, named.low[0]
        constraints.remove(named)
    loose = tuple(
        p
        for c in constraints
        if _point(c) is None
        for p in by_attribute[c.attribute]
        if p.operator in LOOSE_OPERATORS
    )
    return Row(key, filter, destination, access, tuple(constraints), loose)


def constrain(attribute: str, predicates: Iterable[Predicate]) -> Constraint | None:
    """What a conjunction over one attribute allows, None for nothing; loose ones left out."""
    compared = [p for p in predicates if p.value is not None]
    kinds = {kind_of(p.value) for p in compared if p.value is not None}
    if not kinds:
        return Constraint(attribute, Kind.ANY)
    if len(kinds) > 1:
        return None
    kind = kinds.pop()
    for predicate in compared:
        if predicate.operator is Operator.EQ:
            wanted = predicate.value
            if wanted is None or not all(p.holds(wanted) for p in compared):
                return None
            if kind is Kind.BOOLEAN:
                return Constraint(attribute, kind, holes=(not wanted,))
            return Constraint(attribute, kind, (wanted, 0), (wanted, 1))
    return _narrow(Constraint(attribute, kind), compared)


def _narrow(constraint: Constraint, predicates: Iterable[Predicate]) -> Constraint | None:
    """The constraint within the bounds of order, prefix and != predicates; None if empty."""
    holes: set[Any] = set()
    for predicate in predicates:
        if predicate.operator is Operator.NE:
            holes.add(predicate.value)
            continue
        low, high = _bounds(predicate)
        if low is not None and (constraint.low is None or low > constraint.low):
            constraint.low = low
        if high is not None and (constraint.high is None or high < constraint.high):
            constraint.high = high
    low, high = constraint.low, constraint.high
    if low is not None and high is not None and low >= high:
        return None
    inside = (
        h for h in holes if (low is None or low <= (h, 0)) and (high is None or (h, 1) <= high)
    )
    constraint.holes = tuple(sorted(inside))
    point = _point(constraint)
    if point is not None and constraint.holes:
        return None
    return None if constraint.kind is Kind.BOOLEAN and len(holes) > 1 else constraint


def _bounds(predicate: Predicate) -> tuple[Cut | None, Cut | None]:
    value = predicate.value
    match predicate.operator:
        case Operator.LT:
            return None, (value, 0)
        case Operator.LE:
            return None, (value, 1)
        case Operator.GT:
            return (value, 1), None
        case Operator.GE:
            return (value, 0), None
        case Operator.PREFIX:
            return (value, 0), _after_prefix(str(value))
        case _:
            return None, None


def _after_prefix(prefix: str) -> Cut | None:
    """The cut behind all strings that start with a prefix, in the order of code points."""
    kept = prefix.rstrip(chr(0x10FFFF))
    if not kept:
        return None
    return kept[:-1] + chr(ord(kept[-1]) + 1), 0


def _point(constraint: Constraint) -> Value | None:
    """The only value a constraint admits, if there is one."""
    low, high = constraint.low, constraint.high
    if low is None or high is None or low[0] != high[0]:
        return None
    value: Value = low[0]
    return value


def _naming_constraint(constraints: list[Constraint]) -> Constraint | None:
    """The equality that names a leaf: of a string if possible, else of a number."""
    points = [c for c in constraints if _point(c) is not None]
    strings = [c for c in points if c.kind is Kind.STRING]
    return (strings or points or [None])[0]


def _topic_access(predicates: list[Predicate]) -> Access | None:
    """Where a filter's topics are looked up; None if its topic predicates exclude each other."""
    pattern = tuple(p for p in predicates if p.operator is not Operator.PRESENT)
    for predicate in pattern:
        if predicate.operator is Operator.EQ:
            topic = str(predicate.value)
            return Access(topic, ()) if all(p.holds(topic) for p in pattern) else None
    return Access(None, pattern)


def _loose_test(predicate: Predicate) -> Callable[[Any], bool]:
    operand = predicate.value
    if predicate.operator is Operator.SUFFIX:
        return lambda value: bool(value.endswith(operand))
    return lambda value: operand in value


def _test(constraint: Constraint) -> Callable[[Any], bool]:
    """A check of values that already are of the constraint's kind."""
    between = _range_test(constraint.low, constraint.high)
    holes = constraint.holes
    if not holes:
        return between
    if constraint.low is None and constraint.high is None:
        return lambda value: value not in holes
    return lambda value: between(value) and value not in holes


def _range_test(low: Cut | None, high: Cut | None) -> Callable[[Any], bool]:
    if low is None:
        return (lambda value: True) if high is None else _upper_test(high)
    least, after = low
    if high is None:
        return (lambda value: value > least) if after else (lambda value: value >= least)
    most, including = high
    if including:
        return _closed_test(least, after, most)
    return (lambda v: least < v < most) if after else (lambda v: least <= v < most)


def _upper_test(high: Cut) -> Callable[[Any], bool]:
    most, including = high
    return (lambda value: value <= most) if including else (lambda value: value < most)


def _closed_test(least: Any, after: int, most: Any) -> Callable[[Any], bool]:
    return (lambda v: least < v <= most) if after else (lambda v: least <= v <= most)

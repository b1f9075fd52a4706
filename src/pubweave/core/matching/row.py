"""One filter of the matching index, taken apart.

A filter becomes an access (which topics, and at most one equality that names its leaf) and a row:
what is left to check, one `AttributeInterval` per attribute plus the `loose` predicates (suffix,
contains) that no interval can express. Nothing here knows where rows are kept.

Invariant: access and row together say exactly what `Filter.matches` says; a filter that no
publication can satisfy may be recognised as such (`take_apart` returns None) but need not be.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.publications import TOPIC_ATTRIBUTE, Value

Cut = tuple[Any, int]
"""A place between values: just before (``(v, 0)``) or just after (``(v, 1)``) the value v."""

Test = tuple[str, "ValueKind", Callable[[Any], bool]]

# Every access through the class costs a look-up, and filters are taken apart by the 100,000.
EQ, NE, LT, LE, GT, GE = (
    Operator.EQ,
    Operator.NE,
    Operator.LT,
    Operator.LE,
    Operator.GT,
    Operator.GE,
)
LOOSE_OPERATORS = frozenset({Operator.SUFFIX, Operator.CONTAINS})


class ValueKind(enum.Enum):
    """The types comparisons go by; ANY is what ``is present`` alone asks for."""

    ANY = "any"
    BOOLEAN = "boolean"
    NUMBER = "number"
    STRING = "string"


KIND_BY_TYPE: dict[type, ValueKind] = {
    bool: ValueKind.BOOLEAN,
    int: ValueKind.NUMBER,
    float: ValueKind.NUMBER,
    str: ValueKind.STRING,
}


def kind_of(value: Value) -> ValueKind:
    """The kind of a value, also of an instance of a subclass such as a numpy float."""
    if isinstance(value, bool):
        return ValueKind.BOOLEAN
    return ValueKind.STRING if isinstance(value, str) else ValueKind.NUMBER


@dataclass(slots=True, eq=False)
class AttributeInterval:
    """The values one attribute may have: of one kind, between two cuts, without the holes.

    A missing cut is unbounded. For booleans only the holes count.
    """

    attribute: str
    kind: ValueKind
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
        return self.kind is ValueKind.NUMBER and self.low is None and self.high is None


@dataclass(slots=True, eq=False)
class Destination:
    """Who wants publications; it keeps its ``slot`` in the index while ``count`` is not zero."""

    value: Any
    slot: int
    count: int = 0


@dataclass(slots=True, eq=False)
class AccessPath:
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
    """What is left to check of one filter once its access is satisfied.

    ``home`` and ``place`` are its bitmap and bit there, ``coverer`` and ``shadowed`` its relations
    to rows of the same destination; the modules of these things keep them.
    """

    key: Hashable
    filter: Filter
    destination: Destination
    access: AccessPath | None
    constraints: tuple[AttributeInterval, ...] = ()
    loose: tuple[Predicate, ...] = ()
    tests: tuple[Test, ...] = ()
    home: Any = None
    place: int = 0
    coverer: Row | None = None
    shadowed: dict[Row, None] = field(default_factory=dict)

    @property
    def is_unconditional(self) -> bool:
        return not self.constraints

    def constraint_on(self, attribute: str) -> AttributeInterval | None:
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
            if kind is not ValueKind.ANY:
                found = KIND_BY_TYPE.get(value.__class__) or kind_of(value)
                if found is not kind or not test(value):
                    return False
        return True

    def _prepare(self) -> tuple[Test, ...]:
        tests = [(c.attribute, c.kind, _test(c)) for c in self.constraints]
        tests += [(p.attribute, ValueKind.STRING, _loose_test(p)) for p in self.loose]
        self.tests = tuple(tests)
        return self.tests


def take_apart(key: Hashable, filter: Filter, destination: Destination) -> Row:
    """The row of a filter; its access is None if no publication can satisfy the filter."""
    by_attribute: dict[str, list[Predicate]] = {}
    for predicate in filter.predicates:
        by_attribute.setdefault(predicate.attribute, []).append(predicate)
    row = Row(key, filter, destination, None)
    access = _topic_access(by_attribute.pop(TOPIC_ATTRIBUTE, []))
    if access is None:
        return row
    constraints = []
    loose: list[Predicate] = []
    for attribute, predicates in by_attribute.items():
        constraint = constrain(attribute, predicates)
        if constraint is None:
            return row
        constraints.append(constraint)
        if constraint.kind is ValueKind.STRING and _point(constraint) is None:
            loose += [p for p in predicates if p.operator in LOOSE_OPERATORS]
    named = _naming_constraint(constraints)
    if named is not None and named.low is not None:
        access.attribute, access.value = named.attribute, named.low[0]
        constraints.remove(named)
    row.access = access
    row.constraints = tuple(constraints)
    row.loose = tuple(loose)
    return row


def constrain(attribute: str, predicates: Iterable[Predicate]) -> AttributeInterval | None:
    """What a conjunction over one attribute allows, None for nothing; loose ones left out."""
    kind = ValueKind.ANY
    equal: Value | None = None
    for predicate in predicates:
        operand = predicate.value
        if operand is None:
            continue
        found = KIND_BY_TYPE.get(operand.__class__) or kind_of(operand)
        if kind is not found and kind is not ValueKind.ANY:
            return None
        kind = found
        if predicate.operator is EQ:
            equal = operand
    if kind is ValueKind.ANY:
        return AttributeInterval(attribute, kind)
    if equal is None:
        return _narrow(AttributeInterval(attribute, kind), predicates)
    if not all(predicate.holds(equal) for predicate in predicates):
        return None
    if kind is ValueKind.BOOLEAN:
        return AttributeInterval(attribute, kind, holes=(not equal,))
    return AttributeInterval(attribute, kind, (equal, 0), (equal, 1))


def _narrow(
    constraint: AttributeInterval, predicates: Iterable[Predicate]
) -> AttributeInterval | None:
    """The constraint within the bounds of order, prefix and != predicates; None if empty."""
    low: Cut | None = None
    high: Cut | None = None
    holes: set[Any] = set()
    for predicate in predicates:
        if predicate.operator is NE:
            holes.add(predicate.value)
            continue
        least, most = _bounds(predicate)
        if least is not None and (low is None or least > low):
            low = least
        if most is not None and (high is None or most < high):
            high = most
    if low is not None and high is not None and low >= high:
        return None
    constraint.low = low
    constraint.high = high
    if holes:
        return _with_holes(constraint, holes)
    return constraint


def _with_holes(constraint: AttributeInterval, holes: set[Any]) -> AttributeInterval | None:
    low, high = constraint.low, constraint.high
    inside = (
        h for h in holes if (low is None or low <= (h, 0)) and (high is None or (h, 1) <= high)
    )
    constraint.holes = tuple(sorted(inside))
    if constraint.kind is ValueKind.BOOLEAN and len(holes) == 2:
        return None
    return None if constraint.holes and _point(constraint) is not None else constraint


def _bounds(predicate: Predicate) -> tuple[Cut | None, Cut | None]:
    """The cuts between which a value must lie to satisfy an order or prefix predicate."""
    value, operator = predicate.value, predicate.operator
    if operator is GE:
        return (value, 0), None
    if operator is LE:
        return None, (value, 1)
    if operator is GT:
        return (value, 1), None
    if operator is LT:
        return None, (value, 0)
    if operator is Operator.PREFIX:
        return (value, 0), _after_prefix(str(value))
    return None, None


def _after_prefix(prefix: str) -> Cut | None:
    """The cut behind all strings that start with a prefix, in the order of code points."""
    kept = prefix.rstrip(chr(0x10FFFF))
    if not kept:
        return None
    return kept[:-1] + chr(ord(kept[-1]) + 1), 0


def _point(constraint: AttributeInterval) -> Value | None:
    """The only value a constraint admits, if there is one."""
    low, high = constraint.low, constraint.high
    if low is None or high is None or low[0] != high[0]:
        return None
    value: Value = low[0]
    return value


def _naming_constraint(constraints: list[AttributeInterval]) -> AttributeInterval | None:
    """The equality that names a leaf: of a string if possible, else of a number."""
    best = None
    for constraint in constraints:
        if _point(constraint) is not None and (best is None or best.kind is ValueKind.NUMBER):
            best = constraint
            if best.kind is ValueKind.STRING:
                break
    return best


def _topic_access(predicates: list[Predicate]) -> AccessPath | None:
    """Where a filter's topics are looked up; None if its topic predicates exclude each other."""
    pattern = tuple(p for p in predicates if p.operator is not Operator.PRESENT)
    for predicate in pattern:
        if predicate.operator is Operator.EQ:
            topic = str(predicate.value)
            fits = len(pattern) == 1 or all(p.holds(topic) for p in pattern)
            return AccessPath(topic, ()) if fits else None
    return AccessPath(None, pattern)


def _loose_test(predicate: Predicate) -> Callable[[Any], bool]:
    operand = predicate.value
    if predicate.operator is Operator.SUFFIX:
        return lambda value: bool(value.endswith(operand))
    return lambda value: operand in value


def _test(constraint: AttributeInterval) -> Callable[[Any], bool]:
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

"""Filters: conjunctions of predicates over a publication's topic and attributes.

Subscriptions and advertisements are both filters. This module holds their values and the slow,
obvious meaning of `Filter.matches`; the relations between filters are in `filters/relations`,
their two written forms in `filters/text`.

A comparison is typed: it holds only for a value of its operand's type (number, string, boolean).
``volume != 5`` is false for a publication without volume and for one whose volume is a string.
Strings are ordered by code point. Several predicates on one attribute are allowed.

Equality is typed as well: ``x = 1`` and ``x = true`` are different predicates although Python
takes 1 and True for equal, so filters can be keys of a dict. 1 and 1.0 are the same number.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any

import msgspec

from pubweave.model.publications import TOPIC_ATTRIBUTE, Publication, Value, validate_number

_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "prefix": str.startswith,
    "suffix": str.endswith,
    "contains": operator.contains,
    "is present": lambda value, _: True,
}


class Operator(enum.Enum):
    """The comparisons a predicate can make; the value is its spelling in expressions."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    PREFIX = "prefix"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    PRESENT = "is present"

    def __init__(self, spelling: str) -> None:
        self.test = _TESTS[spelling]
        """Whether a value and an operand of one kind compare so."""


STRING_OPERATORS = frozenset({Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS})
ORDER_OPERATORS = frozenset({Operator.LT, Operator.LE, Operator.GT, Operator.GE})


class Predicate(msgspec.Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """One comparison of one attribute; ``value`` is None for `Operator.PRESENT` only.

    >>> Predicate("volume", Operator.GT, 100).holds(100.5)
    True
    >>> Predicate("volume", Operator.NE, 100).holds("many")
    False
    """

    attribute: str
    operator: Operator
    value: Value | None = None

    def __post_init__(self) -> None:
        if not self.attribute:
            raise ValueError("a predicate needs an attribute name")
        if (self.value is None) != (self.operator is Operator.PRESENT):
            raise ValueError(f"{self.operator.value!r} on {self.attribute!r}: wrong operand")
        if self.value is None:
            return
        if self.operator in STRING_OPERATORS and not isinstance(self.value, str):
            raise ValueError(f"{self.operator.value!r} on {self.attribute!r} needs a string")
        if self.operator in ORDER_OPERATORS and isinstance(self.value, bool):
            raise ValueError(f"{self.attribute!r}: booleans have no order, use = or !=")
        if self.attribute == TOPIC_ATTRIBUTE and not isinstance(self.value, str):
            raise ValueError(f"{TOPIC_ATTRIBUTE!r} is the topic and compares with strings only")
        validate_number(self.attribute, self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Predicate):
            return NotImplemented
        return (
            self.value == other.value
            and self.attribute == other.attribute
            and self.operator is other.operator
            and isinstance(self.value, bool) is isinstance(other.value, bool)
        )

    __hash__ = msgspec.Struct.__hash__

    def holds(self, value: Value | None) -> bool:
        """Whether an attribute's value (None: absent) satisfies this predicate."""
        operand = self.value
        if value is None:
            return False
        if operand is None:
            return True
        if type(value) is not type(operand) and value_kind(value) is not value_kind(operand):
            return False
        return self.operator.test(value, operand)


class Filter(msgspec.Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """A conjunction of predicates; with none it matches every publication.

    >>> from pubweave.model.filters.text import parse_filter
    >>> parse_filter("class = 'STOCK' and volume > 100").predicates[1].value
    100
    """

    predicates: tuple[Predicate, ...] = ()

    def matches(self, publication: Publication) -> bool:
        """Whether a publication satisfies every predicate. O(predicates)."""
        attributes = publication.attributes
        for predicate in self.predicates:
            name = predicate.attribute
            value = publication.topic if name == TOPIC_ATTRIBUTE else attributes.get(name)
            if not predicate.holds(value):
                return False
        return True


def value_kind(value: Value) -> type:
    """The type comparisons go by: str, bool, or float for every number."""
    if isinstance(value, bool):
        return bool
    return str if isinstance(value, str) else float


def topic_filter(topic: str) -> Filter:
    """The filter of everything published on one topic."""
    return Filter((Predicate(TOPIC_ATTRIBUTE, Operator.EQ, topic),))


def topic_of(filter_: Filter) -> str | None:
    """The one topic of a filter; None if it names none, or not by equality alone.

    >>> topic_of(Filter((Predicate(TOPIC_ATTRIBUTE, Operator.EQ, "STOCK"),)))
    'STOCK'
    >>> topic_of(Filter((Predicate(TOPIC_ATTRIBUTE, Operator.PREFIX, "STO"),)))
    """
    topic = None
    for predicate in filter_.predicates:
        if predicate.attribute == TOPIC_ATTRIBUTE:
            if topic is not None or predicate.operator is not Operator.EQ:
                return None
            topic = str(predicate.value)
    return topic

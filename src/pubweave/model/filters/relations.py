"""How two filters relate: `intersects` (advertisement against subscription) and `covers`.

Routing rests on these answers being safe: `intersects` never says no when one publication could
match both, `covers` never says yes when the wide filter would miss something. Both are exact
for numbers (as reals), booleans, presence and equality; `filters/constraints` says how exact they
are for strings. A contradictory filter intersects nothing and is covered by everything.

The predicates of a filter are folded once into a constraint for each attribute. Attributes are
independent of each other and free where no predicate names them, except the topic, which every
publication has and which is a string.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

from pubweave.model.filters.constraints import (
    NEVER,
    PRESENT,
    BooleanValue,
    Constraint,
    Never,
    NumberRange,
    Present,
    StringRange,
    number_range,
    string_range,
)
from pubweave.model.filters.filter import Filter, Operator, Predicate, value_kind
from pubweave.model.publications import TOPIC_ATTRIBUTE, Value

__all__ = [
    "BooleanValue",
    "Constraint",
    "Never",
    "NumberRange",
    "Present",
    "StringRange",
    "canonical",
    "constraints_of",
    "covers",
    "intersects",
    "is_satisfiable",
]

CACHED_FILTERS_MAX = 2**16
"""How many filters keep their folded form, about 1.5 kB each."""

_OPERATOR_RANK = {operator: rank for rank, operator in enumerate(Operator)}


def intersects(a: Filter, b: Filter) -> bool:
    """Whether some publication can match both; never a false no. O(attributes).

    >>> from pubweave.model.filters.text import parse_filter
    >>> intersects(parse_filter("price >= 5"), parse_filter("price < 5 and volume > 0"))
    False
    """
    one, other = _region_of(a), _region_of(b)
    if one.is_empty or other.is_empty:
        return False
    fewer, more = one.constraints, other.constraints
    if one.topic is not None and other.topic is not None:
        if one.topic != other.topic:
            return False
        fewer, more = one.besides_topic, other.besides_topic
    if len(fewer) > len(more):
        fewer, more = more, fewer
    for attribute, constraint in fewer.items():
        met = more.get(attribute)
        if met is not None and not constraint.meets(met):
            return False
    return True


def covers(wide: Filter, narrow: Filter) -> bool:
    """Whether all that matches ``narrow`` matches ``wide``; never a false yes. O(attributes).

    >>> from pubweave.model.filters.text import parse_filter
    >>> covers(parse_filter("name prefix 'A'"), parse_filter("name >= 'AB' and name < 'AC'"))
    True
    """
    outer, inner = _region_of(wide), _region_of(narrow)
    if inner.is_empty:
        return True
    wanted = outer.constraints
    if outer.topic is not None:
        if outer.topic != inner.topic:
            return False
        wanted = outer.besides_topic
    given = inner.constraints
    for attribute, constraint in wanted.items():
        included = given.get(attribute)
        if included is None or not constraint.includes(included):
            return False
    return True


def is_satisfiable(filter_: Filter) -> bool:
    """Whether some publication can match; never a false no."""
    return not _region_of(filter_).is_empty


def constraints_of(filter_: Filter) -> Mapping[str, Constraint]:
    """What a filter asks of each attribute, in the order of first mention.

    What holds of every topic is left out, since every publication has one.

    >>> from pubweave.model.filters.text import parse_filter
    >>> constraints_of(parse_filter("class is present and flag != true"))
    mappingproxy({'flag': BooleanValue(value=False)})
    """
    return MappingProxyType(_region_of(filter_).constraints)


def canonical(filter_: Filter) -> Filter:
    """The same predicates sorted and without repetition, so that their order makes no difference.

    >>> from pubweave.model.filters.text import format_filter, parse_filter
    >>> format_filter(canonical(parse_filter("b = 2 and a > 1 and b = 2")))
    'a > 1 and b = 2'
    """
    kept: dict[Predicate, None] = {}
    for predicate in sorted(filter_.predicates, key=_sort_key):
        kept.setdefault(predicate)
    return Filter(tuple(kept))


class _Region(msgspec.Struct, frozen=True, gc=False):
    """The publications that a filter matches: a constraint for each attribute it names.

    ``topic`` is the only topic allowed, if there is just one: most pairs of filters differ in it,
    and where they do not, only the constraints besides it are left to compare.
    """

    constraints: dict[str, Constraint]
    besides_topic: dict[str, Constraint]
    topic: str | None
    is_empty: bool


@lru_cache(maxsize=CACHED_FILTERS_MAX)
def _region_of(filter_: Filter) -> _Region:
    by_attribute: dict[str, list[Predicate]] = {}
    for predicate in filter_.predicates:
        by_attribute.setdefault(predicate.attribute, []).append(predicate)
    constraints = {name: _fold(predicates) for name, predicates in by_attribute.items()}
    topic = constraints.get(TOPIC_ATTRIBUTE)
    if isinstance(topic, Present) or (isinstance(topic, StringRange) and topic.is_everything):
        del constraints[TOPIC_ATTRIBUTE]
    only = topic.values if isinstance(topic, StringRange) else None
    return _Region(
        constraints,
        {name: c for name, c in constraints.items() if name != TOPIC_ATTRIBUTE},
        only[0] if only is not None and len(only) == 1 else None,
        any(isinstance(constraint, Never) for constraint in constraints.values()),
    )


def _fold(predicates: Iterable[Predicate]) -> Constraint:
    """The constraint that several predicates on one attribute make together."""
    # A comparison implies presence, so that `is present` beside one says nothing more.
    pairs = [(p.operator, p.value) for p in predicates if p.value is not None]
    if not pairs:
        return PRESENT
    kinds = {value_kind(value) for _, value in pairs}
    if len(kinds) > 1:
        return NEVER
    if str in kinds:
        return string_range((op, v) for op, v in pairs if isinstance(v, str)) or NEVER
    if bool in kinds:
        wanted = {bool(v) is (op is Operator.EQ) for op, v in pairs}
        return BooleanValue(wanted.pop()) if len(wanted) == 1 else NEVER
    return number_range((op, v) for op, v in pairs if isinstance(v, (int, float))) or NEVER


def _sort_key(predicate: Predicate) -> tuple[str, int, str, Value, bool]:
    """Orders predicates whatever their operands; of 1 and 1.0 the whole number comes first."""
    value = "" if predicate.value is None else predicate.value
    rank = _OPERATOR_RANK[predicate.operator]
    kind = value_kind(value).__name__
    return predicate.attribute, rank, kind, value, isinstance(value, float)

"""The slow, obvious twin of `model.filters` and `model.filters.relations`.

Relations are decided by trying publications: every combination of the values that could make a
difference to the filters at hand. Nothing of the code under test is used but the plain values.

What makes the domain rich enough: for numbers each operand, a point between each two of them
(numbers are reals, hence fractions) and one beyond either end; for strings see `string_domain`;
one value of every other kind; and absence.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from fractions import Fraction

from pubweave.model.filters.filter import Filter, Operator, Predicate

Anything = str | int | float | bool | Fraction | None

COMPARISONS = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
    Operator.PREFIX: str.startswith,
    Operator.SUFFIX: str.endswith,
    Operator.CONTAINS: operator.contains,
}
SEPARATOR = "~"
"""A character that no operand of a test contains."""


def kind(value: Anything) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def exact(value: Anything) -> Anything:
    """Numbers as fractions, so that no comparison rounds."""
    return Fraction(value) if kind(value) == "number" else value  # type: ignore[arg-type]


def holds(predicate: Predicate, value: Anything) -> bool:
    if value is None:
        return False
    if predicate.operator is Operator.PRESENT:
        return True
    if kind(value) != kind(predicate.value):
        return False
    compare = COMPARISONS[predicate.operator]
    return bool(compare(exact(value), exact(predicate.value)))  # type: ignore[arg-type]


def matches(filter_: Filter, values: dict[str, Anything]) -> bool:
    """Whether attribute values, the topic under ``class``, satisfy all predicates."""
    return all(holds(p, values.get(p.attribute)) for p in filter_.predicates)


def intersects(a: Filter, b: Filter) -> bool:
    return any(matches(a, values) and matches(b, values) for values in publications(a, b))


def covers(wide: Filter, narrow: Filter) -> bool:
    return all(
        matches(wide, values) for values in publications(wide, narrow) if matches(narrow, values)
    )


def publications(*filters: Filter) -> Iterator[dict[str, Anything]]:
    """Every combination of values that could make a difference to these filters."""
    predicates = [p for f in filters for p in f.predicates]
    names = sorted({p.attribute for p in predicates})
    domains = [domain(name, [p for p in predicates if p.attribute == name]) for name in names]
    for values in itertools.product(*domains):
        yield dict(zip(names, values, strict=True))


def domain(name: str, predicates: list[Predicate]) -> list[Anything]:
    strings = string_domain([p for p in predicates if isinstance(p.value, str)])
    if name == "class":
        return list(strings)
    numbers = [
        exact(p.value) for p in predicates if p.value is not None and kind(p.value) == "number"
    ]
    return [None, True, False, *number_domain(numbers), *strings]  # type: ignore[arg-type]


def number_domain(operands: list[Fraction]) -> list[Fraction]:
    points = sorted({*operands, Fraction(0)})
    between = [(a + b) / 2 for a, b in itertools.pairwise(points)]
    return [points[0] - 1, *points, *between, points[-1] + 1]


def string_domain(predicates: list[Predicate]) -> list[str]:
    """Strings at and around each operand in code-point order, with all shapes appended.

    A string begins with an operand, the string after all those with it as a prefix, or a string
    a little before it, followed by a few NULs (the smallest step up); then come the pieces that
    may have to be contained, then an ending, with or without separators between them.
    """
    heads = {""}
    for predicate in predicates:
        text = str(predicate.value)
        heads |= {text, *neighbors(text)}
    pieces = [str(p.value) for p in predicates if p.operator is Operator.CONTAINS]
    endings = {str(p.value) for p in predicates if p.operator is Operator.SUFFIX}
    rising = {head + "\0" * n for head in heads for n in range(3)}
    middles = {"", SEPARATOR, SEPARATOR + SEPARATOR.join([*pieces, ""])}
    tails = {"", *endings, *(e[1:] for e in endings), *(e[:-1] for e in endings)}
    return sorted({r + m + t for r in rising for m in middles for t in tails})


def neighbors(text: str) -> set[str]:
    """Strings just below a text, and the first one after all those it is a prefix of."""
    if not text:
        return set()
    stem, last = text[:-1], ord(text[-1])
    below = {stem + chr(last - 1)} if last else {stem}
    above = {stem + chr(last + 1)} if last < 0x10FFFF else set()
    return below | above

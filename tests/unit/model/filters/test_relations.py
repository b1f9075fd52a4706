"""The relations between filters, against brute force and on the cases that are easy to miss."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pubweave.model.filters import constraints as filter_constraints
from pubweave.model.filters import relations as filter_relations
from pubweave.model.filters.constraints import ENUMERATED_MAX
from pubweave.model.filters.filter import ORDER_OPERATORS, Filter, Operator, Predicate
from pubweave.model.filters.relations import (
    canonical,
    constraints_of,
    covers,
    intersects,
    is_satisfiable,
)
from pubweave.model.filters.text import format_filter, parse_filter
from tests.naive import filters as naive

many = settings(max_examples=300, deadline=None, derandomize=True)

BIG = 2**53
"""From here on a float cannot tell neighboring whole numbers apart."""

EXACT = [Operator.EQ, Operator.NE, *sorted(ORDER_OPERATORS, key=lambda op: op.value)]
numbers = st.sampled_from([-1, 0, 1, 1.0, 1.5, 2, 0.1, BIG, BIG + 1, float(BIG), 1e300])
number_predicates = st.builds(Predicate, st.just("x"), st.sampled_from(EXACT), numbers)
boolean_predicates = st.builds(
    Predicate, st.just("x"), st.sampled_from([Operator.EQ, Operator.NE]), st.booleans()
)
name_equalities = st.builds(
    Predicate,
    st.sampled_from(["x", "y"]),
    st.sampled_from([Operator.EQ, Operator.NE]),
    st.sampled_from(["", "a", "b"]),
)
topic_predicates = st.builds(
    Predicate,
    st.just("class"),
    st.sampled_from([Operator.EQ, Operator.EQ, Operator.NE]),
    st.sampled_from(["", "a", "b"]),
)
presences = st.builds(
    Predicate, st.sampled_from(["x", "y", "class"]), st.just(Operator.PRESENT), st.none()
)
exact_filters = st.lists(
    st.one_of(
        number_predicates,
        number_predicates,
        boolean_predicates,
        name_equalities,
        topic_predicates,
        presences,
    ),
    max_size=4,
).map(lambda predicates: Filter(tuple(predicates)))
number_filters = st.lists(number_predicates, min_size=1, max_size=4).map(
    lambda predicates: Filter(tuple(predicates))
)


def string_filters(*, contains: bool) -> st.SearchStrategy[Filter]:
    """Filters on one string attribute, with or without predicates that ask for a piece."""
    operators = [*EXACT, Operator.PREFIX, Operator.SUFFIX]
    operators += [Operator.CONTAINS] if contains else []
    texts = st.text(alphabet="ab\0\U0010ffff", max_size=2)
    predicates = st.builds(Predicate, st.just("x"), st.sampled_from(operators), texts)
    return st.lists(predicates, min_size=1, max_size=3).map(lambda ps: Filter(tuple(ps)))


def related(filters: st.SearchStrategy[Filter]) -> st.SearchStrategy[tuple[Filter, Filter]]:
    """Pairs of filters, many of which share predicates: else the wide one seldom covers."""

    def share(pair: tuple[Filter, Filter], shared: int) -> tuple[Filter, Filter]:
        wide, other = pair
        return wide, Filter(wide.predicates[:shared] + other.predicates)

    pairs = st.tuples(filters, filters)
    return st.one_of(pairs, st.builds(share, pairs, st.integers(1, 3)))


def read(*texts: str) -> list[Filter]:
    return [parse_filter(text) for text in texts]


@many
@given(exact_filters, exact_filters)
def test_intersects_is_exact_without_string_shapes(a: Filter, b: Filter) -> None:
    assert intersects(a, b) is naive.intersects(a, b)


@many
@given(related(exact_filters))
def test_covers_is_exact_without_string_shapes(pair: tuple[Filter, Filter]) -> None:
    wide, narrow = pair
    assert covers(wide, narrow) is naive.covers(wide, narrow)


@many
@given(related(number_filters))
def test_relations_of_numbers_are_exact(pair: tuple[Filter, Filter]) -> None:
    a, b = pair
    assert intersects(a, b) is naive.intersects(a, b)
    assert covers(a, b) is naive.covers(a, b)


@many
@given(string_filters(contains=True), string_filters(contains=True))
@example(*read("x >= 'a' and x suffix 'b'", "x <= 'a'"))
def test_intersects_is_exact_for_strings(a: Filter, b: Filter) -> None:
    assert intersects(a, b) is naive.intersects(a, b)


@many
@given(string_filters(contains=False), string_filters(contains=True))
@example(*read("x > 'a'", "x >= 'a' and x suffix 'b'"))
def test_covers_is_exact_for_strings_unless_the_wide_filter_asks_for_a_piece(
    wide: Filter, narrow: Filter
) -> None:
    assert covers(wide, narrow) is naive.covers(wide, narrow)


@many
@given(related(string_filters(contains=True)))
def test_covers_of_strings_never_says_yes_wrongly(pair: tuple[Filter, Filter]) -> None:
    wide, narrow = pair
    if covers(wide, narrow):
        assert naive.covers(wide, narrow)


@many
@given(st.one_of(exact_filters, string_filters(contains=True)))
def test_a_filter_is_satisfiable_exactly_if_something_matches_it(filter_: Filter) -> None:
    assert is_satisfiable(filter_) is naive.intersects(filter_, Filter())


@many
@given(st.one_of(exact_filters, string_filters(contains=True)), st.data())
def test_each_constraint_allows_what_its_predicates_allow(
    filter_: Filter, data: st.DataObject
) -> None:
    for name, constraint in constraints_of(filter_).items():
        predicates = [p for p in filter_.predicates if p.attribute == name]
        values = [v for v in naive.domain(name, predicates) if v is not None]
        value = data.draw(st.sampled_from(values))
        assert constraint.allows(value) is all(naive.holds(p, value) for p in predicates)


@many
@given(exact_filters, exact_filters, exact_filters)
def test_covering_is_transitive_and_keeps_intersections(a: Filter, b: Filter, c: Filter) -> None:
    assert covers(a, a)
    assert intersects(a, b) is intersects(b, a)
    if covers(a, b):
        assert not covers(b, c) or covers(a, c)
        assert not intersects(b, c) or intersects(a, c)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("x > 1", "x < 2", True),
        ("x > 1", "x < 1", False),
        ("x > 1", "x <= 1", False),
        ("x >= 1", "x <= 1.0", True),
        ("x >= 1 and x != 1.0", "x <= 1", False),
        (f"x = {BIG + 1}", f"x = {float(BIG)}", False),
        (f"x > {BIG}", f"x < {BIG + 1}", True),
        ("x = 1", "x = true", False),
        ("x = 1", "x is present", True),
        ("x = 1", "y = 1", True),
        ("x = 'a'", "x prefix ''", True),
        ("x != 'a'", "x != 1", False),
        ("class = 'A' and x = 1", "class = 'B' and x = 1", False),
        ("class = 'A'", "class prefix 'A' and class contains 'B'", False),
        ("class = 'A'", "class is present", True),
        ("class = 'A'", "*", True),
        ("x prefix 'ab'", "x prefix 'a'", True),
        ("x prefix 'ab'", "x prefix 'ac'", False),
        ("x suffix 'ab'", "x suffix 'b'", True),
        ("x suffix 'ab'", "x suffix 'cb'", False),
        ("x prefix 'ab'", "x suffix 'ba' and x contains 'zz'", True),
        ("x >= 'a'", "x < 'a\0'", True),
        ("x > 'a'", "x < 'a\0'", False),
        ("x = 1 and x = 2", "*", False),
        ("x = 1 and x = 2", "x = 1 and x = 2", False),
    ],
)
def test_intersects_cases(a: str, b: str, expected: bool) -> None:
    one, other = read(a, b)
    assert intersects(one, other) is expected
    assert intersects(other, one) is expected


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("*", "x = 1", True),
        ("x = 1", "*", False),
        ("x is present", "x = 1", True),
        ("x is present", "*", False),
        ("x != 5", "*", False),
        ("x != 5", "x is present", False),
        ("x != 5", "x > 5", True),
        ("x != 5", "x >= 5", False),
        ("x > 5", "x >= 5 and x != 5", True),
        ("x >= 5", "x > 5", True),
        ("x >= 1 and x <= 9", "x >= 2 and x <= 3", True),
        (f"x > {BIG}", f"x >= {BIG + 1}", True),
        (f"x >= {BIG + 1}", f"x > {BIG}", False),
        ("x != true", "x = false", True),
        ("class is present", "*", True),
        ("class >= '' and class contains ''", "x = 1", True),
        ("class != 'A'", "*", False),
        ("class prefix 'ST'", "class = 'STOCK' and x = 1", True),
        ("class = 'STOCK'", "class prefix 'STOCK'", False),
        ("x prefix 'a'", "x > 'ab' and x < 'ac'", True),
        ("x prefix 'a'", "x > 'ab' and x <= 'b'", False),
        ("x prefix 'a'", "x > 'ab' and x <= 'b' and x != 'b'", True),
        ("x < 'b'", "x <= 'b' and x suffix 'a'", True),
        ("x < 'b'", "x <= 'b' and x suffix 'b'", False),
        ("x contains 'b'", "x prefix 'abc'", True),
        ("x contains 'ab'", "x >= 'ab' and x <= 'ac'", False),
        ("x contains 'ab'", "x >= 'ab' and x <= 'ac' and x != 'ac'", True),
        ("x contains '\0'", "x >= 'a' and x < 'a\1'", False),
        ("x contains '\0'", "x >= 'a' and x < 'a\1' and x != 'a'", True),
        ("x contains 'b'", "x suffix 'abc'", True),
        ("x contains 'b'", "x contains 'abc'", True),
        ("x contains 'abc'", "x contains 'b'", False),
        ("x contains 'ab'", "x prefix 'a' and x suffix 'b'", False),
        ("x suffix 'b'", "x suffix 'ab'", True),
        ("x suffix 'ab'", "x suffix 'b'", False),
        ("x suffix 'b'", "x = 'ab'", True),
        ("x = 3", "x = 1 and x = 2", True),
        ("x = 3", "x prefix 'a' and x < 5", True),
    ],
)
def test_covers_cases(wide: str, narrow: str, expected: bool) -> None:
    assert covers(*read(wide, narrow)) is expected


def test_too_many_strings_to_try_are_answered_safely() -> None:
    # Both sets are empty, but only trying all strings would show it.
    few = parse_filter(f"x < '{chr(0) * ENUMERATED_MAX}' and x contains 'a'")
    many = parse_filter(f"x < '{chr(0) * (ENUMERATED_MAX + 1)}' and x contains 'a'")
    assert not is_satisfiable(few)
    assert is_satisfiable(many)
    assert not covers(parse_filter("x = 1"), many)


def test_a_folded_filter_is_not_mistaken_for_one_that_only_python_takes_for_equal() -> None:
    one, true = read("x = 1", "x = true")
    assert not intersects(one, true)
    assert covers(*read("x = 1.0", "x = 1"))
    assert repr(constraints_of(true)["x"]) == "BooleanValue(value=True)"


def test_constraints_cannot_be_changed_by_who_asks_for_them() -> None:
    constraints = constraints_of(parse_filter("x > 1"))
    with pytest.raises(TypeError):
        constraints["x"] = constraints["x"]  # type: ignore[index]


def test_open_bounds_are_where_they_were_written() -> None:
    found = constraints_of(parse_filter("x > 1 and x <= 7 and x != 3 and x != 9"))["x"]
    assert found == filter_relations.NumberRange(1, True, 7, False, frozenset({3}))
    assert constraints_of(parse_filter("x < 7"))["x"].low == -math.inf  # type: ignore[attr-defined]


@many
@given(st.one_of(exact_filters, string_filters(contains=True)), st.randoms(use_true_random=False))
def test_canonical_is_the_same_for_every_order_and_repetition(
    filter_: Filter, random: object
) -> None:
    predicates = list(filter_.predicates) * 2
    random.shuffle(predicates)  # type: ignore[attr-defined]
    first, second = canonical(filter_), canonical(Filter(tuple(predicates)))
    assert first == second
    assert format_filter(first) == format_filter(second)
    assert set(first.predicates) == set(filter_.predicates)


def test_canonical_keeps_one_of_two_equal_numbers_whatever_came_first() -> None:
    one, other = read("x = 1 and x = 1.0", "x = 1.0 and x = 1")
    assert format_filter(canonical(one)) == format_filter(canonical(other)) == "x = 1"


@pytest.mark.parametrize("module", [filter_relations, filter_constraints])
def test_examples_in_the_documentation_hold(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0

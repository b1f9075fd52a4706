"""A filter taken apart says the same as the filter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.matching.leaf import CoverSets, covers
from pubweave.core.matching.row import Destination, Row, take_apart
from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.publications import Publication
from tests.unit.core.matching.test_index import FILTERS, PUBLICATIONS

SOMEONE = Destination("A", 0)


def apart(*predicates: tuple[str, str, object]) -> Row:
    found = tuple(Predicate(a, Operator(o), v) for a, o, v in predicates)  # type: ignore[arg-type]
    return take_apart("key", Filter(found), SOMEONE)


def row_says(row: Row, publication: Publication) -> bool:
    """The meaning of access and row, spelled out."""
    access = row.access
    if access is None:
        return False
    if access.topic is not None and publication.topic != access.topic:
        return False
    if not publication.topic.startswith(access.prefix):
        return False
    if not all(predicate.holds(publication.topic) for predicate in access.pattern):
        return False
    if access.attribute is not None:
        value = publication.value(access.attribute)
        if value is None or isinstance(value, bool) or value != access.value:
            return False
    return row.holds(publication.attributes)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(FILTERS, st.lists(PUBLICATIONS, min_size=1))
def test_access_and_row_say_what_the_filter_says(
    filter: Filter, publications: list[Publication]
) -> None:
    row = take_apart("key", filter, SOMEONE)
    for publication in publications:
        assert row_says(row, publication) == filter.matches(publication)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(FILTERS, FILTERS, st.lists(PUBLICATIONS, min_size=1))
def test_a_covering_row_holds_wherever_the_covered_one_does(
    one: Filter, other: Filter, publications: list[Publication]
) -> None:
    wide, narrow = take_apart(1, one, SOMEONE), take_apart(2, other, SOMEONE)
    if wide.access is not None and narrow.access is not None and covers(wide, narrow):
        for publication in publications:
            if narrow.holds(publication.attributes):
                assert wide.holds(publication.attributes)


def test_a_string_equality_names_the_leaf_before_a_number() -> None:
    access = apart(("x", "=", 1), ("y", "=", "a"), ("z", "=", True)).access
    assert access is not None
    assert (access.attribute, access.value) == ("y", "a")


@pytest.mark.parametrize("prefix", ["a", "a\U0010ffff", "\U0010ffff", "", "a\ud7ff"])
def test_a_prefix_is_a_range_of_strings(prefix: str) -> None:
    row = apart(("x", "prefix", prefix))
    for value in ("", "a", "ab", "a\ud7ff", "a\ud800", "a\U0010ffff", "a\U0010ffffz", "b", "ba"):
        assert row.holds({"x": value}) == value.startswith(prefix)


def test_a_closed_range_of_one_value_is_an_equality() -> None:
    access = apart(("x", ">=", 3), ("x", "<=", 3)).access
    assert access is not None
    assert (access.attribute, access.value) == ("x", 3)


def test_wider_ranges_cover_narrower_ones_only() -> None:
    wide = apart(("x", ">", 0))
    assert covers(wide, apart(("x", ">", 1), ("x", "<", 5)))
    assert covers(wide, apart(("x", ">", 0), ("y", ">", 0)))
    assert covers(apart(("x", "is present", None)), wide)
    assert not covers(wide, apart(("x", ">=", 0)))
    assert not covers(wide, apart(("y", ">", 0)))
    assert not covers(wide, apart(("x", ">", "a")))
    assert covers(apart(("x", "!=", 3)), apart(("x", ">", 3)))
    assert not covers(apart(("x", "!=", 3)), wide)
    assert covers(apart(("x", "prefix", "a")), apart(("x", "prefix", "ab")))
    assert not covers(apart(("x", "suffix", "a")), apart(("x", "prefix", "a")))


def test_a_new_wider_row_takes_the_shadow_of_the_one_it_covers() -> None:
    fronts = CoverSets()
    narrow, middle, wide = (apart(("x", ">", n)) for n in (5, 3, 1))
    assert fronts.add(middle) == []
    assert fronts.add(narrow) is None
    assert fronts.add(wide) == [middle]
    assert list(wide.shadowed) == [middle, narrow]
    assert fronts.remove(middle) is None
    assert fronts.remove(wide) == [narrow]
    assert narrow.coverer is None

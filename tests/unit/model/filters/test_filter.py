"""What predicates and filters mean, against the twin that compares fractions."""

from __future__ import annotations

import doctest

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.model.filters import filter as filters
from pubweave.model.filters.filter import (
    ORDER_OPERATORS,
    STRING_OPERATORS,
    Filter,
    Operator,
    Predicate,
    topic_filter,
)
from pubweave.model.publications import Value, make_publication, validate_publication_content
from tests.naive import filters as naive

BIG = 2**53
values = st.sampled_from([-1, 0, 1, 1.0, 0.5, BIG, BIG + 1, float(BIG), True, False, "", "a", "ab"])


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    """A valid predicate on a few attributes, the topic among them."""
    attribute = draw(st.sampled_from(["class", "x", "y"]))
    operator = draw(st.sampled_from(sorted(Operator, key=lambda op: op.value)))
    if operator is Operator.PRESENT:
        return Predicate(attribute, operator)
    only_strings = attribute == "class" or operator in STRING_OPERATORS
    wanted = [str] if only_strings else [str, int, float]
    value = draw(
        values.filter(lambda v: type(v) in wanted or (type(v) is bool and not only_strings))
    )
    if isinstance(value, bool) and operator in ORDER_OPERATORS:
        operator = Operator.NE
    return Predicate(attribute, operator, value)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(
    st.lists(predicates(), max_size=3),
    st.sampled_from(["", "a", "ab", "b"]),
    st.dictionaries(st.sampled_from(["x", "y"]), values),
)
def test_matches_agrees_with_its_twin(
    conjuncts: list[Predicate], topic: str, attributes: dict[str, Value]
) -> None:
    filter_ = Filter(tuple(conjuncts))
    publication = make_publication("p", 1, topic, attributes, b"", 0.0)
    assert filter_.matches(publication) is naive.matches(filter_, {"class": topic, **attributes})


def test_a_filter_without_predicates_matches_everything() -> None:
    assert Filter().matches(make_publication("p", 1, "t", {}, b"", 0.0))


def test_a_topic_filter_matches_its_topic_only() -> None:
    assert topic_filter("t").matches(make_publication("p", 1, "t", {"x": 1}, b"", 0.0))
    assert not topic_filter("t").matches(make_publication("p", 1, "tt", {}, b"", 0.0))


@pytest.mark.parametrize(
    ("operator", "operand", "value", "expected"),
    [
        (Operator.NE, 5, None, False),
        (Operator.NE, 5, "5", False),
        (Operator.NE, 5, True, False),
        (Operator.EQ, 1, True, False),
        (Operator.EQ, 1, 1.0, True),
        (Operator.EQ, BIG + 1, float(BIG), False),
        (Operator.LT, "b", "a\U0010ffff", True),
        (Operator.CONTAINS, "", "", True),
        (Operator.PRESENT, None, False, True),
        (Operator.PRESENT, None, None, False),
    ],
)
def test_a_comparison_holds_only_for_its_operands_type(
    operator: Operator, operand: Value | None, value: Value | None, expected: bool
) -> None:
    assert Predicate("x", operator, operand).holds(value) is expected


@pytest.mark.parametrize(
    ("attribute", "operator", "value", "says"),
    [
        ("", Operator.EQ, 1, "attribute name"),
        ("x", Operator.EQ, None, "wrong operand"),
        ("x", Operator.PRESENT, 1, "wrong operand"),
        ("x", Operator.PREFIX, 1, "needs a string"),
        ("x", Operator.GE, True, "no order"),
        ("x", Operator.EQ, float("nan"), "finite"),
        ("x", Operator.EQ, float("inf"), "finite"),
        ("x", Operator.EQ, 2**64, "whole numbers"),
        ("x", Operator.EQ, -(2**63) - 1, "whole numbers"),
        ("class", Operator.EQ, 1, "strings only"),
        ("class", Operator.NE, True, "strings only"),
    ],
)
def test_a_senseless_predicate_is_refused_with_its_reason(
    attribute: str, operator: Operator, value: Value | None, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        Predicate(attribute, operator, value)


@pytest.mark.parametrize(
    ("topic", "attributes", "says"),
    [
        ("", {}, "topic"),
        ("t", {"class": "u"}, "do not repeat"),
        ("t", {"x": float("nan")}, "'x' is nan"),
        ("t", {"x": 2**64}, "whole numbers"),
        ("t", {"": 1}, "needs a name"),
    ],
)
def test_a_publication_that_no_filter_could_address_is_refused(
    topic: str, attributes: dict[str, Value], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        validate_publication_content(topic, attributes)


def test_equality_tells_numbers_from_booleans_but_not_from_each_other() -> None:
    one, true, real = (Filter((Predicate("x", Operator.EQ, v),)) for v in (1, True, 1.0))
    assert one != true
    assert one == real
    assert hash(one) == hash(real)
    assert len({one: 1, true: 2, real: 3}) == 2
    assert one.predicates[0] != "x = 1"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(predicates(), max_size=3).map(lambda ps: Filter(tuple(ps))))
def test_a_filter_crosses_the_wire_unchanged(filter_: Filter) -> None:
    arrived = msgspec.msgpack.decode(msgspec.msgpack.encode(filter_), type=Filter)
    assert arrived == filter_
    assert repr(arrived) == repr(filter_)
    assert hash(arrived) == hash(filter_)


def test_a_senseless_predicate_does_not_arrive() -> None:
    encoded = msgspec.msgpack.encode([[["x", "prefix", 5]]])
    with pytest.raises(msgspec.ValidationError, match="needs a string"):
        msgspec.msgpack.decode(encoded, type=Filter)


def test_examples_in_the_documentation_hold() -> None:
    result = doctest.testmod(filters)
    assert result.attempted > 0
    assert result.failed == 0

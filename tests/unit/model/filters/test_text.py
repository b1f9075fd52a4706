"""Written filters and publications: what is read, what is written, and where errors point."""

from __future__ import annotations

import doctest
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.model.filters import lexer as filter_lexer
from pubweave.model.filters import text as filter_text
from pubweave.model.filters.filter import (
    ORDER_OPERATORS,
    STRING_OPERATORS,
    Filter,
    Operator,
    Predicate,
)
from pubweave.model.filters.text import (
    FilterSyntaxError,
    NotationError,
    PublicationSyntaxError,
    format_filter,
    format_padres,
    format_publication,
    parse_filter,
    parse_publication,
)
from pubweave.model.publications import Value

many = settings(max_examples=400, deadline=None, derandomize=True)

scalars = st.characters(exclude_categories=["Cs"])
AWKWARD = ["topic", "and", "OR", "true", "is", "prefix", "a b", "`", "5x", "a,b", "[", "é", "a`'b"]
texts = st.one_of(st.text(scalars, max_size=6), st.sampled_from(["", "'", '"', "''", "a\nb", "]"]))
names = st.one_of(st.text(scalars, min_size=1, max_size=6), st.sampled_from(AWKWARD))
numbers = st.one_of(
    st.integers(min_value=-(2**63), max_value=2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
values = st.one_of(texts, numbers, st.booleans())


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    attribute = draw(st.one_of(st.just("class"), names))
    operator = draw(st.sampled_from(list(Operator)))
    if operator is Operator.PRESENT:
        return Predicate(attribute, operator)
    if attribute == "class" or operator in STRING_OPERATORS:
        return Predicate(attribute, operator, draw(texts))
    if operator in ORDER_OPERATORS:
        return Predicate(attribute, operator, draw(st.one_of(texts, numbers)))
    return Predicate(attribute, operator, draw(values))


def single(text: str) -> tuple[str, Operator, Value | None]:
    """The only predicate of a written filter, as a plain tuple."""
    (predicate,) = parse_filter(text).predicates
    return predicate.attribute, predicate.operator, predicate.value


@many
@given(st.lists(predicates(), max_size=4).map(lambda ps: Filter(tuple(ps))))
def test_an_expression_reads_back_as_the_filter_it_was_written_from(filter_: Filter) -> None:
    assert repr(parse_filter(format_filter(filter_))) == repr(filter_)


@many
@given(st.lists(predicates(), min_size=1, max_size=4).map(lambda ps: Filter(tuple(ps))))
def test_padres_text_reads_back_as_the_filter_it_was_written_from(filter_: Filter) -> None:
    assert repr(parse_filter(format_padres(filter_))) == repr(filter_)


@many
@given(
    st.text(scalars, min_size=1, max_size=6),
    st.dictionaries(names.filter(lambda name: name != "class"), values, max_size=4),
)
def test_a_publication_reads_back_as_it_was_written(
    topic: str, attributes: dict[str, Value]
) -> None:
    assert repr(parse_publication(format_publication(topic, attributes))) == repr(
        (topic, attributes)
    )


FRAGMENTS = (
    "x class topic = <= prefix is present and or * [ ] , 'a' \" ' ` 5 -1e3 1e999 true \n ? é"
)


def refusal(parse: Callable[[str], object], text: str) -> NotationError | None:
    try:
        parse(text)
    except NotationError as error:
        return error
    return None


@many
@given(st.lists(st.sampled_from([*FRAGMENTS.split(" "), " "]), max_size=8).map("".join))
def test_any_text_is_read_or_refused_at_a_place_inside_it(text: str) -> None:
    for parse in (parse_filter, parse_publication):
        error = refusal(parse, text)
        if error is not None:
            assert 0 <= error.position <= len(text)
            assert error.text == text
            assert error.expected in str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=5", ("x", Operator.EQ, 5)),
        ("x == 5", ("x", Operator.EQ, 5)),
        ("x <> 5", ("x", Operator.NE, 5)),
        ("x != 5", ("x", Operator.NE, 5)),
        ("x<-5", ("x", Operator.LT, -5)),
        ("x >= +.5e-3", ("x", Operator.GE, 0.0005)),
        ("x <= 5.", ("x", Operator.LE, 5.0)),
        ("x > 1E3", ("x", Operator.GT, 1000.0)),
        ("x = TRUE", ("x", Operator.EQ, True)),
        ("x PREFIX 'A'", ("x", Operator.PREFIX, "A")),
        ('x suffix "it\'s"', ("x", Operator.SUFFIX, "it's")),
        ("x contains 'it''s'", ("x", Operator.CONTAINS, "it's")),
        ('x = "say ""hi"""', ("x", Operator.EQ, 'say "hi"')),
        ("x = ''", ("x", Operator.EQ, "")),
        ("close Is Present", ("close", Operator.PRESENT, None)),
        ("topic = 'a'", ("class", Operator.EQ, "a")),
        ("`topic` = 'a'", ("topic", Operator.EQ, "a")),
        ("`class` = 'a'", ("class", Operator.EQ, "a")),
        ("openClose%Diff > 1", ("openClose%Diff", Operator.GT, 1)),
        ("a.b-c/d_2 = 1", ("a.b-c/d_2", Operator.EQ, 1)),
        ("`a ``b` = 1", ("a `b", Operator.EQ, 1)),
        ("prefix prefix 'x'", ("prefix", Operator.PREFIX, "x")),
        ("\n x\t= 5 ", ("x", Operator.EQ, 5)),
    ],
)
def test_expression_is_read(text: str, expected: tuple[str, Operator, Value | None]) -> None:
    assert repr(single(text)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[class,eq,'STOCK']", ("class", Operator.EQ, "STOCK")),
        ('[class,eq,"STOCK"]', ("class", Operator.EQ, "STOCK")),
        (" [ volume , > , 1000000 ] ", ("volume", Operator.GT, 1000000)),
        ("[x,eq,5]", ("x", Operator.EQ, 5)),
        ("[x,=,5]", ("x", Operator.EQ, 5)),
        ("[x,neq,'a']", ("x", Operator.NE, "a")),
        ("[x,<>,5]", ("x", Operator.NE, 5)),
        ("[x,<=,-5.5]", ("x", Operator.LE, -5.5)),
        ("[x,isPresent,0]", ("x", Operator.PRESENT, None)),
        ("[x,isPresent,'text']", ("x", Operator.PRESENT, None)),
        ("[x,ispresent]", ("x", Operator.PRESENT, None)),
        ("[x,str-lt,'a']", ("x", Operator.LT, "a")),
        ("[x,str-le,'a']", ("x", Operator.LE, "a")),
        ("[x,str-gt,'a']", ("x", Operator.GT, "a")),
        ("[x,str-ge,'a']", ("x", Operator.GE, "a")),
        ("[x,str-prefix,'a']", ("x", Operator.PREFIX, "a")),
        ("[x,str-postfix,'a']", ("x", Operator.SUFFIX, "a")),
        ("[x,str-suffix,'a']", ("x", Operator.SUFFIX, "a")),
        ("[x,str-contains,'a']", ("x", Operator.CONTAINS, "a")),
        ("[halted,eq,false]", ("halted", Operator.EQ, False)),
        ("[topic,eq,'a']", ("topic", Operator.EQ, "a")),
    ],
)
def test_padres_text_is_read(text: str, expected: tuple[str, Operator, Value | None]) -> None:
    assert repr(single(text)) == repr(expected)


def test_both_forms_of_one_filter_are_equal_and_keep_the_written_order() -> None:
    expression = parse_filter("class = 'STOCK' AND volume > 1000000 and volume <= 2e6")
    padres = parse_filter("[class,eq,'STOCK'],[volume,>,1000000], [volume,<=,2e6]")
    assert expression == padres
    assert [p.attribute for p in padres.predicates] == ["class", "volume", "volume"]


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "a predicate"),
        ("   ", 3, "a predicate"),
        ("* and x = 1", 2, "the end"),
        ("x", 1, "an operator"),
        ("x =", 3, "a quoted string, a number"),
        ("x = = 5", 4, "a quoted string, a number"),
        ("x = 5 y = 6", 6, "'and' or the end"),
        ("x = 5 or y = 6", 6, "(there is no 'or': subscribe once for each)"),
        ("x = 5 and", 9, "an attribute name"),
        ("x = 5 and and y = 6", 10, "an attribute name"),
        ("x = 5, y = 6", 5, "'and' or the end"),
        ("x = 5;", 5, "'and' or the end"),
        ("x ? 5", 2, "an operator"),
        ("x is missing", 5, "'present'"),
        ("5 = x", 0, "an attribute name"),
        ("symbol = YHOO", 9, "(a string needs quotes: 'YHOO')"),
        ("name = 'abc", 7, "a string that ends with '"),
        ("name = 'abc''", 7, "a string that ends with '"),
        ('y = 1 and name = "abc', 17, 'a string that ends with "'),
        ("`name = 5", 0, "a name in backquotes"),
        ("`` = 5", 0, "a name in backquotes"),
        ("x prefix 5", 9, "a quoted string"),
        ("x contains true", 11, "a quoted string"),
        ("flag < true", 7, "booleans have no order"),
        ("class = 5", 8, "class is the topic"),
        ("topic = true", 8, "class is the topic"),
        ("x = 1e999", 4, "64 bits"),
        ("x = 18446744073709551616", 4, "64 bits"),
        ("x = -9223372036854775809", 4, "64 bits"),
        ("x = " + "9" * 5000, 4, "64 bits"),
        ("x = 5and5", 5, "'and' or the end"),
        ("x = 'é' and y = '\ud800'", 17, "a surrogate"),
        ("[x,=,5", 6, "']'"),
        ("[x,=,5]]", 7, "',' or the end"),
        ("[x,=,5],", 8, "'['"),
        ("[x,=,5] [y,=,5]", 8, "',' or the end"),
        ("[x,=,5] and y = 5", 8, "',' or the end"),
        ("[x,=]", 4, "','"),
        ("[x,5]", 3, "an operator"),
        ("[x,like,'a']", 3, "an operator"),
        ("[x =,5]", 3, "','"),
        ("[,=,5]", 1, "an attribute name"),
        ("[]", 1, "an attribute name"),
        ("[class,eq,STOCK]", 10, "(a string needs quotes: 'STOCK')"),
        ("[class,eq,'STOCK]", 10, "a string that ends with '"),
        ("[class,eq,5]", 10, "class is the topic"),
        ("[x,str-lt,5]", 10, "a quoted string"),
        ("[x,str-prefix,5]", 14, "a quoted string"),
        ("[x,<,true]", 5, "booleans have no order"),
        ("[x,isPresent,]", 13, "a quoted string, a number"),
    ],
)
def test_an_error_points_at_the_exact_place(text: str, position: int, expected: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_filter(text)
    assert caught.value.position == position
    assert expected in caught.value.expected
    assert caught.value.text == text


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "'['"),
        ("class = 'a'", 0, "'['"),
        ("[symbol,'YHOO']", 0, "[class,'...']"),
        ("[class,5]", 7, "the topic"),
        ("[class,'']", 7, "the topic"),
        ("[class,'a'],[x,1],[x,2]", 19, "'x' was given before"),
        ("[class,'a'],[class,'b']", 13, "'class' was given before"),
        ("[class,'a'],[x,abc]", 15, "(a string needs quotes: 'abc')"),
        ("[class,'a'],[x,'abc]", 15, "a string that ends with '"),
        ("[class,'a'],[x]", 14, "','"),
        ("[class,eq,'a']", 7, "(a string needs quotes: 'eq')"),
        ("[class,'a'],", 12, "'['"),
        ("[class,'a']x", 11, "',' or the end"),
    ],
)
def test_a_publication_error_points_at_the_exact_place(
    text: str, position: int, expected: str
) -> None:
    with pytest.raises(PublicationSyntaxError) as caught:
        parse_publication(text)
    assert caught.value.position == position
    assert expected in caught.value.expected


def test_the_message_draws_a_caret_under_the_place() -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_filter("x = 1 and\n\ty prefix 5 and z = 1")
    first, line, caret = str(caught.value).splitlines()
    assert first.startswith("the filter cannot be read at position 20: expected a quoted string")
    assert line == "   y prefix 5 and z = 1"
    assert line[caret.index("^")] == "5"


def test_the_message_shows_only_the_surroundings_in_a_long_text() -> None:
    text = " and ".join(f"attribute{n} = {n}" for n in range(100)) + " & x = 1 " * 20
    with pytest.raises(FilterSyntaxError) as caught:
        parse_filter(text)
    _, line, caret = str(caught.value).splitlines()
    assert len(line) < 100
    assert line.count("…") == 2
    assert line[caret.index("^")] == "&"


def test_errors_survive_the_way_to_another_process() -> None:
    error = FilterSyntaxError("x = ", 4, "a number")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.position) == (FilterSyntaxError, str(error), 4)


def test_the_filter_without_predicates_is_a_star_and_has_no_padres_text() -> None:
    assert parse_filter(" * ") == Filter()
    assert format_filter(Filter()) == "*"
    with pytest.raises(ValueError, match="needs a predicate"):
        format_padres(Filter())


def test_padres_text_is_written_with_the_operators_padres_knows() -> None:
    filter_ = parse_filter(
        "s > 'a' and s != 'b' and n != 5 and n = 5 and b != true and p is present"
    )
    assert format_padres(filter_) == (
        "[s,str-gt,'a'],[s,neq,'b'],[n,<>,5],[n,=,5],[b,neq,true],[p,isPresent,0]"
    )


def test_a_publication_that_cannot_be_published_is_not_written() -> None:
    with pytest.raises(ValueError, match="finite"):
        format_publication("STOCK", {"open": float("inf")})


@pytest.mark.parametrize("module", [filter_text, filter_lexer])
def test_examples_in_the_documentation_hold(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0

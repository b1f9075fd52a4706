"""Filters and publications as people write them, read and written.

A filter has two written forms. The expression: ``class = 'STOCK' and volume > 1000000``; the
PADRES text: ``[class,eq,'STOCK'],[volume,>,1000000]``, known by its leading bracket. A publication
is written as PADRES does: ``[class,'STOCK'],[symbol,'YHOO'],[open,18.37]``. The tokens of all
three, and their errors, are in `filters/lexer`; what filters mean is in `filter`.

Reading what was written gives back the same value, types included. An attribute name that is not
a plain word stands in backquotes. In an expression a bare ``topic`` is another spelling of
``class``; in PADRES text, as in PADRES, it is an attribute like any other.
"""

from __future__ import annotations

from collections.abc import Mapping

from pubweave.model.filters.filter import (
    ORDER_OPERATORS,
    STRING_OPERATORS,
    Filter,
    Operator,
    Predicate,
)
from pubweave.model.filters.lexer import (
    RESERVED_WORDS,
    FilterSyntaxError,
    NotationError,
    PublicationSyntaxError,
    Reader,
    TokenKind,
    is_bare_name,
    quoted,
)
from pubweave.model.publications import TOPIC_ATTRIBUTE, Value, validate_publication_content

__all__ = [
    "FilterSyntaxError",
    "NotationError",
    "PublicationSyntaxError",
    "format_filter",
    "format_padres",
    "format_publication",
    "parse_filter",
    "parse_publication",
]

TOPIC_ALIAS = "topic"
_EXPRESSION_OPERATORS = {
    **{operator.value: operator for operator in Operator if operator is not Operator.PRESENT},
    "==": Operator.EQ,
    "<>": Operator.NE,
}
_PADRES_ANY_OPERATORS = {
    **{text: op for text, op in _EXPRESSION_OPERATORS.items() if op not in STRING_OPERATORS},
    "eq": Operator.EQ,
    "neq": Operator.NE,
}
_PADRES_STRING_OPERATORS = {
    "str-eq": Operator.EQ,
    "str-neq": Operator.NE,
    "str-lt": Operator.LT,
    "str-le": Operator.LE,
    "str-gt": Operator.GT,
    "str-ge": Operator.GE,
    "str-prefix": Operator.PREFIX,
    "str-suffix": Operator.SUFFIX,
    "str-postfix": Operator.SUFFIX,
    "str-contains": Operator.CONTAINS,
}
_PADRES_PRESENT = "ispresent"
_PADRES_STRING_SPELLING = {
    Operator.EQ: "eq",
    Operator.NE: "neq",
    Operator.LT: "str-lt",
    Operator.LE: "str-le",
    Operator.GT: "str-gt",
    Operator.GE: "str-ge",
    Operator.PREFIX: "str-prefix",
    Operator.SUFFIX: "str-postfix",
    Operator.CONTAINS: "str-contains",
}


def parse_filter(text: str) -> Filter:
    """Read either written form; the predicates keep their order.

    Raises FilterSyntaxError, which points at the offending place.

    >>> parse_filter("volume > 1000000") == parse_filter("[volume,>,1000000]")
    True
    >>> parse_filter("*")
    Filter(predicates=())
    >>> parse_filter("symbol = YHOO")
    Traceback (most recent call last):
        ...
    pubweave.model.filters.lexer.FilterSyntaxError: the filter cannot be read at position 9: \
expected a quoted string, a number, true or false (a string needs quotes: 'YHOO')
      symbol = YHOO
               ^
    """
    reader = Reader(text, FilterSyntaxError)
    if reader.at_symbol("["):
        return Filter(_padres_predicates(reader))
    return Filter(_expression_predicates(reader))


def parse_publication(text: str) -> tuple[str, dict[str, Value]]:
    """Read PADRES publication text into its topic and attributes.

    Raises PublicationSyntaxError, which points at the offending place.

    >>> parse_publication("[class,'STOCK'],[symbol,'YHOO'],[open,18.37]")
    ('STOCK', {'symbol': 'YHOO', 'open': 18.37})
    """
    reader = Reader(text, PublicationSyntaxError)
    values: dict[str, Value] = {}
    while True:
        reader.take_symbol("[")
        name_token = reader.token
        name = reader.take_name()
        if name in values:
            raise reader.error(f"each attribute once ({name!r} was given before)", name_token)
        reader.take_symbol(",")
        value_token = reader.token
        values[name] = reader.take_value()
        if name == TOPIC_ATTRIBUTE and (not values[name] or not isinstance(values[name], str)):
            raise reader.error("a quoted string that is not empty (the topic)", value_token)
        reader.take_symbol("]")
        if reader.at_end_or_comma():
            break
    topic = values.pop(TOPIC_ATTRIBUTE, None)
    if not isinstance(topic, str):
        raise PublicationSyntaxError(text, 0, f"the topic as [{TOPIC_ATTRIBUTE},'...'] somewhere")
    return topic, values


def format_filter(filter_: Filter) -> str:
    """The filter as an expression; `parse_filter` reads it back.

    >>> format_filter(parse_filter("[class,eq,'STOCK'],[close,isPresent,0],[low,<>,1.50]"))
    "class = 'STOCK' and close is present and low != 1.5"
    """
    if not filter_.predicates:
        return "*"
    return " and ".join(_format_predicate(p) for p in filter_.predicates)


def format_padres(filter_: Filter) -> str:
    """The filter as PADRES text; `parse_filter` reads it back.

    PADRES itself reads no backquoted names and only one predicate on each attribute. Raises
    ValueError for a filter without predicates, which has no such form at all.

    >>> format_padres(parse_filter("class = 'STOCK' and name suffix 'x' and close is present"))
    "[class,eq,'STOCK'],[name,str-postfix,'x'],[close,isPresent,0]"
    """
    if not filter_.predicates:
        raise ValueError("PADRES text needs a predicate: a filter without any is written '*'")
    return ",".join(_format_padres_predicate(p) for p in filter_.predicates)


def format_publication(topic: str, attributes: Mapping[str, Value]) -> str:
    """Topic and attributes as PADRES text; `parse_publication` reads it back.

    >>> format_publication("STOCK", {"symbol": "YHOO", "halted": False})
    "[class,'STOCK'],[symbol,'YHOO'],[halted,false]"
    """
    validate_publication_content(topic, dict(attributes))
    pairs = [(TOPIC_ATTRIBUTE, topic), *attributes.items()]
    return ",".join(f"[{_format_name(name)},{_format_value(value)}]" for name, value in pairs)


def _expression_predicates(reader: Reader) -> tuple[Predicate, ...]:
    if reader.at_symbol("*"):
        reader.take()
        if not reader.at_end():
            raise reader.error("the end ('*' stands alone)")
        return ()
    if reader.at_end():
        raise reader.error("a predicate such as volume > 5, or '*' for every publication")
    predicates = [_expression_predicate(reader)]
    while not reader.at_end():
        hint = " (there is no 'or': subscribe once for each)" if reader.at_word("or") else ""
        reader.take_word("and", f"'and' or the end{hint}")
        predicates.append(_expression_predicate(reader))
    return tuple(predicates)


def _expression_predicate(reader: Reader) -> Predicate:
    bare = reader.token.kind is TokenKind.WORD
    name = reader.take_name()
    attribute = TOPIC_ATTRIBUTE if bare and name == TOPIC_ALIAS else name
    if reader.at_word("is"):
        reader.take()
        reader.take_word("present", "'present'")
        return Predicate(attribute, Operator.PRESENT)
    operator = None
    if reader.token.kind in (TokenKind.SYMBOL, TokenKind.WORD):
        operator = _EXPRESSION_OPERATORS.get(reader.token.text.lower())
    if operator is None:
        raise reader.error("an operator: = != < <= > >= prefix suffix contains, or 'is present'")
    reader.take()
    return _compared(reader, attribute, operator, operator in STRING_OPERATORS)


def _padres_predicates(reader: Reader) -> tuple[Predicate, ...]:
    predicates = []
    while True:
        reader.take_symbol("[")
        attribute = reader.take_name()
        reader.take_symbol(",")
        predicates.append(_padres_predicate(reader, attribute))
        reader.take_symbol("]")
        if reader.at_end_or_comma():
            return tuple(predicates)


def _padres_predicate(reader: Reader, attribute: str) -> Predicate:
    spelling = ""
    if reader.token.kind in (TokenKind.SYMBOL, TokenKind.WORD):
        spelling = reader.token.text.lower()
    if spelling == _PADRES_PRESENT:
        reader.take()
        if not reader.at_symbol("]"):
            reader.take_symbol(",")
            reader.take_value()
        return Predicate(attribute, Operator.PRESENT)
    strings_only = spelling in _PADRES_STRING_OPERATORS
    operator = _PADRES_STRING_OPERATORS.get(spelling) or _PADRES_ANY_OPERATORS.get(spelling)
    if operator is None:
        raise reader.error(
            "an operator: eq neq = <> < <= > >= isPresent str-prefix str-postfix str-contains "
            "str-lt str-le str-gt str-ge"
        )
    reader.take()
    reader.take_symbol(",")
    return _compared(reader, attribute, operator, strings_only)


def _compared(reader: Reader, attribute: str, operator: Operator, strings_only: bool) -> Predicate:
    """Read the operand of an operator, refusing one of the wrong type at its own place."""
    token = reader.token
    value = reader.take_value()
    if attribute == TOPIC_ATTRIBUTE and not isinstance(value, str):
        raise reader.error(f"a quoted string ({TOPIC_ATTRIBUTE} is the topic)", token)
    if strings_only and not isinstance(value, str):
        raise reader.error("a quoted string (the operator compares strings)", token)
    if operator in ORDER_OPERATORS and isinstance(value, bool):
        raise reader.error("a number or a quoted string (booleans have no order)", token)
    return Predicate(attribute, operator, value)


def _format_predicate(predicate: Predicate) -> str:
    name = _format_name(predicate.attribute)
    if predicate.value is None:
        return f"{name} {predicate.operator.value}"
    return f"{name} {predicate.operator.value} {_format_value(predicate.value)}"


def _format_padres_predicate(predicate: Predicate) -> str:
    name = _format_name(predicate.attribute)
    value, operator = predicate.value, predicate.operator
    if value is None:
        return f"[{name},isPresent,0]"
    if isinstance(value, str):
        spelling = _PADRES_STRING_SPELLING[operator]
    elif isinstance(value, bool):
        spelling = "eq" if operator is Operator.EQ else "neq"
    else:
        spelling = "<>" if operator is Operator.NE else operator.value
    return f"[{name},{spelling},{_format_value(value)}]"


def _format_name(name: str) -> str:
    bare = is_bare_name(name) and name != TOPIC_ALIAS and name.lower() not in RESERVED_WORDS
    return name if bare else quoted(name, "`")


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value, "'") if isinstance(value, str) else repr(value)

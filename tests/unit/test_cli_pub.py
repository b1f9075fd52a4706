"""How attributes on the command line are understood."""

from __future__ import annotations

import pytest

from pubweave.cli.pub import parse_attribute, parse_value
from pubweave.model.publications import Value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1000", 1000),
        ("-3", -3),
        ("18.5", 18.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("'1000'", "1000"),
        ('"true"', "true"),
        ("'it''s'", "it's"),
        ("YHOO", "YHOO"),
        ("IBM & Co", "IBM & Co"),
        ("3 apples", "3 apples"),
        ("1996-09-05", "1996-09-05"),
        ("'open", "'open"),
        ("nan", "nan"),
        ("", ""),
        ("a=b", "a=b"),
    ],
)
def test_a_value_is_what_it_looks_like_and_else_a_string(text: str, value: Value) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_an_attribute_is_split_at_its_first_equals_sign() -> None:
    assert parse_attribute(" x =a=b") == ("x", "a=b")

"""Churn as text."""

from __future__ import annotations

import pytest

from pubweave.design.tco.changes import (
    ChurnError,
    Join,
    Leave,
    Resubscribe,
    parse_round,
    parse_rows,
)


def test_a_line_is_one_change_or_several() -> None:
    assert parse_round('{"join": "a", "topics": ["x", "y", "x"]}') == [Join("a", ("x", "y"))]
    line = '[{"leave": "b"}, {"change": "c", "begin": ["z"], "end": ["x"]}]'
    assert parse_round(line) == [Leave("b"), Resubscribe("c", ("z",), ("x",))]
    assert parse_round("[]") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON at column 2"),
        ('"join"', "expected"),
        ('{"join": "a", "leave": "a"}', "expected"),
        ('{"leave": 3}', "leave: a node is a non-empty string, got 3"),
        ('{"leave": "a", "topics": []}', "leave goes with nothing else, got 'topics'"),
        ('{"join": "a", "topics": "x"}', "topics: expected a list of non-empty strings"),
    ],
)
def test_a_bad_line_says_what_is_wrong(line: str, words: str) -> None:
    with pytest.raises(ChurnError) as caught:
        parse_round(line)
    assert words in str(caught.value)


def test_rows_of_one_number_are_a_round() -> None:
    text = [
        "round,change,client,topic",
        "1,join,a,x",
        "1,join,a,y",
        "1,leave,b,",
        "7,end,c,x",
        "7,begin,c,z",
        "7,end,d,x",
    ]
    assert list(parse_rows(text)) == [
        [Join("a", ("x", "y")), Leave("b")],
        [Resubscribe("c", ("z",), ("x",)), Resubscribe("d", (), ("x",))],
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["client,topic"], "line 1: has the columns client,topic"),
        (["round,change,client,topic", "1,go,a,x"], "line 2: change 'go'"),
        (["round,change,client,topic", "1,join,,x"], "line 2: has no client"),
        (["round,change,client,topic", "1,leave,b,", "1,end,a,"], "line 3: end needs a topic"),
    ],
)
def test_a_bad_row_is_named_by_its_line(rows: list[str], words: str) -> None:
    with pytest.raises(ChurnError) as caught:
        list(parse_rows(rows))
    assert words in str(caught.value)

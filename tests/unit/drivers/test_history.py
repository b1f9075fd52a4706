"""The judges of simulated drivers find what is wrong, and nothing else."""

from __future__ import annotations

import pytest

from pubweave.drivers.history import Attempt, NativeHistory, Wish
from pubweave.drivers.mqtt import wants
from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Publication, make_publication


def published(history: NativeHistory, number: int, at: float = 5.0, x: int = 1) -> Publication:
    """An acknowledged publication of c0."""
    payload = f"c0/{number} ".encode()
    publication = make_publication("c0", number, "alpha", {"x": x}, payload, at)
    history.attempts[payload] = Attempt("c0", payload, at, publication, is_acknowledged=True)
    return publication


def wish_of(history: NativeHistory, settled_at: float | None = 1.0) -> Wish:
    wish = Wish("c1", parse_filter("x = 1"), settled_at)
    history.wishes.append(wish)
    return wish


def test_all_that_is_due_came_once_and_in_order() -> None:
    history = NativeHistory()
    wish = wish_of(history)
    for number in (1, 2):
        history.delivered(wish, published(history, number), 6.0)
    published(history, 3, x=2)
    history.judge(9.0, {}, memory_was_lost=False)
    assert history.violations == []
    assert (history.due, history.deliveries) == (2, 2)


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ((1,), ["never got 1: c0/2"]),
        ((1, 2, 2), ["got c0/2  twice"]),
        ((2, 1), ["got c0/1  after c0/2 : out of order"]),
    ],
)
def test_what_is_missing_doubled_or_out_of_order_is_found(
    numbers: tuple[int, ...], found: list[str]
) -> None:
    history = NativeHistory()
    wish = wish_of(history)
    publications = {n: published(history, n) for n in (1, 2)}
    for n in numbers:
        history.delivered(wish, publications[n], 6.0)
    history.judge(9.0, {}, memory_was_lost=False)
    assert len(history.violations) == len(found)
    assert all(text in line for text, line in zip(found, history.violations, strict=True))


def test_what_nobody_published_or_asked_for_is_found() -> None:
    history = NativeHistory()
    wish = wish_of(history)
    history.delivered(wish, published(history, 1, x=2), 6.0)
    history.delivered(wish, make_publication("c0", 2, "alpha", {"x": 1}, b"other", 5.0), 6.0)
    assert [line.partition(", ")[2] for line in history.violations] == [
        "which it did not ask for",
        "which nobody published",
    ]


def test_nothing_is_due_before_it_settled_or_once_it_is_taken_back() -> None:
    history = NativeHistory()
    wish_of(history, settled_at=None)
    wish_of(history, settled_at=7.0)
    wish_of(history).withdrawn_at = 6.0
    published(history, 1)
    history.judge(9.0, {}, memory_was_lost=False)
    assert (history.due, history.violations) == (0, [])


def test_what_is_missing_is_excused_by_lost_memory_or_as_much_as_was_told() -> None:
    for told, memory_was_lost, violations in ((0, True, 0), (2, False, 0), (1, False, 1)):
        history = NativeHistory()
        wish_of(history)
        published(history, 1)
        published(history, 2)
        history.judge(9.0, {"c1": told}, memory_was_lost=memory_was_lost)
        assert len(history.violations) == violations
        assert history.excused == 2 * memory_was_lost


def test_what_was_never_acknowledged_is_found() -> None:
    history = NativeHistory()
    publication = published(history, 1)
    history.attempts[publication.payload].is_acknowledged = False
    history.judge(9.0, {}, memory_was_lost=True)
    assert history.violations == ["9.000 c0/1  was never acknowledged"]


@pytest.mark.parametrize(
    ("pattern", "topic", "is_wanted"),
    [
        ("#", "a", True),
        ("a/#", "a", True),
        ("a/#", "a/x/y", True),
        ("a/+", "a", False),
        ("a/+", "a/x/y", False),
        ("b/+/c", "b/1/c", True),
        ("b/+/c", "b/1", False),
        ("a", "a/x", False),
    ],
)
def test_topic_filters_are_understood(pattern: str, topic: str, is_wanted: bool) -> None:
    assert wants(pattern, topic) is is_wanted

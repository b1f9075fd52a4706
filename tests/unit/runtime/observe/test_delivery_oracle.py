"""The judge of deliveries, on cases small enough to see."""

from __future__ import annotations

from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Publication, make_publication
from pubweave.runtime.observe.delivery_oracle import DeliveryVerdict, expected_deliveries, judge


def published(sequence: int, topic: str = "a", x: int = 0) -> Publication:
    return make_publication("p", sequence, topic, {"x": x}, b"", 0.0)


WANTED = {
    "big": parse_filter("class = 'a' and x > 5"),
    "all": parse_filter("*"),
    "b": parse_filter("class = 'b'"),
}
PUBLISHED = [published(1, x=9), published(2, x=1), published(3, topic="b", x=9)]
RECEIVED = {"big": [("p", 1)], "all": [("p", 1), ("p", 2), ("p", 3)], "b": [("p", 3)]}


def test_each_subscriber_is_due_what_its_filter_matches() -> None:
    assert expected_deliveries(PUBLISHED, WANTED) == {
        client: set(keys) for client, keys in RECEIVED.items()
    }


def test_a_clean_run_is_called_clean() -> None:
    verdict = judge(PUBLISHED, WANTED, RECEIVED)
    assert verdict == DeliveryVerdict(3, 5, 5, 0, 0, 0, 0)
    assert verdict.is_clean


def test_a_missing_delivery_is_lost() -> None:
    verdict = judge(PUBLISHED, WANTED, {**RECEIVED, "all": [("p", 1), ("p", 3)]})
    assert (verdict.lost, verdict.delivered, verdict.is_clean) == (1, 4, False)


def test_a_subscriber_that_was_never_heard_of_has_lost_everything() -> None:
    verdict = judge(PUBLISHED, WANTED, {"big": [("p", 1)], "b": [("p", 3)]})
    assert verdict.lost == 3


def test_a_second_delivery_is_duplicated() -> None:
    verdict = judge(PUBLISHED, WANTED, {**RECEIVED, "big": [("p", 1), ("p", 1)]})
    assert (verdict.duplicated, verdict.lost, verdict.is_clean) == (1, 0, False)


def test_what_nobody_asked_for_is_unexpected() -> None:
    verdict = judge(PUBLISHED, WANTED, {**RECEIVED, "big": [("p", 1), ("p", 2)]})
    assert (verdict.unexpected, verdict.is_clean) == (1, False)


def test_a_publication_after_a_later_one_is_out_of_order() -> None:
    verdict = judge(PUBLISHED, WANTED, {**RECEIVED, "all": [("p", 2), ("p", 1), ("p", 3)]})
    assert (verdict.out_of_order, verdict.is_clean) == (1, False)

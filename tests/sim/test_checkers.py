from __future__ import annotations

from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Publication, make_publication
from pubweave.sim.checkers.delivery import DeliveryChecker


def publication(sequence: int, topic: str = "T", at: float = 1.0) -> Publication:
    return make_publication("p", sequence, topic, {}, b"", at)


def checker() -> DeliveryChecker:
    made = DeliveryChecker()
    made.subscribed("s", "s:1", parse_filter("class = 'T'"))
    return made


def test_a_run_in_which_all_is_well_has_no_violation() -> None:
    made = checker()
    made.published(publication(1), made.wanting(publication(1), ["s", "other"]))
    made.notified("s", publication(1), 2.0)
    made.check_all_delivered(3.0)
    assert made.violations == []
    assert made.due == made.deliveries == 1


def test_a_lost_publication_is_seen() -> None:
    made = checker()
    made.published(publication(1), {"s"})
    made.check_all_delivered(3.0)
    assert "never got p#1" in made.violations[0]


def test_a_doubled_publication_is_seen() -> None:
    made = checker()
    made.published(publication(1), {"s"})
    made.notified("s", publication(1), 2.0)
    made.notified("s", publication(1), 2.0)
    assert "twice" in made.violations[0]


def test_disorder_is_seen() -> None:
    made = checker()
    for number in (1, 2):
        made.published(publication(number), {"s"})
    made.notified("s", publication(2), 2.0)
    made.notified("s", publication(1), 2.0)
    assert "out of order" in made.violations[0]


def test_what_nobody_published_or_asked_for_is_seen() -> None:
    made = checker()
    made.notified("s", publication(9), 2.0)
    assert "nobody published" in made.violations[0]
    made.published(publication(1, "OTHER"), set())
    made.notified("s", publication(1, "OTHER"), 2.0)
    assert "did not ask" in made.violations[1]


def test_after_an_acknowledged_withdrawal_nothing_newer_may_come() -> None:
    made = checker()
    made.published(publication(1, at=1.0), {"s"})
    made.withdrawing("s", "s:1")
    made.unsubscribed("s", "s:1", 2.0)
    made.notified("s", publication(1, at=1.0), 3.0)
    assert made.violations == []
    made.published(publication(2, at=2.5), set())
    made.notified("s", publication(2, at=2.5), 3.0)
    assert "did not ask" in made.violations[0]


def test_what_is_excused_is_counted_and_not_missed() -> None:
    made = checker()
    made.published(publication(1), {"s", "other"})
    made.excuse("s")
    made.notified("other", publication(1), 2.0)
    made.check_all_delivered(3.0)
    assert made.excused == 1
    assert [text for text in made.violations if "never" in text] == []

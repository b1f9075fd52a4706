"""Hours in which nothing is changed."""

from __future__ import annotations

import pytest

from pubweave.control.settings import QuietHours, QuietHoursError, quiet_until

HOUR = 3600.0


@pytest.mark.parametrize("text", ["22:00", "22-06", "25:00-06:00", "22:60-06:00", "8:00-8:00", ""])
def test_what_is_no_span_is_refused_with_an_example_or_the_reason(text: str) -> None:
    with pytest.raises(QuietHoursError, match=r"22:00-06:00|time of the day|begins when it ends"):
        QuietHours.parse(text)


@pytest.mark.parametrize("text", ["22:00-06:00", "01:30-02:00", "00:00-24:00", "9:05-17:00"])
def test_a_span_covers_exactly_the_minutes_between_its_ends(text: str) -> None:
    """The slow twin: walk through the minutes from the beginning until the end comes."""
    if text == "00:00-24:00":
        with pytest.raises(QuietHoursError):
            QuietHours.parse(text)
        return
    span = QuietHours.parse(text)
    begins, ends = (60 * int(end.split(":")[0]) + int(end.split(":")[1]) for end in text.split("-"))
    covered, minute = set(), begins
    while minute != ends:
        covered.add(minute)
        minute = (minute + 1) % 1440
    for minute in range(1440):
        left = span.ends_in_s(60.0 * minute)
        assert (left is not None) == (minute in covered)
        if left is not None:
            assert left == 60.0 * ((ends - minute) % 1440)


def test_spans_that_touch_are_one() -> None:
    spans = (QuietHours.parse("22:00-02:00"), QuietHours.parse("02:00-06:00"))
    assert quiet_until(spans, 23 * HOUR, 0.0) == 30 * HOUR


def test_the_operators_clock_counts() -> None:
    span = (QuietHours.parse("22:00-06:00"),)
    assert quiet_until(span, 21 * HOUR, 0.0) is None
    assert quiet_until(span, 21 * HOUR, 2 * HOUR) == 28 * HOUR


def test_without_quiet_hours_it_is_never_quiet() -> None:
    assert quiet_until((), 0.0, 0.0) is None

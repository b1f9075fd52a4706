"""Hours of the day in which nothing is changed, as an operator writes them: ``22:00-06:00``.

Minutes of a day and nothing else: which clock the operator means is an offset that comes from
outside. A span may pass midnight; one whose ends are equal would be no time or all of it, and is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

DAY_S = 86_400.0
_SPAN = re.compile(r"([0-9]{1,2}):([0-9]{2})-([0-9]{1,2}):([0-9]{2})")


class QuietHoursError(ValueError):
    """A span of hours that cannot be understood; the message shows how to write one."""


@dataclass(frozen=True)
class QuietHours:
    """From one instant of every day until another, in seconds after midnight.

    >>> QuietHours.parse("22:30-06:00").ends_in_s(23 * 3600.0)
    25200.0
    >>> QuietHours.parse("22:30-06:00").ends_in_s(12 * 3600.0)
    """

    begins_s: float
    ends_s: float

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        found = _SPAN.fullmatch(text.strip())
        if found is None:
            raise QuietHoursError(f"{text!r}: write quiet hours as 22:00-06:00")
        hours = [int(group) for group in found.groups()]
        for hour, minute in (hours[:2], hours[2:]):
            if hour > 24 or minute > 59 or (hour == 24 and minute):
                raise QuietHoursError(f"{text!r}: {hour:02d}:{minute:02d} is no time of the day")
        begins, ends = (
            (60 * hour + minute) * 60.0 % DAY_S for hour, minute in (hours[:2], hours[2:])
        )
        if begins == ends:
            raise QuietHoursError(f"{text!r}: begins when it ends; leave it out for none")
        return cls(begins, ends)

    def ends_in_s(self, day_s: float) -> float | None:
        """How long it still lasts at this time of the day; None if it is not on."""
        length = (self.ends_s - self.begins_s) % DAY_S
        since = (day_s - self.begins_s) % DAY_S
        return length - since if since < length else None

    def __str__(self) -> str:
        return f"{_clock(self.begins_s)}-{_clock(self.ends_s)}"


def quiet_until(spans: Iterable[QuietHours], now: float, utc_offset_s: float) -> float | None:
    """Until when nothing may be changed; None if it may be now. Spans that touch are one."""
    until: float | None = None
    listed = tuple(spans)
    for _ in listed:  # each span can prolong the time once
        at = now if until is None else until
        ends = [span.ends_in_s((at + utc_offset_s) % DAY_S) for span in listed]
        longest = max((end for end in ends if end is not None), default=None)
        if longest is None:
            break
        until = at + longest
    return until


def time_of_day(instant: float, utc_offset_s: float) -> str:
    """An instant as the operator's clock shows it.

    >>> time_of_day(3600.0 * 13 + 125, 0.0)
    '13:02'
    """
    return _clock((instant + utc_offset_s) % DAY_S)


def _clock(day_s: float) -> str:
    minutes = int(day_s // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"

"""What an operator sets: how often to look, what a change must bring, and what it must never do.

Values only. Every default is stated here once, with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pubweave.model.decisions import ControlMode
from pubweave.model.ids import Link

# Hours of the day in which nothing is changed, as an operator writes them: ``22:00-06:00``.
#
# Minutes of a day and nothing else: which clock the operator means is an offset that comes from
# outside. A span may pass midnight; one whose ends are equal would be no time or all of it, and
# is refused.


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


class ControlSettingsError(ValueError):
    """Settings that contradict each other; the message says which."""


@dataclass(frozen=True)
class OperatorLimits:
    """What no change may do, whatever it saves."""

    max_degree: int | None = None
    pinned: frozenset[Link] = frozenset()
    forbidden: frozenset[Link] = frozenset()
    links_per_change: int | None = None
    links_per_day: int | None = None
    quiet_hours: tuple[QuietHours, ...] = ()
    utc_offset_s: float = 0.0
    """Of the clock by which quiet hours are meant."""


@dataclass(frozen=True)
class EvidenceDemands:
    """What a profile must be to act on."""

    window_s: float = 60.0
    """Shorter windows show bursts, not traffic."""
    notifications: int = 200
    """Below this the weights of delivery trees are mostly chance."""
    quarantine_share: float = 0.01
    missing_share: float = 0.01
    """Records that brokers dropped, of all."""
    age_s: float = 600.0
    """An older window's end tells of another time."""


@dataclass(frozen=True)
class ChangePrices:
    """What a shift costs beside what it moves (see `change_cost`)."""

    messages: float = 12.0
    """Of one shift, between its three brokers (ADR 8)."""
    store_ms: float = 20.0
    """The round trip to the store inside the hold."""
    weight: float = 1.0
    """How much more than its messages an operator minds a change."""


@dataclass(frozen=True)
class ControlSettings:
    """The whole loop."""

    mode: ControlMode = ControlMode.OBSERVE
    period_s: float = 300.0
    """Between two looks."""
    free_period_s: float = 900.0
    """Between two changes (DYNATOPS' T_free): what is measured in it shows the last one's worth."""
    least_saving: float = 0.02
    """Of the cost: what lies below is within the error of a profile."""
    few_links: tuple[int, ...] = (1, 2, 4, 8)
    """Sizes of changes that are weighed beside the whole way to the best tree."""
    review_s: float = 3600.0
    """How long a person's answer is waited for, and a rejected plan not proposed again."""
    review_poll_s: float = 1.0
    stand_down_s: float = 600.0
    """After a failed plan; doubled with every further failure in a row."""
    stand_down_s_max: float = 6 * 3600.0
    keep_records: int = 500
    limits: OperatorLimits = field(default_factory=OperatorLimits)
    demands: EvidenceDemands = field(default_factory=EvidenceDemands)
    prices: ChangePrices = field(default_factory=ChangePrices)

    def __post_init__(self) -> None:
        if self.period_s <= 0:
            raise ControlSettingsError("the period must be longer than 0 s")
        if self.free_period_s < 0:
            raise ControlSettingsError("the free period cannot be negative")
        for link in sorted(self.limits.pinned & self.limits.forbidden):
            raise ControlSettingsError(f"link {link} is both pinned and forbidden")

    @property
    def horizon_s(self) -> float:
        """Over which a change must pay: nothing else can be done before it is over."""
        return max(self.period_s, self.free_period_s)

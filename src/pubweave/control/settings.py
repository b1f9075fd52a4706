"""What an operator sets: how often to look, what a change must bring, and what it must never do.

Values only. Every default is stated here once, with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pubweave.control.quiet_hours import QuietHours
from pubweave.model.decisions import ControlMode
from pubweave.model.ids import Link


class SettingsError(ValueError):
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
            raise SettingsError("the period must be longer than 0 s")
        if self.free_period_s < 0:
            raise SettingsError("the free period cannot be negative")
        for link in sorted(self.limits.pinned & self.limits.forbidden):
            raise SettingsError(f"link {link} is both pinned and forbidden")

    @property
    def horizon_s(self) -> float:
        """Over which a change must pay: nothing else can be done before it is over."""
        return max(self.period_s, self.free_period_s)

"""What a profile is computed with, all in one frozen value; the window's slots, the last perhaps
incomplete. Part of every ``profile.json``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F


class ProfileSettingsError(ValueError):
    """A setting that makes no sense, with the bounds."""


@dataclass(frozen=True)
class ProfileSettings:
    """The defaults are the papers' where they state one."""

    slot_s: float = 10.0
    """Length of a time slot: rates and latencies are per slot."""
    rate_alpha: float = 0.3
    """Weight of the newest slot in the exponential filter (DYNATOPS Eq. 8)."""
    running_average_alpha: float = 0.25
    """Weight of the newest trace in POP's publisher profile."""
    trace_length: int = 100
    """Publications in a trace window (GRAPE's threshold)."""
    neighborhood_hops: int = 3
    """How far CI's neighborhood reaches."""
    delay_weight: float = 1.0
    """DYNATOPS' w_d."""
    theta_log2_entries: int = 12
    """Size of a theta sketch: 2^12 entries, 1.6 % standard error on a count."""
    bloom_cache_publications: int = 2000
    """CI's caches cover the last so many publications of the overlay."""
    bloom_bits: int = 8192
    bloom_hashes: int = 4
    """CI's Bloom filters: 8192 bits and 4 hashes hold about 850 entries at 2 % false positives."""
    kll_k: int = 400
    """Size of a KLL sketch: at 400 the rank error is about 1 % with 99 % confidence."""
    candidates: int = 5
    """Brokers kept per client as candidates of its placement."""
    settle_s: float = 2.0
    """A delivery is due only if the subscription stood this long before and after."""
    flush_s: float = 10.0
    """A running broker's records are on disk after this long, table by table: until then a
    delivery that is missing is not lost."""
    late_tolerance_s: float = 60.0
    """Instants this long before the run's start, or after now, are out of the question."""

    def __post_init__(self) -> None:
        positive = ("slot_s", "trace_length", "neighborhood_hops", "bloom_bits", "bloom_hashes",
                    "bloom_cache_publications",
                    "candidates")  # fmt: skip
        for name in positive:
            if not getattr(self, name) > 0:
                raise ProfileSettingsError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("rate_alpha", "running_average_alpha"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ProfileSettingsError(f"{name} must be above 0 and at most 1")
        for name in ("settle_s", "delay_weight", "flush_s", "late_tolerance_s"):
            if getattr(self, name) < 0:
                raise ProfileSettingsError(
                    f"{name} must not be negative, got {getattr(self, name)}"
                )
        if not 4 <= self.theta_log2_entries <= 26:
            raise ProfileSettingsError("theta_log2_entries must be between 4 and 26")
        if not 8 <= self.kll_k <= 65535:
            raise ProfileSettingsError("kll_k must be between 8 and 65535")

    def as_dict(self) -> dict[str, float | int | str | None]:
        return dict(asdict(self))


@dataclass(frozen=True)
class ProfileWindow:
    """From the first to the last instant of the telemetry."""

    started_at: float
    ended_at: float
    slot_s: float

    @property
    def duration_s(self) -> float:
        """How long the window is; of a window without length, one slot."""
        return (self.ended_at - self.started_at) or self.slot_s

    @property
    def last_slot(self) -> int:
        return math.floor((self.ended_at - self.started_at) / self.slot_s)

    @property
    def complete_slots(self) -> int:
        """How many slots ended within the window. The one that holds its end never did."""
        return self.last_slot

    def length_s(self, slot: int) -> float:
        """How much of a slot lies in the window; of a slot without length, all."""
        rest = self.ended_at - self.started_at - slot * self.slot_s
        return min(self.slot_s, rest) if rest > 0 else self.slot_s

    def slot(self, instant: Column) -> Column:
        return F.floor((instant - F.expr(moving(self.started_at))) / self.slot_s)

    def slot_started_at(self, slot: str = "slot") -> Column:
        return F.expr(f"{moving(self.started_at)} + {slot} * {self.slot_s}D")

    def slot_length_s(self, slot: str = "slot") -> Column:
        incomplete = f"{slot} >= {moving(self.last_slot)}"
        length_s = moving(self.length_s(self.last_slot))
        return F.expr(f"if({incomplete}, {length_s}, {self.slot_s}D)")


# Numbers that are others with every profile, in queries that stay the same.
#
# Spark writes numbers into the code that it generates for a query, so a query with another number
# is generated, compiled and translated anew: a tenth of a refresh. Texts it hands over beside the
# code. In a session for little data, which does not fold constants, a number given as text leaves
# the code as it was; in others it is folded and makes no difference.


def moving(value: float) -> str:
    """A number that changes from profile to profile, as an expression.

    >>> moving(12.5), moving(7)
    ("double('12.5')", "bigint('7')")
    """
    return f"{'bigint' if isinstance(value, int) else 'double'}('{value!r}')"

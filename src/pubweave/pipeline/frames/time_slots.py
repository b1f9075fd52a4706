"""The profile's window of time, cut into slots of one length; the last may be incomplete."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F


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

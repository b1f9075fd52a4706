"""Columns that several tables of a profile share, and short ways to write the others."""

from __future__ import annotations

from pubweave.model.profile import ProfileColumn, ProfileKind


def text(name: str, meaning: str, *, key: bool = False, nullable: bool = False) -> ProfileColumn:
    return ProfileColumn(name, ProfileKind.TEXT, "", meaning, nullable, key)


def count(
    name: str, unit: str, meaning: str, *, key: bool = False, nullable: bool = False
) -> ProfileColumn:
    return ProfileColumn(name, ProfileKind.INTEGER, unit, meaning, nullable, key)


def number(name: str, unit: str, meaning: str, *, nullable: bool = False) -> ProfileColumn:
    return ProfileColumn(name, ProfileKind.FLOAT, unit, meaning, nullable)


def flag(name: str, meaning: str, *, key: bool = False) -> ProfileColumn:
    return ProfileColumn(name, ProfileKind.BOOLEAN, "", meaning, False, key)


def quantiles(name: str, what: str, *, nullable: bool = False) -> tuple[ProfileColumn, ...]:
    """Median, 95th and 99th percentile of a duration, by KLL sketch."""
    return tuple(
        number(
            f"{name}_ms_p{percent}", "ms", f"{percent}th percentile of {what}", nullable=nullable
        )
        for percent in (50, 95, 99)
    )


TOPIC = text("topic", "the topic (PADRES: class)", key=True)
BROKER = text("broker", "the broker", key=True)
NEIGHBOR = text("neighbor", "the broker at the far end of the link", key=True)
BROKER_A = text("broker_a", "the broker whose id sorts first", key=True)
BROKER_B = text("broker_b", "the other broker", key=True)
PUBLISHER = text("publisher", "the publisher", key=True)
CLIENT = text("client", "the client", key=True)
SLOT = count("slot", "", "number of the time slot since the window's start", key=True)
SLOT_STARTED_AT = number("slot_started_at", "s", "when the slot began, by the run's clock")
TREE = count("tree", "", "names a delivery tree within this profile", key=True)
PUBLICATIONS = count("publications", "publications", "recorded publications")
RATE = number("rate_per_s", "1/s", "publications per second, weighted by the sampling")
FILTERED_RATE = number(
    "filtered_rate_per_s", "1/s", "the estimate for the next slot (DYNATOPS Eq. 8)"
)

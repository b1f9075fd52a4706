"""The workload profile: which tables it has, what their columns mean, and its ``profile.json``.

What is written here is what the pipeline writes and what design, control and reports read. Nothing
here knows of files, Arrow or Spark; reading a profile from a directory is in `files/profile`.

A profile is a measured summary over a stated window. Counts are of recorded publications: where
the overlay sampled, multiply by the inverse of the sample ratio, or take a column that says it is
weighted.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

import msgspec

PROFILE_VERSION = 1
"""Grows with every change that a reader of older profiles would have to know of."""

PROFILE_FILE = "profile.json"


class ProfileKind(enum.Enum):
    """How the values of a column are stored."""

    FLOAT = "float64"
    INTEGER = "int64"
    TEXT = "text"
    BOOLEAN = "boolean"
    WORDS = "list<int64>"
    """A bit vector, 64 bits to a word, the lowest bit first."""


@dataclass(frozen=True)
class ProfileColumn:
    """One column; ``key`` columns together name a row."""

    name: str
    kind: ProfileKind
    unit: str
    meaning: str
    nullable: bool = False
    key: bool = False


@dataclass(frozen=True)
class ProfileTable:
    """One table of a profile."""

    name: str
    meaning: str
    columns: tuple[ProfileColumn, ...]

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns that name a row; empty for a table of one row."""
        return tuple(column.name for column in self.columns if column.key)


class TableSummary(msgspec.Struct, frozen=True):
    """Where a table of a profile is, below its directory, and how many rows it has."""

    path: str
    rows: int


class SourceSummary(msgspec.Struct, frozen=True):
    """What was read of one telemetry table."""

    files: int
    records: int
    duplicates: int
    quarantined: int
    missing: int
    """Record numbers that were never seen between the first and the last: telemetry dropped."""


class RefreshSummary(msgspec.Struct, frozen=True):
    """How a followed profile was brought up to date."""

    waited_s: float
    """From the writing of the batch's first file to this profile: how old its news may be."""
    open_records: int
    """Read for this profile: of publications that may go on, and since the last balance."""
    closed_records: int
    """In the sums of the balance, and not read again."""
    rebuilt: str | None = None
    """Why the balance was put aside and everything counted anew; null as a rule."""


class ProfileDescription(msgspec.Struct, frozen=True):
    """The content of ``profile.json``."""

    source: str
    run: str
    clock: str
    window_started_at: float
    window_ended_at: float
    settings: dict[str, float | int | str | None]
    sources: dict[str, SourceSummary]
    quarantine: dict[str, int]
    """How many records each reason kept out."""
    tables: dict[str, TableSummary]
    spark_version: str
    master: str
    stage_seconds: dict[str, float]
    unreadable_files: int = 0
    batch: int | None = None
    """The last micro-batch inside, where the profile follows its source."""
    refresh: RefreshSummary | None = None
    """What that batch cost, where the profile follows its source."""
    profile_version: int = PROFILE_VERSION

    @property
    def window_s(self) -> float:
        return self.window_ended_at - self.window_started_at


class ProfileError(ValueError):
    """A profile that cannot be used, with the reason and the remedy."""

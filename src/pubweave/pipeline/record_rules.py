"""Which telemetry records are sound: one reason per record, null for a good one.

The rules follow from the schema (a column's kind, unit and whether it may be null) plus what one
record can say against itself. They are Spark expressions; nothing is read or written here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from pubweave.model.telemetry import (
    TABLES,
    ClientChange,
    Kind,
    LinkChange,
    Table,
    TableChange,
)
from pubweave.model.telemetry import Column as TelemetryColumn

MISSING = "missing value"
NOT_FINITE = "not a finite number"
NEGATIVE = "negative"
OUT_OF_RANGE = "out of range"
UNKNOWN_CHANGE = "unknown change"
LATE = "late: before the run began"
FUTURE = "from the future"
CONTRADICTORY = "contradictory: a broker is its own neighbor"
CONTRADICTORY_COPY = "contradictory: another record has the same number"
NEVER_ADDED = "contradictory: removed and never added"
UNREADABLE = "unreadable file"
WRONG_SCHEMA = "file of another schema"

_CHANGES: dict[str, type[TableChange] | type[ClientChange] | type[LinkChange]] = {
    "subscription_changes": TableChange,
    "advertisement_changes": TableChange,
    "client_changes": ClientChange,
    "link_changes": LinkChange,
}
_NEIGHBORS = {"hops": ("from_broker", "to_broker")}
_MAY_BE_NEGATIVE = frozenset({"latency_ms"})
"""Clocks of two machines may differ."""
_NAMES = frozenset({"broker", "to_broker", "from_broker", "neighbor", "publisher", "client"})


@dataclass(frozen=True)
class Bounds:
    """Instants that a record of this run can have."""

    earliest_at: float
    latest_at: float = math.inf


def fault(table: str, bounds: Bounds) -> Column:
    """Why a record of the table cannot be used, as a text column; null if it can."""
    described = TABLES[table]
    checks: list[tuple[Column, str]] = []
    for column in described.columns:
        checks += _column_checks(column)
    checks += _table_checks(described)
    instant = F.col(described.columns[0].name)
    checks.append((instant < bounds.earliest_at, LATE))
    if math.isfinite(bounds.latest_at):
        checks.append((instant > bounds.latest_at, FUTURE))
    return F.coalesce(*(F.when(wrong, F.lit(reason)) for wrong, reason in checks))


def _column_checks(column: TelemetryColumn) -> list[tuple[Column, str]]:
    value = F.col(column.name)
    checks: list[tuple[Column, str]] = []
    if not column.nullable:
        checks.append((value.isNull(), f"{MISSING}: {column.name}"))
    if column.kind is Kind.FLOAT:
        unbounded = F.isnan(value) | (F.abs(value) == float("inf"))
        checks.append((unbounded, f"{NOT_FINITE}: {column.name}"))
    is_instant = column.name.endswith("_at")
    is_number = column.kind in (Kind.FLOAT, Kind.INTEGER)
    if is_number and not is_instant and column.name not in _MAY_BE_NEGATIVE:
        checks.append((value < 0, f"{NEGATIVE}: {column.name}"))
    if column.name in _NAMES:
        checks.append((value == "", f"{MISSING}: {column.name}"))
    return checks


def _table_checks(table: Table) -> list[tuple[Column, str]]:
    checks: list[tuple[Column, str]] = []
    names = table.column_names
    if "sample_ratio" in names:
        ratio = F.col("sample_ratio")
        too_low = ratio <= 0 if table.name == "publications" else ratio < 0
        checks.append((too_low | (ratio > 1), f"{OUT_OF_RANGE}: sample_ratio"))
    if table.name in _CHANGES:
        known = [change.value for change in _CHANGES[table.name]]
        checks.append((~F.col("change").isin(known), UNKNOWN_CHANGE))
    if "neighbor" in names:
        checks.append((F.col("neighbor") == F.col("broker"), CONTRADICTORY))
    if table.name in _NEIGHBORS:
        one, other = _NEIGHBORS[table.name]
        checks.append((F.col(one) == F.col(other), CONTRADICTORY))
    return checks

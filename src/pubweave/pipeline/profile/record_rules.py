"""Which telemetry records are sound: one reason per record, null for a good one.

The rules follow from the schema (a column's kind, unit and whether it may be null) plus what one
record can say against itself. They are Spark expressions; nothing is read or written here.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from pubweave.model.telemetry import (
    TABLES,
    ClientChange,
    ColumnKind,
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
class TimeBounds:
    """Instants that a record of this run can have."""

    earliest_at: float
    latest_at: float = math.inf


def fault(table: str, bounds: TimeBounds) -> Column:
    """Why a record of the table cannot be used, as a text column; null if it can."""
    # One text for Spark's parser: a hundred columns made one by one take longer than the query.
    return F.expr(fault_text(table, bounds))


def fault_text(table: str, bounds: TimeBounds) -> str:
    """The same as an expression of standard SQL."""
    described = TABLES[table]
    checks: list[tuple[str, str]] = []
    for column in described.columns:
        checks += _column_checks(column)
    checks += _table_checks(described)
    instant = described.columns[0].name
    checks.append((f"{instant} < CAST('{bounds.earliest_at!r}' AS DOUBLE)", LATE))
    if math.isfinite(bounds.latest_at):
        checks.append((f"{instant} > CAST('{bounds.latest_at!r}' AS DOUBLE)", FUTURE))
    cases = " ".join(f"WHEN {wrong} THEN '{reason}'" for wrong, reason in checks)
    return f"CASE {cases} END"


def _column_checks(column: TelemetryColumn) -> list[tuple[str, str]]:
    name = column.name
    checks: list[tuple[str, str]] = []
    if not column.nullable:
        checks.append((f"{name} IS NULL", f"{MISSING}: {name}"))
    if column.kind is ColumnKind.FLOAT:
        unbounded = f"isnan({name}) OR abs({name}) > {sys.float_info.max!r}"
        checks.append((unbounded, f"{NOT_FINITE}: {name}"))
    is_instant = name.endswith("_at")
    is_number = column.kind in (ColumnKind.FLOAT, ColumnKind.INTEGER)
    if is_number and not is_instant and name not in _MAY_BE_NEGATIVE:
        checks.append((f"{name} < 0", f"{NEGATIVE}: {name}"))
    if name in _NAMES:
        checks.append((f"{name} = ''", f"{MISSING}: {name}"))
    return checks


def _table_checks(table: Table) -> list[tuple[str, str]]:
    checks: list[tuple[str, str]] = []
    names = table.column_names
    if "sample_ratio" in names:
        too_low = "<= 0" if table.name == "publications" else "< 0"
        out_of_range = f"sample_ratio {too_low} OR sample_ratio > 1"
        checks.append((out_of_range, f"{OUT_OF_RANGE}: sample_ratio"))
    if table.name in _CHANGES:
        known = ", ".join(f"'{change.value}'" for change in _CHANGES[table.name])
        checks.append((f"change NOT IN ({known})", UNKNOWN_CHANGE))
    if "neighbor" in names:
        checks.append(("neighbor = broker", CONTRADICTORY))
    if table.name in _NEIGHBORS:
        one, other = _NEIGHBORS[table.name]
        checks.append((f"{one} = {other}", CONTRADICTORY))
    return checks

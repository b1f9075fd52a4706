"""The record rules are standard SQL: here DuckDB applies them, which takes no JVM."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pytest

from pubweave.model.telemetry import TABLES
from pubweave.pipeline.profiling import screening as rules
from pubweave.telemetry.parquet import record_batch
from tests.naive.telemetry_world import make_world

WORLD = make_world(11)
BOUNDS = rules.TimeBounds(earliest_at=-60.0, latest_at=100.0)


def reasons(table: str, records: list[tuple[Any, ...]]) -> list[str | None]:
    rows = record_batch(table, records)
    connection = duckdb.connect()
    connection.register("records", rows)
    told = connection.execute(f"SELECT {rules.fault_text(table, BOUNDS)} FROM records").fetchall()
    return [reason for (reason,) in told]


@pytest.mark.parametrize("table", [name for name in TABLES if WORLD.records[name]])
def test_what_brokers_write_is_sound(table: str) -> None:
    assert set(reasons(table, WORLD.records[table])) == {None}


@pytest.mark.parametrize(
    ("table", "values", "reason"),
    [
        ("deliveries", {"delivered_at": math.nan}, f"{rules.NOT_FINITE}: delivered_at"),
        ("deliveries", {"delivered_at": math.inf}, f"{rules.NOT_FINITE}: delivered_at"),
        ("deliveries", {"delivered_at": -60.5}, rules.LATE),
        ("deliveries", {"delivered_at": 100.5}, rules.FUTURE),
        ("deliveries", {"delivered_at": 99.5}, None),
        ("deliveries", {"client": ""}, f"{rules.MISSING}: client"),
        ("deliveries", {"latency_ms": -3.0}, None),
        ("publications", {"sample_ratio": 0.0}, f"{rules.OUT_OF_RANGE}: sample_ratio"),
        ("publications", {"sample_ratio": 1.5}, f"{rules.OUT_OF_RANGE}: sample_ratio"),
        ("broker_loads", {"sample_ratio": 0.0}, None),
        ("publications", {"size_bytes": -1}, f"{rules.NEGATIVE}: size_bytes"),
        ("publications", {"matching_ms": None}, None),
        ("hops", {"from_broker": "b1", "to_broker": "b1"}, rules.CONTRADICTORY),
        ("link_rtts", {"broker": "b2", "neighbor": "b2"}, rules.CONTRADICTORY),
        ("link_changes", {"change": "exploded"}, rules.UNKNOWN_CHANGE),
    ],
)
def test_a_broken_record_gets_its_reason(
    table: str, values: dict[str, Any], reason: str | None
) -> None:
    names = TABLES[table].column_names
    row = dict(zip(names, WORLD.records[table][0], strict=True)) | values
    assert reasons(table, [tuple(row.values())]) == [reason]

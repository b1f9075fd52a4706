"""The same profile by DuckDB, the rival: one SQL statement per table, written as Parquet.

The statements are written for DuckDB, not translated: lists and structs where it is good at them,
recursive queries for paths, an ASOF join for the versions of subscriptions. All 31 tables are made
with the columns of the model; only the theta sketches are left out (DuckDB has none), and Spark's
time includes them. Intermediate tables stay in DuckDB's own file, as Spark's stay in its scratch.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bench.pipeline_duckdb_audit import AUDIT_STATEMENTS
from bench.pipeline_duckdb_sql import RECORD_STATEMENTS
from bench.pipeline_duckdb_trees import TREE_STATEMENTS
from pubweave.model.profile import PROFILE_TABLES
from pubweave.model.telemetry import TABLES, ColumnKind

STATEMENTS = RECORD_STATEMENTS | TREE_STATEMENTS | AUDIT_STATEMENTS
_TYPES = {
    ColumnKind.FLOAT: "DOUBLE",
    ColumnKind.INTEGER: "BIGINT",
    ColumnKind.TEXT: "VARCHAR",
    ColumnKind.ATTRIBUTES: 'MAP(VARCHAR, STRUCT("text" VARCHAR, number DOUBLE, boolean BOOLEAN))',
}


def run_duckdb(source: Path, output: Path, threads: int, memory: str) -> dict[str, float]:
    """Write every table of the profile below ``output``; the seconds each took."""
    import duckdb

    output.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect(str(output / "work.duckdb"))
    connection.execute(f"SET threads = {threads}; SET memory_limit = '{memory}'")
    connection.execute(f"SET temp_directory = '{output / 'spill'}'")
    _open_telemetry(connection, source)
    seconds = {}
    for name, statement in STATEMENTS.items():
        started = time.monotonic()
        connection.execute(f"CREATE TABLE {name} AS {statement}")
        if name in PROFILE_TABLES:
            connection.execute(f"COPY {name} TO '{output / name}.parquet' (COMPRESSION zstd)")
        seconds[name] = time.monotonic() - started
    connection.close()
    return seconds


def _open_telemetry(connection: Any, source: Path) -> None:
    """Views of the files; a table that nobody wrote is empty."""
    for table in TABLES.values():
        if any((source / table.name).glob("*.parquet")):
            content = f"SELECT * FROM read_parquet('{source / table.name}/*.parquet')"
        else:
            columns = ", ".join(f"NULL::{_TYPES[c.kind]} AS {c.name}" for c in table.columns)
            content = f"SELECT {columns} WHERE false"
        connection.execute(f"CREATE VIEW t_{table.name} AS {content}")

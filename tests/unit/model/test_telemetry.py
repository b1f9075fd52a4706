"""The schema as data: consistent with itself, with its document, and free of Arrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pubweave.core.metering.metering import LoadCounters, Metering
from pubweave.model.publications import make_publication
from pubweave.model.records.status import CounterStatus
from pubweave.model.telemetry import (
    RECORDED_TABLES,
    TABLES,
    ColumnKind,
    Table,
    with_driver_figures,
    with_matching_ms,
)

DOCUMENT = Path(__file__).parents[3] / "docs" / "telemetry.md"
BEGIN = "<!-- tables: written by `python -m tests.unit.model.test_telemetry` -->\n"
END = "<!-- end of tables -->\n"


def rendered_tables() -> str:
    """The part of docs/telemetry.md that follows from the schema."""
    lines: list[str] = []
    for table in RECORDED_TABLES.values():
        lines += [
            f"### {table.name}",
            "",
            table.meaning,
            "",
            "| column | type | unit | meaning |",
            "| --- | --- | --- | --- |",
        ]
        for column in table.columns:
            null = ", may be null" if column.nullable else ""
            lines.append(
                f"| `{column.name}` | {column.kind.value}{null} | {column.unit} "
                f"| {column.meaning} |"
            )
        lines.append("")
    return "\n".join(lines)


def with_tables(document: str) -> str:
    before, rest = document.split(BEGIN)
    return before + BEGIN + "\n" + rendered_tables() + "\n" + END + rest.split(END)[1]


def test_the_document_says_what_the_schema_says() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == with_tables(document), "run: python -m tests.unit.model.test_telemetry"


@pytest.mark.parametrize("table", RECORDED_TABLES.values(), ids=list(RECORDED_TABLES))
def test_every_table_begins_with_an_instant_and_names_its_records(table: Table) -> None:
    assert RECORDED_TABLES[table.name] is table
    assert len(set(table.column_names)) == len(table.columns)
    assert table.columns[0].name.endswith("_at")
    assert set(table.record_id) <= set(table.column_names)


@pytest.mark.parametrize("table", RECORDED_TABLES.values(), ids=list(RECORDED_TABLES))
def test_units_follow_the_names(table: Table) -> None:
    for column in table.columns:
        for ending, unit in (("_at", "s"), ("_s", "s"), ("_ms", "ms"), ("_bytes", "bytes")):
            if column.name.endswith(ending):
                assert column.unit == unit, column.name
        if column.unit in ("s", "ms"):
            assert column.kind is ColumnKind.FLOAT
        assert column.meaning


def test_matching_time_fills_only_what_the_core_left_open() -> None:
    metering = Metering("b2", epoch=1)
    publication = make_publication("p", 1, "T", {}, b"", 1.0)
    metering.publication_accepted(publication, 2.0)
    metering.hop(publication, "b1", 2.0, 2.5)
    for name, rows in metering.pop().items():
        filled = with_matching_ms(rows, 0.75)
        assert [row[TABLES[name].index("matching_ms")] for row in filled] == [0.75]
        assert [row[:-1] for row in filled] == [row[:-1] for row in rows]
        assert with_matching_ms(filled, 9.0) == filled


def test_driver_figures_reach_their_columns_and_no_other() -> None:
    metering = Metering("b1", epoch=1)
    metering.load_sampled(1.0, LoadCounters(1.0, CounterStatus(), *range(6)))
    metering.dropped_records = 4
    metering.load_sampled(2.0, LoadCounters(1.0, CounterStatus(), *range(6)))
    rows = metering.pop()["broker_loads"]
    filled = with_driver_figures(rows, cpu_s=0.25, writer_dropped_records=10)
    table = TABLES["broker_loads"]
    cpu_s, dropped = table.index("cpu_s"), table.index("dropped_records")
    assert [(row[cpu_s], row[dropped]) for row in filled] == [(0.25, 10), (0.25, 14)]
    for row, before in zip(filled, rows, strict=True):
        changed = {i for i, (a, b) in enumerate(zip(row, before, strict=True)) if a != b}
        assert changed <= {cpu_s, dropped}


def test_a_broker_without_telemetry_does_not_load_arrow() -> None:
    program = (
        "import sys\n"
        "import pubweave.core.metering.metering, pubweave.model.telemetry\n"
        "import pubweave.runtime.broker.telemetry_writer, pubweave.telemetry.run_description\n"
        "sys.exit('pyarrow' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")

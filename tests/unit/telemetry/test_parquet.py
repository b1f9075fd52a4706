"""Telemetry through Parquet and back: every table, every type, and nothing half-written."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pubweave.model.telemetry import TABLES, Column, ColumnKind, Record
from pubweave.telemetry import parquet
from pubweave.telemetry.parquet import (
    RecordError,
    arrow_schema,
    file_name,
    plain_attributes,
    read_table,
    record_batch,
    telemetry_files,
    write_records,
)
from pubweave.telemetry.run_description import TelemetryError


def cell(column: Column, number: int) -> object:
    """A value that differs from row to row and column to column; null where that is allowed."""
    if column.nullable and number % 2:
        return None
    match column.kind:
        case ColumnKind.FLOAT:
            return 1_700_000_000.125 + number + len(column.name)
        case ColumnKind.INTEGER:
            return 2**62 + number
        case ColumnKind.TEXT:
            return f"{column.name} ’ü\n{number}"
        case ColumnKind.ATTRIBUTES:
            return {"text": "5", "number": 5.5, "true": True, "false": False, "": ""}


def rows_of(table: str, count: int = 3) -> list[Record]:
    return [tuple(cell(column, n) for column in TABLES[table].columns) for n in range(count)]


def back(table: str, content: pa.Table) -> list[Record]:
    """Rows of a read table as the tuples that were written."""
    rows: list[Record] = []
    for row in content.to_pylist():
        if "attributes" in row:
            row["attributes"] = plain_attributes(row["attributes"])
        rows.append(tuple(row[name] for name in TABLES[table].column_names))
    return rows


def publication_with(attributes: dict[str, Any]) -> Record:
    row = list(rows_of("publications", 1)[0])
    row[TABLES["publications"].index("attributes")] = attributes
    return tuple(row)


@pytest.mark.parametrize("table", TABLES)
def test_records_come_back_as_they_went(table: str, tmp_path: Path) -> None:
    path = write_records(tmp_path, "b1", 4, table, rows_of(table), "u")
    assert path == tmp_path / table / "b1-000004-u.parquet"
    content = read_table(tmp_path, table)
    assert content.schema.equals(arrow_schema(table), check_metadata=True)
    assert back(table, content) == rows_of(table)


def test_the_type_of_an_attribute_survives(tmp_path: Path) -> None:
    attributes = {"a": "true", "b": True, "c": 1, "d": 1.0, "e": False, "f": "", "g": 2**53}
    rows = [publication_with(attributes), publication_with({}), publication_with({"a": 1})]
    write_records(tmp_path, "b1", 1, "publications", rows, "u")
    stored = read_table(tmp_path, "publications").column("attributes").to_pylist()
    found = [plain_attributes(cell) for cell in stored]
    assert found == [attributes, {}, {"a": 1}]
    types = {name: type(value) for name, value in found[0].items()}
    assert types == {"a": str, "b": bool, "c": float, "d": float, "e": bool, "f": str, "g": float}


def test_rows_whose_attributes_are_all_text_have_the_same_schema(tmp_path: Path) -> None:
    write_records(tmp_path, "b1", 1, "publications", [publication_with({"a": "x"})], "u")
    write_records(tmp_path, "b1", 2, "publications", [publication_with({})], "u")
    schemas = [pq.read_schema(p) for p in telemetry_files(tmp_path, "publications")]
    assert schemas == [arrow_schema("publications")] * 2


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("hops", rows_of("hops")[0][:-1]),
        ("hops", (*rows_of("hops")[0], 1)),
        ("link_rtts", (1.0, "b1", 1, 1, "b2", "slow")),
        ("link_rtts", (1.0, "b1", 1, 1, "b2", None)),
        ("link_rtts", (1.0, "b1", 2**70, 1, "b2", 1.0)),
        ("link_rtts", (1.0, 5, 1, 1, "b2", 1.0)),
        ("publications", publication_with({"a": None})),
        ("publications", publication_with({"a": 10**400})),
        ("publications", publication_with({"a": [1]})),
        ("publications", publication_with({"a": "\ud800"})),
    ],
)
def test_a_record_that_does_not_fit_is_refused_by_name(table: str, row: Record) -> None:
    with pytest.raises(RecordError, match=table):
        record_batch(table, [row])


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    paths = [
        write_records(tmp_path / side, "b1", 1, "publications", rows_of("publications"), "seed7")
        for side in ("left", "right")
    ]
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("source", ["b1", "../../etc/b 1", ".hidden", "_x", "", "ü" * 500])
def test_any_source_makes_a_visible_file_in_its_folder(source: str, tmp_path: Path) -> None:
    path = write_records(tmp_path, source, 1, "hops", rows_of("hops"), "u")
    assert path.parent == tmp_path / "hops"
    assert path.name == file_name(source, 1, "u")
    assert not path.name.startswith((".", "_"))
    assert telemetry_files(tmp_path, "hops") == [path]


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    path = write_records(tmp_path, "b1", 1, "hops", rows_of("hops", 3), "u")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="b1-000001-u"):
        write_records(tmp_path, "b1", 1, "hops", rows_of("hops", 5), "u")
    assert path.read_bytes() == before


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(_content: object, where: Path, **_options: object) -> None:
        where.write_bytes(b"half a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", fill_disk)
    with pytest.raises(OSError, match="No space left"):
        write_records(tmp_path, "b1", 1, "hops", rows_of("hops"), "u")
    assert list((tmp_path / "hops").iterdir()) == []


def test_a_polling_reader_sees_only_whole_files(tmp_path: Path) -> None:
    """Every visible file can be read in full at the instant it is listed."""
    file_count, row_count = 30, 2000
    done = threading.Event()
    rows = rows_of("deliveries", row_count)

    def write_all() -> None:
        try:
            for sequence in range(file_count):
                write_records(tmp_path, "b1", sequence, "deliveries", rows, "u")
        finally:
            done.set()

    writer = threading.Thread(target=write_all)
    writer.start()
    seen: set[Path] = set()
    is_last = False
    while not is_last:
        is_last = done.is_set()  # before listing: what was written by then must be there
        for path in set(telemetry_files(tmp_path, "deliveries")) - seen:
            assert pq.ParquetFile(path).read().num_rows == row_count
            seen.add(path)
    writer.join()
    assert len(seen) == file_count


def test_hidden_and_foreign_files_are_not_read(tmp_path: Path) -> None:
    write_records(tmp_path, "b1", 1, "hops", rows_of("hops", 2), "u")
    (tmp_path / "hops" / ".b1-000002-u.parquet.tmp").write_bytes(b"half")
    (tmp_path / "hops" / "_SUCCESS.parquet").write_bytes(b"")
    assert read_table(tmp_path, "hops").num_rows == 2


def test_a_table_without_files_is_empty_with_its_columns(tmp_path: Path) -> None:
    content = read_table(tmp_path, "link_rtts")
    assert content.num_rows == 0
    assert content.schema == arrow_schema("link_rtts")


def test_unreadable_telemetry_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "hops"
    folder.mkdir()
    (folder / "b1-000001-u.parquet").write_bytes(b"not parquet")
    with pytest.raises(TelemetryError, match=r"b1-000001-u\.parquet cannot be read"):
        read_table(tmp_path, "hops")
    with pytest.raises(TelemetryError, match="no directory"):
        read_table(tmp_path / "absent", "hops")
    with pytest.raises(TelemetryError, match="'hop'"):
        read_table(tmp_path, "hop")


def test_a_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hops").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "hops" / "b1.parquet")
    with pytest.raises(TelemetryError, match=r"b1\.parquet follows no telemetry schema"):
        read_table(tmp_path, "hops")
    newer = record_batch("hops", rows_of("hops")).replace_schema_metadata(
        {parquet.VERSION_KEY: b"99"}
    )
    pq.write_table(pa.Table.from_batches([newer]), tmp_path / "hops" / "b1.parquet")
    with pytest.raises(TelemetryError, match="the 99 telemetry schema"):
        read_table(tmp_path, "hops")

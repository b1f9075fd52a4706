"""Telemetry tables as Parquet files: one schema, written atomically, read back checked.

Imports pyarrow, so brokers without telemetry must not import this module: `runtime` does so inside
its writer thread. Used by the simulator directly. No threads and no clock here.

A file is first written under a hidden name in its final directory (readers, Spark's among them,
skip names that begin with a dot), then renamed: it is there whole or not at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pubweave.model.publications import Value
from pubweave.model.telemetry import (
    RECORDED_TABLES,
    SCHEMA_VERSION,
    Column,
    ColumnKind,
    Record,
    Table,
)
from pubweave.telemetry.run_description import TelemetryError

VERSION_KEY = b"pubweave.schema_version"
MAX_SOURCE_CHARACTERS = 100

_TYPED_VALUE = pa.struct(
    [
        pa.field("text", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("boolean", pa.bool_()),
    ]
)
_ARROW_TYPES: dict[ColumnKind, Any] = {
    ColumnKind.FLOAT: pa.float64(),
    ColumnKind.INTEGER: pa.int64(),
    ColumnKind.TEXT: pa.string(),
    ColumnKind.ATTRIBUTES: pa.map_(pa.string(), _TYPED_VALUE),
}


class RecordError(ValueError):
    """A record that does not fit its table."""


def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of a table's files; the schema's version is in its metadata."""
    fields = [
        pa.field(column.name, _ARROW_TYPES[column.kind], nullable=column.nullable)
        for column in _known(table).columns
    ]
    return pa.schema(fields, metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()})


def record_batch(table: str, rows: Sequence[Record]) -> pa.RecordBatch:
    """Rows as columns; raises `RecordError` if one does not fit, whichever it is."""
    columns = _known(table).columns
    try:
        values = list(zip(*rows, strict=True)) or [()] * len(columns)
        if len(values) != len(columns):
            raise ValueError(f"{len(values)} values, not {len(columns)}")
        arrays = [_array(column, cells) for column, cells in zip(columns, values, strict=True)]
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        # Arrow's own errors for a wrong value are ValueErrors and TypeErrors, too.
        raise RecordError(f"{table}: a record does not fit its columns: {error}") from error
    return pa.record_batch(arrays, schema=arrow_schema(table))


def preload() -> None:
    """Import now what pyarrow would import with the first rows (pandas, where it is installed).

    A process that forks writers calls this first, or each of them would hold its own copy.
    """
    for table in RECORDED_TABLES:
        record_batch(table, [])
    pa.array(["a"])


def file_name(source: str, sequence: int, unique: str) -> str:
    """The name of one file; ``source`` is for people, the rows themselves name their broker."""
    readable = re.sub(r"[^A-Za-z0-9.-]", "-", source).lstrip(".")[:MAX_SOURCE_CHARACTERS]
    return f"{readable or 'unnamed'}-{sequence:06d}-{unique}.parquet"


def write_batches(
    directory: Path,
    source: str,
    sequence: int,
    table: str,
    batches: Iterable[pa.RecordBatch],
    unique: str,
) -> Path:
    """Write one file ``directory/table/source-sequence-unique.parquet`` that appears whole.

    Raises OSError where the file system refuses; nothing is left behind then. A file that is there
    already is never replaced (FileExistsError).
    """
    folder = directory / table
    path = folder / file_name(source, sequence, unique)
    temporary = folder / f".{path.name}.tmp"
    folder.mkdir(parents=True, exist_ok=True)
    if path.exists():
        raise FileExistsError(f"{path} is there already: use another directory or unique part")
    content = pa.Table.from_batches(batches, schema=arrow_schema(table))
    try:
        pq.write_table(content, temporary, compression="zstd", use_dictionary=_text_paths(table))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def write_records(
    directory: Path, source: str, sequence: int, table: str, rows: Sequence[Record], unique: str
) -> Path:
    """Write rows as one file; like `write_batches`, and raises `RecordError` for a misfit.

    The same arguments give the same bytes: a simulation passes a ``unique`` made of its seed.
    """
    return write_batches(directory, source, sequence, table, [record_batch(table, rows)], unique)


def telemetry_files(directory: Path, table: str) -> list[Path]:
    """The complete files of a table, in the order of their names."""
    _known(table)
    if not directory.is_dir():
        raise TelemetryError(f"{directory} is no directory: name one that a run wrote to")
    found = (directory / table).glob("*.parquet")
    return sorted(path for path in found if not path.name.startswith((".", "_")))


def read_table(directory: Path, table: str) -> pa.Table:
    """All records of a table, file by file; empty with the right columns if there is none."""
    schema = arrow_schema(table)
    parts = [_read_file(path, schema) for path in telemetry_files(directory, table)]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def plain_attributes(stored: Iterable[tuple[str, dict[str, Value | None]]]) -> dict[str, Value]:
    """A publication's attributes from a cell of the ``attributes`` column (numbers as float)."""
    return {
        name: next(value for value in typed.values() if value is not None) for name, typed in stored
    }


def _read_file(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        content = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise TelemetryError(f"{path} cannot be read: {error}; move it out of the way") from error
    version = (content.schema.metadata or {}).get(VERSION_KEY)
    if version != schema.metadata[VERSION_KEY] or content.schema.names != schema.names:
        found = "no" if version is None else f"the {version.decode()}"
        raise TelemetryError(
            f"{path} follows {found} telemetry schema, not version {SCHEMA_VERSION}: "
            "read it with the pubweave that wrote it"
        )
    return content.cast(schema)


def _array(column: Column, cells: Sequence[Any]) -> pa.Array:
    if column.kind is ColumnKind.ATTRIBUTES:
        return _attributes_array(cells)
    array = pa.array(cells, type=_ARROW_TYPES[column.kind])
    if array.null_count and not column.nullable:
        raise ValueError(f"column {column.name!r} must have a value in every record")
    return array


def _attributes_array(cells: Sequence[dict[str, Value]]) -> pa.Array:
    # Exactly one field of the struct is set: which one is the value's type.
    offsets = [0]
    names: list[str] = []
    texts: list[str | None] = []
    numbers: list[float | None] = []
    booleans: list[bool | None] = []
    for attributes in cells:
        for name, value in attributes.items():
            kind = type(value)
            names.append(name)
            texts.append(value if kind is str else None)  # type: ignore[arg-type]
            numbers.append(float(value) if kind is float or kind is int else None)
            booleans.append(value if kind is bool else None)  # type: ignore[arg-type]
            if kind not in (str, int, float, bool):
                raise TypeError(f"attribute {name!r} has the type {kind.__name__}")
        offsets.append(len(names))
    values = pa.StructArray.from_arrays(
        [
            pa.array(texts, pa.string()),
            pa.array(numbers, pa.float64()),
            pa.array(booleans, pa.bool_()),
        ],
        fields=list(_TYPED_VALUE),
    )
    keys = pa.array(names, pa.string())
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, values)


def _text_paths(table: str) -> list[str]:
    # Only names repeat; a dictionary of instants or counters would be tried and thrown away.
    paths = []
    for column in RECORDED_TABLES[table].columns:
        if column.kind is ColumnKind.TEXT:
            paths.append(column.name)
        elif column.kind is ColumnKind.ATTRIBUTES:
            paths += [f"{column.name}.key_value.key", f"{column.name}.key_value.value.text"]
    return paths


def _known(table: str) -> Table:
    found = RECORDED_TABLES.get(table)
    if found is None:
        known = ", ".join(RECORDED_TABLES)
        raise TelemetryError(f"no telemetry table is called {table!r}: use {known}")
    return found

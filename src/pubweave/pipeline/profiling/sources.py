"""Telemetry as frames: which files there are, whether they follow the schema, and what they hold.

A file that cannot be read or follows another schema is named and left out; the rest is read. Files
are listed once, so that all tables of a profile are computed from the same ones while a running
overlay writes more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from pubweave.model.telemetry import SCHEMA_VERSION, TABLES
from pubweave.pipeline.frames.locations import Storage, is_hidden, joined, local_path
from pubweave.pipeline.frames.schemas import empty_frame, telemetry_schema
from pubweave.pipeline.frames.session import in_one_partition
from pubweave.pipeline.frames.small_tables import gather, write_table
from pubweave.telemetry.parquet import arrow_schema
from pubweave.telemetry.run_description import RUN_FILE, RunDescription, TelemetryError

UNREADABLE = "unreadable file"
WRONG_SCHEMA = "file of another schema"

TELEMETRY_FOLDER = "telemetry"
FOOTER_READERS = 4
FEW_FILES = 2
SMALL_FILE_BYTES = 2_000_000
GATHERED_BYTES_MAX = 256_000_000
"""Beyond this, copying takes too long and too much memory; reading small files costs less."""


@dataclass(frozen=True)
class RefusedFile:
    """A file that was left out, and why."""

    table: str
    path: str
    reason: str


@dataclass(frozen=True)
class TelemetrySource:
    """A run's telemetry: where it is, what it is about, and its usable files by table."""

    location: str
    description: RunDescription
    files: Mapping[str, tuple[str, ...]]
    refused: tuple[RefusedFile, ...]


def open_source(storage: Storage, location: str) -> TelemetrySource:
    """Look at a run directory or at its telemetry; raises `TelemetryError` if it has none."""
    folder = telemetry_folder(storage, location)
    description = read_description(storage, folder)
    found = {table: list_files(storage, folder, table) for table in TABLES}
    if not any(found.values()):
        raise TelemetryError(
            f"{folder} has no telemetry yet: its run wrote a {RUN_FILE} but no complete file; wait "
            "a few seconds if it is running, or name another run"
        )
    refused = check_files(storage, found)
    bad = {file.path for file in refused}
    files = {table: tuple(p for p in paths if p not in bad) for table, paths in found.items()}
    if not any(files.values()):
        raise TelemetryError(
            f"none of the {len(bad)} files in {folder} can be used: {refused[0].path} is an "
            f"{refused[0].reason}; profile it with the pubweave that wrote it"
        )
    return TelemetrySource(folder, description, files, refused)


def telemetry_folder(storage: Storage, location: str) -> str:
    """The folder with ``run.json``: the location itself or its ``telemetry`` folder."""
    if not storage.exists(location):
        raise TelemetryError(f"{location} does not exist: name the directory of a run")
    for folder in (location, joined(location, TELEMETRY_FOLDER)):
        if storage.exists(joined(folder, RUN_FILE)):
            return folder
    raise TelemetryError(
        f"{location} has no {RUN_FILE}, neither has its {TELEMETRY_FOLDER} folder: name the "
        "directory of a run that was started with telemetry"
    )


def read_description(storage: Storage, folder: str) -> RunDescription:
    """``run.json``; raises `TelemetryError` if it is broken or of the future."""
    path = joined(folder, RUN_FILE)
    try:
        description = msgspec.json.decode(storage.read(path) or b"", type=RunDescription)
    except msgspec.DecodeError as error:
        raise TelemetryError(f"{path}: {error}; write it again or leave the run out") from None
    if description.schema_version > SCHEMA_VERSION:
        raise TelemetryError(
            f"{path}: schema_version {description.schema_version} is newer than this pubweave's "
            f"{SCHEMA_VERSION}: profile it with a newer version"
        )
    return description


def list_files(storage: Storage, folder: str, table: str) -> list[str]:
    """The complete files of a table; half-written ones have hidden names."""
    directory = joined(folder, table)
    return [
        joined(directory, name)
        for name in storage.names(directory)
        if name.endswith(".parquet") and not is_hidden(name)
    ]


def check_files(storage: Storage, found: Mapping[str, Iterable[str]]) -> tuple[RefusedFile, ...]:
    """The files that cannot be read or follow another schema, by their footers."""
    pairs = [(table, path) for table, paths in found.items() for path in paths]
    expected = {table: _column_types(arrow_schema(table)) for table in TABLES}

    def look(pair: tuple[str, str]) -> RefusedFile | None:
        table, path = pair
        columns = _read_columns(storage, path)
        if columns is None:
            return RefusedFile(table, path, UNREADABLE)
        return None if columns == expected[table] else RefusedFile(table, path, WRONG_SCHEMA)

    with ThreadPoolExecutor(FOOTER_READERS) as readers:
        return tuple(file for file in readers.map(look, pairs) if file is not None)


def read_frames(spark: SparkSession, files: Mapping[str, Iterable[str]]) -> dict[str, DataFrame]:
    """One frame per telemetry table; empty where it has no file."""
    frames = {}
    for table in TABLES:
        schema = telemetry_schema(table)
        paths = list(files.get(table, ()))
        read = spark.read.schema(schema)
        frames[table] = in_one_partition(
            read.parquet(*paths) if paths else empty_frame(spark, schema)
        )
    return frames


def gathered(
    spark: SparkSession, files: Mapping[str, Sequence[str]], scratch: str
) -> dict[str, DataFrame]:
    """One frame per telemetry table, from one file where a run wrote many small ones.

    Brokers write a file every few seconds, and every table is read for several others: opening
    thousands of files once instead of ten times is worth the copy, which needs no Spark.
    """
    chosen = dict(files)
    target = local_path(scratch)
    for table, names in files.items():
        paths = [path for path in map(local_path, names) if path is not None]
        is_local = target is not None and len(paths) == len(names)
        if target is not None and is_local and len(paths) > FEW_FILES and _are_small(paths):
            write_table(target / table, gather(table, paths))
            chosen[table] = [joined(scratch, table)]
    return read_frames(spark, chosen)


def _are_small(paths: Sequence[Path]) -> bool:
    sizes = [path.stat().st_size for path in paths]
    return sum(sizes) <= SMALL_FILE_BYTES * len(paths) and sum(sizes) <= GATHERED_BYTES_MAX


def _read_columns(storage: Storage, path: str) -> dict[str, str] | None:
    """Names and types of a file's columns; None if it has no readable footer."""
    local = local_path(path)
    try:
        if local is not None:
            return _column_types(pq.read_schema(local))
        content = storage.read(path)
        return None if content is None else _column_types(pq.read_schema(pa.BufferReader(content)))
    except (pa.ArrowException, OSError):
        return None


def _column_types(schema: Any) -> dict[str, str]:
    return {field.name: _type_name(field.type) for field in schema}


def _type_name(type_: Any) -> str:
    """A type as every reader of Parquet sees it: names and nullability inside do not matter."""
    if pa.types.is_dictionary(type_):
        return str(type_.value_type)
    if pa.types.is_map(type_):
        return f"map<{_type_name(type_.key_type)}, {_type_name(type_.item_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(f'{f.name}: {_type_name(f.type)}' for f in type_)}>"
    return str(type_)

"""Small tables by way of the driver: Arrow in place of Spark's readers and writers.

A job that writes Parquet costs a few hundred milliseconds whatever it writes: folders for its
attempts, a process for each change of permissions, the file system's settings sent to every task.
A profile of a small run has fifty frames, so there they are held in memory and written here.
Only local paths; whoever calls knows that the frames are small.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pubweave.pipeline.frames.locations import local_path
from pubweave.pipeline.frames.session import in_one_partition
from pubweave.telemetry.parquet import arrow_schema

FILE_NAME = "all.parquet"
SMALL_BYTES = 32_000_000
"""About a million records."""


def held(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """A computed table as a frame of what the driver holds."""
    return in_one_partition(spark.createDataFrame(table, schema))


def write_table(folder: Path, table: pa.Table) -> None:
    """Put a table in a folder of its own; it appears by one rename, in place of an older one."""
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f".{FILE_NAME}.{os.getpid()}"
    pq.write_table(table, scratch, compression="zstd")
    scratch.replace(folder / FILE_NAME)


def gather(table: str, paths: Sequence[Path]) -> pa.Table:
    """The records of several checked files of one telemetry table."""
    # A value may be missing where none must be: such records go to the quarantine later.
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(table)])
    parts = [pq.ParquetFile(path).read().select(schema.names).cast(schema) for path in paths]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def is_small(source: str) -> bool:
    """Whether a local source is so small that planning queries costs more than running them."""
    path = local_path(source)
    if path is None or not path.is_dir():
        return False
    return sum(file.stat().st_size for file in path.rglob("*.parquet")) <= SMALL_BYTES

"""The ledger of a followed run: the records of every micro-batch, each batch in its own folder.

Writing a batch again replaces it, so a batch that Spark repeats after a crash counts once. Now and
then the batches so far are copied into one file; what a batch wrote stays until the copy is whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from pubweave.model.telemetry import TABLES
from pubweave.pipeline.held_tables import gather, write_table
from pubweave.pipeline.locations import Storage, is_hidden, joined, local_path
from pubweave.pipeline.schemas import telemetry_schema
from pubweave.pipeline.sources import RefusedFile, read_frames

BATCH = "batch="
UPTO = "upto="
REFUSED = "refused"
MANY_BATCHES = 16


class _Batch(msgspec.Struct, frozen=True):
    """What a batch brought besides records."""

    file_counts: dict[str, int]
    refused: list[tuple[str, str, str]]


class Ledger:
    """All batches of one followed run, below a folder."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._storage = Storage(spark)
        self._location = location

    def write(
        self, batch: int, files: Mapping[str, Sequence[str]], refused: Sequence[RefusedFile]
    ) -> None:
        """Take over a batch's files; the same batch again changes nothing."""
        for table, paths in files.items():
            if paths:
                self._write(table, paths, f"{BATCH}{batch:09d}")
        about = _Batch(
            {table: len(paths) for table, paths in files.items()},
            [(file.table, file.path, file.reason) for file in refused],
        )
        path = joined(self._location, REFUSED, f"{batch:09d}.json")
        self._storage.replace(path, msgspec.json.encode(about))

    def frames(self, batch: int) -> dict[str, DataFrame]:
        """Everything up to a batch."""
        return read_frames(self._spark, {table: self._paths(table, batch) for table in TABLES})

    def file_counts(self, batch: int) -> dict[str, int]:
        counts = dict.fromkeys(TABLES, 0)
        for about in self._batches(batch):
            for table, count in about.file_counts.items():
                counts[table] += count
        return counts

    def refused(self, batch: int) -> tuple[RefusedFile, ...]:
        return tuple(RefusedFile(*file) for about in self._batches(batch) for file in about.refused)

    def gather(self, batch: int) -> None:
        """Copy a table's batches into one where they have become many."""
        for table in TABLES:
            if len(self._paths(table, batch)) <= MANY_BATCHES:
                continue
            old = self._folders(table)
            self._write(table, self._paths(table, batch), f"{UPTO}{batch:09d}")
            for name in old:
                if _number(name) <= batch:
                    self._storage.remove(joined(self._location, table, name))

    def _write(self, table: str, paths: Sequence[str], name: str) -> None:
        """Copy files of a table, or folders of files, into one file of a new folder."""
        folder = joined(self._location, table, name)
        target, sources = local_path(folder), [local_path(path) for path in paths]
        local = [path for path in sources if path is not None]
        if target is not None and len(local) == len(paths):
            write_table(target, gather(table, _files(local)))
            return
        # One task, one file: it appears by one rename, so a folder with a file is complete.
        frame = self._spark.read.schema(telemetry_schema(table)).parquet(*paths)
        frame.coalesce(1).write.mode("overwrite").parquet(folder)

    def _folders(self, table: str) -> list[str]:
        names = self._storage.names(joined(self._location, table))
        return [name for name in names if name.startswith((BATCH, UPTO))]

    def _paths(self, table: str, batch: int) -> list[str]:
        """The newest complete copy, and the batches after it."""
        copies = [
            name
            for name in self._folders(table)
            if name.startswith(UPTO) and _number(name) <= batch and self._is_complete(table, name)
        ]
        newest = max(copies, default=None)
        after = -1 if newest is None else _number(newest)
        batches = [
            name
            for name in self._folders(table)
            if name.startswith(BATCH)
            and after < _number(name) <= batch
            and self._is_complete(table, name)
        ]
        return [
            joined(self._location, table, name)
            for name in ([newest] if newest is not None else []) + batches
        ]

    def _is_complete(self, table: str, name: str) -> bool:
        inside = self._storage.names(joined(self._location, table, name))
        return any(file.endswith(".parquet") and not is_hidden(file) for file in inside)

    def _batches(self, batch: int) -> list[_Batch]:
        folder = joined(self._location, REFUSED)
        found = []
        for name in self._storage.names(folder):
            number = name.removesuffix(".json")
            content = self._storage.read(joined(folder, name)) if number.isdigit() else None
            if content is not None and int(number) <= batch:
                found.append(msgspec.json.decode(content, type=_Batch))
        return found


def _number(name: str) -> int:
    return int(name.partition("=")[2])


def _files(paths: Sequence[Path]) -> list[Path]:
    """Files as they are, folders as the complete files inside."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        found += [file for file in inside if not is_hidden(file.name)]
    return found

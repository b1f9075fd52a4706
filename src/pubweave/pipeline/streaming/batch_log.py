"""The ledger of a followed run: the records of every micro-batch, each batch in its own folder.

Writing a batch again replaces it, so a batch that Spark repeats after a crash counts once. Batches
that a balance contains are copied together, many into one folder; what a batch wrote stays until
the copy is whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from pubweave.model.telemetry import TABLES
from pubweave.pipeline.frames.locations import Storage, is_hidden, joined, local_path
from pubweave.pipeline.frames.schemas import telemetry_schema
from pubweave.pipeline.frames.small_tables import gather, write_table
from pubweave.pipeline.profiling.sources import RefusedFile, read_frames

BATCH = "batch="
SPAN = "span="
ABOUT = "about"
MANY_BATCHES = 16


class _About(msgspec.Struct, frozen=True):
    """What all batches up to one brought besides records."""

    file_counts: dict[str, int]
    refused: list[tuple[str, str, str]]


class BatchLog:
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
        before = self._about(batch - 1)
        about = _About(
            {table: before.file_counts.get(table, 0) + len(files.get(table, ()))
             for table in TABLES},
            [*before.refused, *((file.table, file.path, file.reason) for file in refused)],
        )  # fmt: skip
        path = joined(self._location, ABOUT, f"{batch:09d}.json")
        self._storage.replace(path, msgspec.json.encode(about))

    def frames(self, batch: int, after: int = -1) -> dict[str, DataFrame]:
        """Everything up to a batch; only what came after another one, if it is named."""
        return read_frames(self._spark, {t: self.paths(t, batch, after) for t in TABLES})

    def file_counts(self, batch: int) -> dict[str, int]:
        return self._about(batch).file_counts

    def refused(self, batch: int) -> tuple[RefusedFile, ...]:
        return tuple(RefusedFile(*file) for file in self._about(batch).refused)

    def paths(self, table: str, batch: int, after: int = -1) -> list[str]:
        """The complete folders of a table with what came after one batch and up to another."""
        spans = [n for n in self._folders(table, SPAN) if after < _first(n) and _last(n) <= batch]
        copied = {n for name in spans for n in range(_first(name), _last(name) + 1)}
        batches = [
            name for name in self._folders(table, BATCH)
            if after < _first(name) <= batch and _first(name) not in copied
        ]  # fmt: skip
        return [joined(self._location, table, name) for name in spans + batches]

    def gather(self, upto: int) -> None:
        """Copy a table's batches up to one into one folder, where they have become many."""
        for table in TABLES:
            single = [n for n in self._folders(table, BATCH) if _first(n) <= upto]
            if len(single) <= MANY_BATCHES:
                continue
            paths = [joined(self._location, table, name) for name in single]
            first, last = _first(single[0]), _first(single[-1])
            self._write(table, paths, f"{SPAN}{first:09d}-{last:09d}")
            for path in paths:
                self._storage.remove(path)
        self._forget_about(upto)

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

    def _folders(self, table: str, kind: str) -> list[str]:
        """The complete folders of one kind, in the order of their batches."""
        names = self._storage.names(joined(self._location, table))
        return [n for n in names if n.startswith(kind) and self._is_complete(table, n)]

    def _is_complete(self, table: str, name: str) -> bool:
        inside = self._storage.names(joined(self._location, table, name))
        return any(file.endswith(".parquet") and not is_hidden(file) for file in inside)

    def _about(self, batch: int) -> _About:
        """What is told with the last batch up to this one; nothing before the first."""
        known = [n for n in self._about_numbers() if n <= batch]
        if not known:
            return _About(dict.fromkeys(TABLES, 0), [])
        content = self._storage.read(joined(self._location, ABOUT, f"{max(known):09d}.json"))
        return msgspec.json.decode(content or b"", type=_About)

    def _about_numbers(self) -> list[int]:
        names = self._storage.names(joined(self._location, ABOUT))
        return [int(n.removesuffix(".json")) for n in names if n.removesuffix(".json").isdigit()]

    def _forget_about(self, upto: int) -> None:
        """Each one contains those before it; the last two are enough to repeat a batch."""
        for number in sorted(n for n in self._about_numbers() if n <= upto)[:-2]:
            self._storage.remove(joined(self._location, ABOUT, f"{number:09d}.json"))


def _first(name: str) -> int:
    return int(name.partition("=")[2].partition("-")[0])


def _last(name: str) -> int:
    return int(name.partition("=")[2].rpartition("-")[2])


def _files(paths: Sequence[Path]) -> list[Path]:
    """Files as they are, folders as the complete files inside."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        found += [file for file in inside if not is_hidden(file.name)]
    return found

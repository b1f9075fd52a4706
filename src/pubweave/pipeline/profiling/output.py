"""A profile's directory: tables appear under a new name, then ``profile.json`` points to them.

Whoever reads ``profile.json`` sees one complete profile, the old or the new one. A job that is
killed leaves tables nobody points to; the next job removes them. The version before the current one
is kept for readers that have just opened it.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from pubweave.model.profile import (
    PROFILE_FILE,
    PROFILE_TABLES,
    ProfileDescription,
    ProfileError,
    TableSummary,
)
from pubweave.pipeline.frames.locations import Storage, absolute, is_hidden, joined, local_path
from pubweave.pipeline.frames.small_tables import held, write_table

TABLES_PREFIX = "tables-"
SCRATCH_PREFIX = "_scratch-"
LOCK_FILE = ".lock"


class ProfileOutput:
    """One new version of the profile in a directory."""

    def __init__(
        self, spark: SparkSession, location: str, version: str, *, small: bool = False
    ) -> None:
        """``small``: frames are held in memory and written by the driver, where it is local."""
        self.location = absolute(location)
        self.is_held = small and local_path(self.location) is not None
        self._spark = spark
        self._storage = Storage(spark)
        self._tables = f"{TABLES_PREFIX}{version}"
        self._scratch = f"{SCRATCH_PREFIX}{version}"
        self._previous: ProfileDescription | None = None

    def write(self, name: str, frame: DataFrame, *, read_again: bool = True) -> DataFrame:
        """Write a table, or an intermediate frame, and give it back as it was written.

        Where nobody reads it again, it may come back as it was given.
        """
        path = self.path(name)
        if self.is_held:
            table = frame.toArrow()
            if name in PROFILE_TABLES:
                write_table(Path(path), table)
            return held(self._spark, table, frame.schema) if read_again else frame
        frame.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(frame.schema).parquet(path)

    def may_take_over(self, other: ProfileOutput) -> bool:
        """Whether frames of another version can stand in this one: those that are held can."""
        return self.is_held and other.is_held

    def take_over(self, name: str, other: ProfileOutput) -> None:
        """Have a table as another version has it; other frames are in memory."""
        if name in PROFILE_TABLES:
            shutil.copytree(other.path(name), self.path(name), dirs_exist_ok=True)

    def path(self, name: str) -> str:
        folder = self._tables if name in PROFILE_TABLES else self._scratch
        return joined(self.location, folder, name)

    def row_count(self, name: str) -> int:
        """How many rows a table has that was written."""
        path = self.path(name)
        local = local_path(path)
        if local is None:
            return self._spark.read.parquet(path).count()
        files = [file for file in local.glob("*.parquet") if not is_hidden(file.name)]
        return sum(int(pq.read_metadata(file).num_rows) for file in files)

    def summaries(self) -> dict[str, TableSummary]:
        """Where the tables are and how many rows they have."""
        return {
            name: TableSummary(f"{self._tables}/{name}", self.row_count(name))
            for name in PROFILE_TABLES
        }

    def publish(self, description: ProfileDescription) -> None:
        """Make this version the profile; `tidy` when nothing of it is needed any more."""
        self._previous = read_description(self._storage, self.location)
        text = msgspec.json.format(msgspec.json.encode(description), indent=2)
        self._storage.replace(joined(self.location, PROFILE_FILE), text + b"\n")

    def tidy(self) -> None:
        """Remove this version's intermediate frames and what is older than the one before it."""
        self._storage.remove(joined(self.location, self._scratch))
        self._remove_others(self._previous)

    def clear(self) -> None:
        """Remove what killed jobs have left."""
        self._remove_others(read_description(self._storage, self.location))

    def _remove_others(self, kept: ProfileDescription | None) -> None:
        keep = {self._tables}
        if kept is not None:
            keep |= {table.path.split("/")[0] for table in kept.tables.values()}
        for name in self._storage.names(self.location):
            if name.startswith((TABLES_PREFIX, SCRATCH_PREFIX)) and name not in keep:
                self._storage.remove(joined(self.location, name))


def version_name(now: float | None = None) -> str:
    """A name that no other version in the directory has."""
    return f"{time.time_ns() if now is None else int(now * 1e9):020d}"


def read_description(storage: Storage, location: str) -> ProfileDescription | None:
    """The profile that is in a directory; None if there is none that can be read."""
    content = storage.read(joined(location, PROFILE_FILE))
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=ProfileDescription)
    except msgspec.DecodeError:
        return None


@contextlib.contextmanager
def claimed(location: str) -> Iterator[None]:
    """Hold a local output directory: two jobs at once would remove each other's tables."""
    path = local_path(location)
    if path is None:
        yield
        return
    if path.exists() and not path.is_dir():
        raise ProfileError(f"{path} is a file: name a directory for the profile")
    path.mkdir(parents=True, exist_ok=True)
    with (path / LOCK_FILE).open("w") as lock:
        _lock(lock, location)
        yield


def _lock(lock: IO[str], location: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ProfileError(
            f"another job is writing to {location}: wait for it, stop it, or choose another -o"
        ) from None

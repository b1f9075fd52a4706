"""The balance of a followed run: sums of all publications that are over, and what is still open.

Records of closed publications are in the sums and are not read again; those of open publications
are kept as records. A balance says up to which micro-batch it is complete, so everything up to a
later batch is the balance, its open records, and the records of the batches since. It is made by
`streaming/compaction`; a folder counts once its description is there. The one before is kept, for
the batch that made the newest may have to be repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pubweave.pipeline.frames.locations import Storage, joined, local_path
from pubweave.pipeline.frames.session import in_one_partition
from pubweave.pipeline.frames.small_tables import held, write_table
from pubweave.pipeline.profiling.screening import Coverage, Screening

DESCRIPTION_FILE = "balance.json"
UPTO = "upto="
SCRATCH = "_scratch"
CLOSED = "closed"
"""The frame that says for each publisher up to which sequence number its publications are over."""
KEYED_TABLES = ("publications", "deliveries", "hops")
CHANGE_TABLES = ("subscription_changes", "advertisement_changes", "link_changes")
"""Kept as they are: the state of the overlay at any moment follows from all of them."""


def open_name(table: str) -> str:
    return f"open_{table}"


class BalanceDescription(msgspec.Struct, frozen=True):
    """The content of ``balance.json``."""

    upto: int
    closed_until: float
    """No closed publication was under way at this instant or later."""
    settings: dict[str, float | int | str | None]
    coverage: tuple[Coverage, ...]
    schemas: dict[str, Any]


@dataclass(frozen=True)
class CarriedState:
    """A balance as it was written."""

    description: BalanceDescription
    frames: Mapping[str, DataFrame]

    @property
    def screening(self) -> Screening:
        return Screening(self.description.coverage)


class BalanceFolder:
    """All balances of a followed run."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._storage = Storage(spark)
        self._location = location

    def before(
        self, batch: int, settings: Mapping[str, float | int | str | None]
    ) -> CarriedState | None:
        """The newest that is complete, of the same settings, and without this batch."""
        for upto in sorted(self._numbers(), reverse=True):
            content = self._storage.read(self._path(upto, DESCRIPTION_FILE))
            if upto >= batch or content is None:
                continue
            description = msgspec.json.decode(content, type=BalanceDescription)
            if description.settings == settings:
                return CarriedState(description, self._frames(description))
        return None

    def writer(self, upto: int, kept: Collection[str], *, small: bool) -> BalanceWriter:
        """Begin a new one; what a killed job left of it is removed."""
        self._storage.remove(self._path(upto))
        return BalanceWriter(self._spark, self._path(upto), kept, small=small)

    def publish(self, description: BalanceDescription) -> None:
        """Complete a new one, and remove those older than the one before."""
        content = msgspec.json.encode(description)
        self._storage.replace(self._path(description.upto, DESCRIPTION_FILE), content)
        self._storage.remove(self._path(description.upto, SCRATCH))
        before = [n for n in self._complete() if n < description.upto]
        kept = {description.upto, *before[-1:]}
        for upto in self._numbers():
            if upto not in kept:
                self._storage.remove(self._path(upto))

    def oldest(self) -> int:
        """Up to which batch no balance that is kept needs the records of single batches; or -1."""
        return min(self._complete(), default=-1)

    def _frames(self, description: BalanceDescription) -> dict[str, DataFrame]:
        # With its schema known Spark need not look into the files to plan.
        return {
            name: in_one_partition(
                self._spark.read.schema(StructType.fromJson(schema)).parquet(
                    self._path(description.upto, name)
                )
            )
            for name, schema in description.schemas.items()
        }

    def _numbers(self) -> list[int]:
        names = self._storage.names(self._location)
        return [int(name.removeprefix(UPTO)) for name in names if name.startswith(UPTO)]

    def _complete(self) -> list[int]:
        """Those that count, in their order."""
        exists = self._storage.exists
        return [n for n in sorted(self._numbers()) if exists(self._path(n, DESCRIPTION_FILE))]

    def _path(self, upto: int, *names: str) -> str:
        return joined(self._location, f"{UPTO}{upto:09d}", *names)


class BalanceWriter:
    """The frames of one new balance."""

    def __init__(
        self, spark: SparkSession, location: str, kept: Collection[str], *, small: bool
    ) -> None:
        self._spark = spark
        self._location = location
        self._kept = kept
        self._is_held = small and local_path(location) is not None
        self.schemas: dict[str, Any] = {}

    def write(self, name: str, frame: DataFrame) -> DataFrame:
        """Write a frame that is kept, or one that others need, and give it back as written."""
        is_kept = name in self._kept
        path = joined(self._location, name if is_kept else f"{SCRATCH}/{name}")
        if is_kept:
            self.schemas[name] = frame.schema.jsonValue()
        if self._is_held:
            table = frame.toArrow()
            if is_kept:
                write_table(Path(path), table)
            return held(self._spark, table, frame.schema)
        frame.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(frame.schema).parquet(path)

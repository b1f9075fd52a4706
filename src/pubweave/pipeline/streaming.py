"""Following a run: Structured Streaming notices new telemetry files, a profile follows each batch.

The stream is one of file names. Spark's checkpoint says which files are in which micro-batch, for
ever; the records of a batch go to the ledger under the batch's number, and the profile is computed
from the ledger by the same code as a batch job's. So every record counts exactly once: a batch that
is repeated after a crash replaces itself, and the profile names the last batch inside.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pubweave.model.profile import ProfileDescription, ProfileError
from pubweave.model.telemetry import TABLES
from pubweave.pipeline.held_tables import is_small
from pubweave.pipeline.ledger import Ledger
from pubweave.pipeline.locations import Storage, absolute, joined
from pubweave.pipeline.profile_build import TelemetryFrames, build_profile
from pubweave.pipeline.profile_output import (
    ProfileOutput,
    claimed,
    read_description,
    version_name,
)
from pubweave.pipeline.settings import ProfileSettings
from pubweave.pipeline.sources import check_files, telemetry_folder
from pubweave.pipeline.sources import read_description as read_run

FOLLOW_FOLDER = "_follow"
_FILES = "path string, modificationTime timestamp, length long, content binary"
"""What the source of whole files offers."""


class _Followed(msgspec.Struct, frozen=True):
    source: str


class Follower:
    """Keeps a profile up to date with a run's telemetry."""

    def __init__(
        self,
        spark: SparkSession,
        source: str,
        output: str,
        settings: ProfileSettings,
        *,
        every_s: float = 10.0,
        threads: int = 3,
    ) -> None:
        """Raises `TelemetryError` without a run there, `ProfileError` if another is followed."""
        storage = Storage(spark)
        self._spark = spark
        self._folder = telemetry_folder(storage, absolute(source))
        self._run = read_run(storage, self._folder)
        self._output = absolute(output)
        self._settings = settings
        self._every_s = every_s
        self._threads = threads
        self._query: StreamingQuery | None = None
        self._failure: BaseException | None = None
        self._latest: ProfileDescription | None = None
        self._claim_source(storage)

    def latest(self) -> ProfileDescription | None:
        """The last profile that was published since `running` began."""
        return self._latest

    def is_active(self) -> bool:
        """Whether the stream goes on; raises what ended it."""
        if self._failure is not None:
            raise self._failure
        query = self._query
        if query is None:
            return False
        if not query.isActive and (error := query.exception()) is not None:
            raise ProfileError(f"the stream ended: {error}")
        return query.isActive

    @contextlib.contextmanager
    def running(self) -> Iterator[Follower]:
        """Follow while the block runs; what is under way when it ends is done again next time."""
        with claimed(self._output):
            ProfileOutput(self._spark, self._output, version_name()).clear()
            self._query = self._start(processingTime=f"{self._every_s} seconds")
            try:
                yield self
            finally:
                self._query.stop()

    def catch_up(self) -> ProfileDescription | None:
        """Take in all files that are there now, then stop; the profile, if there was news."""
        with claimed(self._output):
            ProfileOutput(self._spark, self._output, version_name()).clear()
            self._query = self._start(availableNow=True)
            with contextlib.suppress(StreamingQueryException):  # told by `is_active`, in our words
                self._query.awaitTermination()
            self.is_active()
        return self._latest

    def _start(self, **trigger: str | bool) -> StreamingQuery:
        # Only the column of paths is asked for, so the source reads no file.
        names = (
            self._spark.readStream.format("binaryFile")
            .schema(_FILES)
            .option("pathGlobFilter", "*.parquet")
            .load(joined(self._folder, "*"))
            .select("path")
        )
        writer = names.writeStream.foreachBatch(self._take).option(
            "checkpointLocation", joined(self._output, FOLLOW_FOLDER, "checkpoint")
        )
        return writer.trigger(**trigger).start()  # type: ignore[arg-type]

    def _take(self, names: DataFrame, batch: int) -> None:
        try:
            self._profile(names, batch)
        except BaseException as error:
            self._failure = error
            raise

    def _profile(self, names: DataFrame, batch: int) -> None:
        spark = names.sparkSession
        storage = Storage(spark)
        found = _by_table([row["path"] for row in names.collect()])
        refused = check_files(storage, found)
        bad = {file.path for file in refused}
        records = joined(self._output, FOLLOW_FOLDER, "ledger")
        ledger = Ledger(spark, records)
        good = {table: [p for p in paths if p not in bad] for table, paths in found.items()}
        ledger.write(batch, good, refused)
        ledger.gather(batch)
        telemetry = TelemetryFrames(
            location=self._folder,
            description=self._run,
            frames=ledger.frames(batch),
            file_counts=ledger.file_counts(batch),
            refused=ledger.refused(batch),
            batch=batch,
        )
        target = ProfileOutput(spark, self._output, version_name(), small=is_small(records))
        self._latest = build_profile(
            spark, telemetry, target, self._settings, time.time(), threads=self._threads
        )

    def _claim_source(self, storage: Storage) -> None:
        path = joined(self._output, FOLLOW_FOLDER, "source.json")
        content = storage.read(path)
        if content is None:
            storage.replace(path, msgspec.json.encode(_Followed(self._folder)))
            return
        followed = msgspec.json.decode(content, type=_Followed)
        if followed.source != self._folder:
            raise ProfileError(
                f"{self._output} follows {followed.source}, not {self._folder}: choose another -o"
            )


def published_batch(storage: Storage, output: str) -> int | None:
    """The last micro-batch in a published profile."""
    found = read_description(storage, absolute(output))
    return None if found is None else found.batch


def _by_table(paths: Sequence[str]) -> dict[str, list[str]]:
    """Files by the folder they are in; files of no known table are left alone."""
    found: dict[str, list[str]] = {table: [] for table in TABLES}
    for path in sorted(paths):
        folder = path.rsplit("/", 2)[-2]
        if folder in found:
            found[folder].append(path)
    return found

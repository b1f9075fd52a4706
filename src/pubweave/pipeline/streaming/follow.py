"""Following a run: Structured Streaming notices new telemetry files, a profile follows each batch.

The stream is one of file names. Spark's checkpoint says which files are in which micro-batch, for
ever; the records of a batch go to the ledger under the batch's number, and the profile is computed
by the same code as a batch job's, from the last balance and what came since. So every record counts
exactly once: a batch that is repeated after a crash replaces itself, a balance says which batches
are in it, and the profile names the last batch inside. A refresh costs what is open, not what was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pubweave.model.profile import ProfileDescription, ProfileError
from pubweave.model.telemetry import TABLES
from pubweave.pipeline.frames.locations import Storage, absolute, joined
from pubweave.pipeline.frames.settings import ProfileSettings
from pubweave.pipeline.profiling.build import (
    BuiltProfile,
    TelemetryFrames,
    bounds_of,
    build_profile,
)
from pubweave.pipeline.profiling.carried_state import KEYED_TABLES, BalanceFolder, open_name
from pubweave.pipeline.profiling.output import ProfileOutput, claimed, version_name
from pubweave.pipeline.profiling.screening import FUTURE, Screening, screen
from pubweave.pipeline.profiling.sources import check_files, telemetry_folder
from pubweave.pipeline.profiling.sources import read_description as read_run
from pubweave.pipeline.profiling.task_graph import KnownFrames
from pubweave.pipeline.streaming.batch_log import BatchLog
from pubweave.pipeline.streaming.compaction import (
    TELEMETRY_LAG_S,
    Compaction,
    disorder,
    late_records,
)

FOLLOW_FOLDER = "_follow"
OPEN_BATCHES_MAX = 20
OPEN_RECORDS_MAX = 50_000
"""Beyond one of these, closing costs less than reading the same again with every batch."""
CLOSING_S = 2.0
"""How long each profile may hold up the next for a balance: its news waits for both."""
SMALL_RECORDS = 1_000_000
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
        threads: int = 2,
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
        self._known: KnownFrames | None = None
        self._closing: Compaction | None = None
        self._closing_s = CLOSING_S
        self._claim_source(storage)

    def latest(self) -> ProfileDescription | None:
        """The last profile that was published since `running` began."""
        return self._latest

    def is_ready(self) -> bool:
        """Whether the first look at the run is over: what comes from now on finds all compiled."""
        query = self._query
        return self._latest is not None or (query is not None and query.lastProgress is not None)

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
            self._closing_s = math.inf  # nobody waits for the next profile
            self._query = self._start(availableNow=True)
            with contextlib.suppress(StreamingQueryException):  # told by `is_active`, in our words
                self._query.awaitTermination()
            self.is_active()
        return self._latest

    def _start(self, **trigger: str | bool) -> StreamingQuery:
        self._known = self._closing = None  # their frames are of the session of another stream
        # The content is not asked for, so the source reads no file.
        names = (
            self._spark.readStream.format("binaryFile")
            .schema(_FILES)
            .option("pathGlobFilter", "*.parquet")
            .load(joined(self._folder, "*"))
            .select("path", "modificationTime")
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
        ledger = BatchLog(spark, joined(self._output, FOLLOW_FOLDER, "ledger"))
        balances = BalanceFolder(spark, joined(self._output, FOLLOW_FOLDER, "balances"))
        rows = names.collect()
        self._enter(Storage(spark), ledger, batch, [row["path"] for row in rows])
        now = time.time()
        telemetry, screened = self._telemetry(ledger, balances, batch, now)
        written_since = min((row["modificationTime"].timestamp() for row in rows), default=now)
        telemetry = dataclasses.replace(telemetry, written_since=written_since)
        small = screened.record_count <= SMALL_RECORDS
        target = ProfileOutput(spark, self._output, version_name(), small=small)
        built = build_profile(
            spark, telemetry, target, self._settings, now, screened=screened, known=self._known,
            threads=self._threads,
        )  # fmt: skip
        self._latest, self._known = built.description, built.known
        self._close(telemetry, built, ledger, balances, now, held=target.is_held)
        target.tidy()

    def _close(
        self,
        telemetry: TelemetryFrames,
        built: BuiltProfile,
        ledger: BatchLog,
        balances: BalanceFolder,
        now: float,
        *,
        held: bool,
    ) -> None:
        """Begin a balance where it is worth it, and go on with one that is under way."""
        if telemetry.rebuilt is not None:
            self._closing = None  # what contradicts the balance before it contradicts it, too
        if self._closing is None and _is_worth_closing(telemetry, built):
            self._closing = Compaction(
                balances, telemetry.batch or 0, built, bounds_of(self._run, self._settings, now),
                small=held, threads=self._threads,
            )  # fmt: skip
        if self._closing is None:
            return
        # Frames that are not held are removed with their profile; without a balance that stands,
        # every profile is counted from the first record on.
        is_urgent = not held or telemetry.rebuilt is not None
        if self._closing.go_on(math.inf if is_urgent else self._closing_s):
            self._closing = None
            ledger.gather(balances.oldest())

    def _enter(self, storage: Storage, ledger: BatchLog, batch: int, paths: list[str]) -> None:
        found = _by_table(paths)
        refused = check_files(storage, found)
        bad = {file.path for file in refused}
        good = {table: [p for p in paths if p not in bad] for table, paths in found.items()}
        ledger.write(batch, good, refused)

    def _telemetry(
        self, ledger: BatchLog, balances: BalanceFolder, batch: int, now: float
    ) -> tuple[TelemetryFrames, Screening]:
        """What is not in the last balance; everything, if that cannot be relied on."""
        everything = TelemetryFrames(
            location=self._folder,
            description=self._run,
            frames={},
            file_counts=ledger.file_counts(batch),
            refused=ledger.refused(batch),
            batch=batch,
        )
        bounds = bounds_of(self._run, self._settings, now)
        balance = balances.before(batch, self._settings.as_dict())
        reason = None
        if balance is not None:
            frames = ledger.frames(batch, after=balance.description.upto)
            for table in KEYED_TABLES:
                frames[table] = frames[table].unionByName(balance.frames[open_name(table)])
            with ThreadPoolExecutor(1) as beside:  # nothing else can begin before both are known
                late = beside.submit(late_records, balance, frames)
                screened = screen(frames, bounds)
            reason = disorder(balance, screened, late.result(), self._settings.settle_s)
            if reason is None:
                return dataclasses.replace(everything, frames=frames, balance=balance), screened
        frames = ledger.frames(batch)
        screened = screen(frames, bounds)
        return dataclasses.replace(everything, frames=frames, rebuilt=reason), screened

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


def _is_worth_closing(telemetry: TelemetryFrames, built: BuiltProfile) -> bool:
    """Whether there is enough to close, and nothing that time alone would change."""
    if FUTURE in built.description.quarantine:
        return False
    balance, batch = telemetry.balance, telemetry.batch or 0
    upto = -1 if balance is None else balance.description.upto
    closed = 0 if balance is None else balance.screening.record_count
    is_much = built.screening.record_count - closed > OPEN_RECORDS_MAX
    since = built.inputs.window.started_at if balance is None else balance.description.closed_until
    is_long = built.inputs.window.ended_at - since > 2 * TELEMETRY_LAG_S
    return batch - upto >= OPEN_BATCHES_MAX or (is_much and is_long)


def _by_table(paths: Sequence[str]) -> dict[str, list[str]]:
    """Files by the folder they are in; files of no known table are left alone."""
    found: dict[str, list[str]] = {table: [] for table in TABLES}
    for path in sorted(paths):
        folder = path.rsplit("/", 2)[-2]
        if folder in found:
            found[folder].append(path)
    return found

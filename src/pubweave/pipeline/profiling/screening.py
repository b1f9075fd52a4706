"""One look at all records before anything is computed: faulty ones, copies, and gaps.

Most telemetry is sound and comes once. So a single pass counts, and only a table that has faults
or copies pays for filtering them out. Copies are found exactly: the numbers of 64 consecutive
records are the bits of one word, and a word with fewer bits than records holds a copy.

The rules follow from the schema (a column's kind, unit and whether it may be null) plus what one
record can say against itself.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import TypeVar

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pubweave.model.profile import SourceSummary
from pubweave.model.telemetry import (
    TABLES,
    ClientChange,
    ColumnKind,
    LinkChange,
    Table,
    TableChange,
)
from pubweave.model.telemetry import Column as TelemetryColumn
from pubweave.pipeline.frames.bitsets import bit_in_word, word_of
from pubweave.pipeline.frames.schemas import as_declared, local_frame, profile_schema
from pubweave.pipeline.profiling.sources import RefusedFile

MISSING = "missing value"
NOT_FINITE = "not a finite number"
NEGATIVE = "negative"
OUT_OF_RANGE = "out of range"
UNKNOWN_CHANGE = "unknown change"
LATE = "late: before the run began"
FUTURE = "from the future"
CONTRADICTORY = "contradictory: a broker is its own neighbor"
CONTRADICTORY_COPY = "contradictory: another record has the same number"
NEVER_ADDED = "contradictory: removed and never added"

_CHANGES: dict[str, type[TableChange] | type[ClientChange] | type[LinkChange]] = {
    "subscription_changes": TableChange,
    "advertisement_changes": TableChange,
    "client_changes": ClientChange,
    "link_changes": LinkChange,
}
_NEIGHBORS = {"hops": ("from_broker", "to_broker")}
_MAY_BE_NEGATIVE = frozenset({"latency_ms"})
"""Clocks of two machines may differ."""
_NAMES = frozenset({"broker", "to_broker", "from_broker", "neighbor", "publisher", "client"})


@dataclass(frozen=True)
class TimeBounds:
    """Instants that a record of this run can have."""

    earliest_at: float
    latest_at: float = math.inf


def fault(table: str, bounds: TimeBounds) -> Column:
    """Why a record of the table cannot be used, as a text column; null if it can."""
    # One text for Spark's parser: a hundred columns made one by one take longer than the query.
    return F.expr(fault_text(table, bounds))


def fault_text(table: str, bounds: TimeBounds) -> str:
    """The same as an expression of standard SQL."""
    described = TABLES[table]
    checks: list[tuple[str, str]] = []
    for column in described.columns:
        checks += _column_checks(column)
    checks += _table_checks(described)
    instant = described.columns[0].name
    checks.append((f"{instant} < CAST('{bounds.earliest_at!r}' AS DOUBLE)", LATE))
    if math.isfinite(bounds.latest_at):
        checks.append((f"{instant} > CAST('{bounds.latest_at!r}' AS DOUBLE)", FUTURE))
    cases = " ".join(f"WHEN {wrong} THEN '{reason}'" for wrong, reason in checks)
    return f"CASE {cases} END"


def _column_checks(column: TelemetryColumn) -> list[tuple[str, str]]:
    name = column.name
    checks: list[tuple[str, str]] = []
    if not column.nullable:
        checks.append((f"{name} IS NULL", f"{MISSING}: {name}"))
    if column.kind is ColumnKind.FLOAT:
        unbounded = f"isnan({name}) OR abs({name}) > {sys.float_info.max!r}"
        checks.append((unbounded, f"{NOT_FINITE}: {name}"))
    is_instant = name.endswith("_at")
    is_number = column.kind in (ColumnKind.FLOAT, ColumnKind.INTEGER)
    if is_number and not is_instant and name not in _MAY_BE_NEGATIVE:
        checks.append((f"{name} < 0", f"{NEGATIVE}: {name}"))
    if name in _NAMES:
        checks.append((f"{name} = ''", f"{MISSING}: {name}"))
    return checks


def _table_checks(table: Table) -> list[tuple[str, str]]:
    checks: list[tuple[str, str]] = []
    names = table.column_names
    if "sample_ratio" in names:
        too_low = "<= 0" if table.name == "publications" else "< 0"
        out_of_range = f"sample_ratio {too_low} OR sample_ratio > 1"
        checks.append((out_of_range, f"{OUT_OF_RANGE}: sample_ratio"))
    if table.name in _CHANGES:
        known = ", ".join(f"'{change.value}'" for change in _CHANGES[table.name])
        checks.append((f"change NOT IN ({known})", UNKNOWN_CHANGE))
    if "neighbor" in names:
        checks.append(("neighbor = broker", CONTRADICTORY))
    if table.name in _NEIGHBORS:
        one, other = _NEIGHBORS[table.name]
        checks.append((f"{one} = {other}", CONTRADICTORY))
    return checks


Number = TypeVar("Number", int, float)
_WORD = ["table", "broker", "epoch", "word"]


@dataclass(frozen=True)
class Coverage:
    """What one broker recorded in one table and epoch."""

    table: str
    broker: str | None
    epoch: int | None
    records: int
    distinct: int
    faulty: int
    first_number: int | None
    last_number: int | None
    first_at: float | None
    last_at: float | None

    @property
    def missing(self) -> int:
        if self.first_number is None or self.last_number is None:
            return 0
        return self.last_number - self.first_number + 1 - self.distinct

    def merged(self, other: Coverage) -> Coverage:
        """Of both, if no record is in both."""
        return dataclasses.replace(
            self,
            records=self.records + other.records,
            distinct=self.distinct + other.distinct,
            faulty=self.faulty + other.faulty,
            first_number=_of_known(min, self.first_number, other.first_number),
            last_number=_of_known(max, self.last_number, other.last_number),
            first_at=_of_known(min, self.first_at, other.first_at),
            last_at=_of_known(max, self.last_at, other.last_at),
        )

    def without(self, part: Coverage | None) -> Coverage:
        """The counts without those of a part."""
        if part is None:
            return self
        return dataclasses.replace(
            self,
            records=self.records - part.records,
            distinct=self.distinct - part.distinct,
            faulty=self.faulty - part.faulty,
        )


def _of_known(
    choose: Callable[[Number, Number], Number], one: Number | None, other: Number | None
) -> Number | None:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


@dataclass(frozen=True)
class Screening:
    """What the look at all records found."""

    coverage: tuple[Coverage, ...]

    @property
    def record_count(self) -> int:
        return sum(c.records for c in self.coverage)

    def has_faults(self, table: str) -> bool:
        return any(c.faulty for c in self.coverage if c.table == table)

    def has_copies(self, table: str) -> bool:
        return any(c.records > c.distinct for c in self.coverage if c.table == table)

    def summary(self, table: str, files: int, quarantined: int) -> SourceSummary:
        of_table = [c for c in self.coverage if c.table == table]
        records = sum(c.records for c in of_table)
        return SourceSummary(
            files=files,
            records=records,
            duplicates=records - sum(c.distinct for c in of_table),
            quarantined=quarantined,
            missing=sum(c.missing for c in of_table),
        )

    def brokers(self) -> tuple[str, ...]:
        """All that recorded anything, sorted."""
        return tuple(sorted({c.broker for c in self.coverage if c.broker}))

    def first_at(self, table: str) -> float:
        """The earliest instant of a table's sound records; infinity without any."""
        of_table = (c.first_at for c in self.coverage if c.table == table)
        return min((at for at in of_table if at is not None), default=math.inf)

    def last_at(self, table: str) -> float:
        """The latest instant of a table's sound records; minus infinity without any."""
        of_table = (c.last_at for c in self.coverage if c.table == table)
        return max((at for at in of_table if at is not None), default=-math.inf)

    def spans(self) -> dict[str, list[tuple[int, float, float]]]:
        """By broker, its incarnations in order, each with its first and last instant."""
        found: dict[str, dict[int, tuple[float, float]]] = {}
        for c in self.coverage:
            if not c.broker or c.epoch is None or c.first_at is None or c.last_at is None:
                continue
            epochs = found.setdefault(c.broker, {})
            first, last = epochs.get(c.epoch, (c.first_at, c.last_at))
            epochs[c.epoch] = (min(first, c.first_at), max(last, c.last_at))
        return {
            broker: [(epoch, *span) for epoch, span in sorted(epochs.items())]
            for broker, epochs in sorted(found.items())
        }

    def window(self) -> tuple[float, float] | None:
        """The earliest and the latest instant of a sound record; None without any."""
        firsts = [c.first_at for c in self.coverage if c.first_at is not None]
        lasts = [c.last_at for c in self.coverage if c.last_at is not None]
        return (min(firsts), max(lasts)) if firsts and lasts else None

    def merged(self, other: Screening) -> Screening:
        """Of both, if no record is in both."""
        found = {(c.table, c.broker, c.epoch): c for c in self.coverage}
        for c in other.coverage:
            name = (c.table, c.broker, c.epoch)
            found[name] = c.merged(found[name]) if name in found else c
        return Screening(tuple(sorted(found.values(), key=_by_name)))

    def without(self, part: Screening) -> Screening:
        """The counts without those of a part; first and last stay those of the whole."""
        taken = {(c.table, c.broker, c.epoch): c for c in part.coverage}
        return Screening(
            tuple(c.without(taken.get((c.table, c.broker, c.epoch))) for c in self.coverage)
        )


def screen(frames: Mapping[str, DataFrame], bounds: TimeBounds) -> Screening:
    """Count records, copies and faults of all tables, in two jobs side by side.

    Nothing else can begin before it is done, and the code of a job is compiled in one thread.
    """
    # Now is another number every time, and a query with another number is compiled anew: so the
    # future is asked for only if the latest record is in it.
    found = _screened(frames, dataclasses.replace(bounds, latest_at=math.inf))
    window = found.window()
    is_past = window is None or window[1] <= bounds.latest_at
    return found if is_past else _screened(frames, bounds)


def _screened(frames: Mapping[str, DataFrame], bounds: TimeBounds) -> Screening:
    names = list(frames)
    halves = ({name: frames[name] for name in half} for half in (names[::2], names[1::2]))
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda half: _coverage(half, bounds), halves)
        return Screening(tuple(sorted(chain.from_iterable(found), key=_by_name)))


def _coverage(frames: Mapping[str, DataFrame], bounds: TimeBounds) -> list[Coverage]:
    if not frames:
        return []
    parts = [_numbered(frame, table, bounds) for table, frame in frames.items()]
    words = reduce(DataFrame.unionByName, parts).groupBy(*_WORD).agg(*_word_counts())
    rows = words.groupBy("table", "broker", "epoch").agg(
        F.sum("records").alias("records"),
        # A record without a number cannot be told from its copy.
        F.sum(F.coalesce(F.bit_count("bits"), F.col("records"))).cast("long").alias("distinct"),
        F.sum("faulty").alias("faulty"),
        F.min("first_number").alias("first_number"),
        F.max("last_number").alias("last_number"),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
    )
    return [Coverage(**row.asDict()) for row in rows.collect()]


def clean(
    frames: Mapping[str, DataFrame], screening: Screening, bounds: TimeBounds
) -> dict[str, DataFrame]:
    """Each table without faulty records and with every record once."""
    cleaned = {}
    for table, frame in frames.items():
        if screening.has_faults(table):
            frame = frame.where(fault(table, bounds).isNull())
        if screening.has_copies(table):
            frame = _each_once(frame, table)
        cleaned[table] = frame
    return cleaned


def quarantine(
    spark: SparkSession, frames: Mapping[str, DataFrame], screening: Screening, bounds: TimeBounds
) -> DataFrame:
    """Every record that `clean` left out, with its reason."""
    parts = [local_frame(spark, [], profile_schema("quarantine"))]
    for table, frame in frames.items():
        if screening.has_faults(table):
            reasons = frame.withColumn("reason", fault(table, bounds))
            parts.append(kept_out(reasons.where("reason is not null"), table))
        if screening.has_copies(table):
            sound = frame.where(fault(table, bounds).isNull())
            copies = _copies(sound, table).where("copy > 1 and content != first_content")
            parts.append(kept_out(copies.withColumn("reason", F.lit(CONTRADICTORY_COPY)), table))
    return as_declared(reduce(DataFrame.unionByName, parts), "quarantine")


def refused_files(spark: SparkSession, refused: Iterable[RefusedFile]) -> DataFrame:
    """Every file that the sources left out, as rows of the quarantine."""
    files = [(file.table, file.reason, None, None, None, file.path) for file in refused]
    return local_frame(spark, files, profile_schema("quarantine"))


def gaps(spark: SparkSession, screening: Screening) -> DataFrame:
    """The table of what each broker recorded, twice or never."""
    rows = [
        (c.table, c.broker, c.epoch, c.distinct, c.records - c.distinct, c.missing, c.first_at,
         c.last_at)
        for c in screening.coverage
        if c.broker is not None and c.epoch is not None and c.first_at is not None
    ]  # fmt: skip
    schema = profile_schema("telemetry_gaps")
    return local_frame(spark, rows, schema)


def _by_name(coverage: Coverage) -> tuple[str, str, int]:
    return coverage.table, coverage.broker or "", -1 if coverage.epoch is None else coverage.epoch


def _numbered(frame: DataFrame, table: str, bounds: TimeBounds) -> DataFrame:
    described = TABLES[table]
    return frame.select(
        F.lit(table).alias("table"),
        F.col(described.recorded_by).alias("broker"),
        "epoch",
        "record_number",
        F.col(described.columns[0].name).alias("instant"),
        fault(table, bounds).isNotNull().alias("is_faulty"),
    ).withColumn("word", word_of("record_number"))


def _word_counts() -> list[Column]:
    sound_at = F.when(~F.col("is_faulty"), F.col("instant"))
    return [
        F.count(F.lit(1)).alias("records"),
        F.bit_or(bit_in_word("record_number")).alias("bits"),
        F.count(F.when(F.col("is_faulty"), 1)).alias("faulty"),
        F.min("record_number").alias("first_number"),
        F.max("record_number").alias("last_number"),
        F.min(sound_at).alias("first_at"),
        F.max(sound_at).alias("last_at"),
    ]


def _each_once(frame: DataFrame, table: str) -> DataFrame:
    """Only words that hold a copy are sorted out; the others pass as they are."""
    described = TABLES[table]
    keys = [described.recorded_by, "epoch", "word"]
    worded = frame.withColumn("word", word_of("record_number"))
    copied = (
        worded.groupBy(*keys)
        .agg(F.count(F.lit(1)).alias("n"), F.bit_or(bit_in_word("record_number")).alias("bits"))
        .where(F.col("n") > F.bit_count("bits"))
        .select(*keys)
    )
    single = worded.join(copied, keys, "left_anti").select(*described.column_names)
    several = worded.join(copied, keys, "left_semi").select(*described.column_names)
    first = _copies(several, table).where("copy = 1").select(*described.column_names)
    return single.unionByName(first)


def _copies(frame: DataFrame, table: str) -> DataFrame:
    """Records numbered among those of the same name, in an order that no chance decides."""
    order = Window.partitionBy(*TABLES[table].record_id).orderBy("content")
    return (
        frame.withColumn("content", _content(frame))
        .withColumn("copy", F.row_number().over(order))
        .withColumn("first_content", F.first("content").over(order))
    )


def kept_out(frame: DataFrame, table: str) -> DataFrame:
    """Records with a ``reason`` as rows of the quarantine."""
    return frame.select(
        F.lit(table).alias("table"),
        "reason",
        F.col(TABLES[table].recorded_by).alias("broker"),
        "epoch",
        "record_number",
        _content(frame, TABLES[table].column_names).alias("record"),
    )


def _content(frame: DataFrame, names: Iterable[str] | None = None) -> Column:
    return F.to_json(F.struct(*(names or frame.columns)))

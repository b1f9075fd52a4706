"""From telemetry frames to a published profile: screen, clean, compute, write, publish.

The same for a batch and for every micro-batch of a stream: both hand over frames and get a profile.
A stream hands over the balance of what is closed too, and only the records that are not in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType

from pubweave.model.profile import ProfileDescription, RefreshSummary
from pubweave.model.telemetry import TABLES
from pubweave.pipeline.frames.schemas import as_declared, columns, local_frame
from pubweave.pipeline.frames.settings import ProfileSettings, ProfileWindow
from pubweave.pipeline.profiling.carried_state import CHANGE_TABLES, CarriedState
from pubweave.pipeline.profiling.output import ProfileOutput
from pubweave.pipeline.profiling.screening import (
    NEVER_ADDED,
    Screening,
    TimeBounds,
    clean,
    gaps,
    kept_out,
    quarantine,
    refused_files,
    screen,
)
from pubweave.pipeline.profiling.sources import RefusedFile
from pubweave.pipeline.profiling.tables import ProfileInputs, profile_tasks
from pubweave.pipeline.profiling.task_graph import KnownFrames, TaskRun, known_frames
from pubweave.pipeline.transforms.publications import broker_numbers
from pubweave.pipeline.transforms.subscriptions import never_added
from pubweave.telemetry.run_description import RunClock, TelemetryError

if TYPE_CHECKING:
    from pubweave.telemetry.run_description import RunDescription

OnDone = Callable[[str, int, int], None]
QUARANTINE = "quarantine"


@dataclass(frozen=True)
class TelemetryFrames:
    """What a profile is computed from."""

    location: str
    description: RunDescription
    frames: Mapping[str, DataFrame]
    file_counts: Mapping[str, int]
    refused: tuple[RefusedFile, ...] = ()
    batch: int | None = None
    balance: CarriedState | None = None
    """What is known of records that are not in the frames."""
    rebuilt: str | None = None
    """Why everything is counted anew."""
    written_since: float | None = None
    """When the first file of the batch was written."""


@dataclass(frozen=True)
class BuiltProfile:
    """A published profile, and what it was computed from."""

    description: ProfileDescription
    inputs: ProfileInputs
    screening: Screening
    """Of all records, those of the balance too."""
    frames: Mapping[str, DataFrame]
    known: KnownFrames
    """What the next profile may take over."""


def bounds_of(description: RunDescription, settings: ProfileSettings, now: float) -> TimeBounds:
    """Which instants can be; only a unix clock can be compared with ``now``."""
    earliest = description.started_at - settings.late_tolerance_s
    if description.clock is RunClock.UNIX:
        return TimeBounds(earliest, now + settings.late_tolerance_s)
    return TimeBounds(earliest)


def build_profile(
    spark: SparkSession,
    telemetry: TelemetryFrames,
    output: ProfileOutput,
    settings: ProfileSettings,
    now: float,
    *,
    screened: Screening | None = None,
    known: KnownFrames | None = None,
    threads: int = 3,
    on_done: OnDone | None = None,
) -> BuiltProfile:
    """Compute all tables into ``output`` and publish them; an earlier profile stays till then.

    ``screened`` is the screening of the frames, if it is known; ``known`` what the profile before
    it has. Whoever calls tidies the output.
    """
    bounds = bounds_of(telemetry.description, settings, now)
    started = time.monotonic()
    found = screened or screen(telemetry.frames, bounds)
    screen_s = time.monotonic() - started
    balance = telemetry.balance
    screening = found if balance is None else balance.screening.merged(found)
    inputs = profile_inputs(spark, telemetry, found, screening, bounds, settings, now)
    given = {} if known is None else known.taken_over(screening, inputs.window, output)
    tasks = profile_tasks(inputs)
    read_again = {QUARANTINE, *(need for task in tasks for need in task.needs)}

    def write(name: str, frame: DataFrame) -> DataFrame:
        return output.write(name, frame, read_again=name in read_again)

    run = TaskRun(spark, tasks, write, given=given, threads=threads, on_done=on_done)
    try:
        run.go_on()
    finally:
        spark.catalog.clearCache()
    reasons = _reasons(run.frames[QUARANTINE]) if output.row_count(QUARANTINE) else ()
    description = _described(telemetry, output, screening, inputs, reasons, run.seconds, screen_s)
    output.publish(description)
    still_known = known_frames(output, run.frames, screening, inputs.window)
    return BuiltProfile(description, inputs, screening, run.frames, still_known)


def profile_inputs(
    spark: SparkSession,
    telemetry: TelemetryFrames,
    found: Screening,
    screening: Screening,
    bounds: TimeBounds,
    settings: ProfileSettings,
    now: float,
) -> ProfileInputs:
    """Clean frames and what the screening tells about brokers, incarnations and gaps.

    ``found`` is of the frames, ``screening`` of the balance too.
    """
    span = screening.window()
    if span is None:
        raise TelemetryError(
            f"{telemetry.location} has no usable record: all were refused; look at the reasons by "
            "'pubweave profile' on a copy, or name another run"
        )
    cleaned = clean(telemetry.frames, found, bounds)
    balance = {} if telemetry.balance is None else telemetry.balance.frames
    for table in CHANGE_TABLES:
        if table in balance:
            cleaned[table] = cleaned[table].unionByName(balance[table])
    contradictions = kept_out(
        never_added(cleaned["subscription_changes"]).withColumn("reason", F.lit(NEVER_ADDED)),
        "subscription_changes",
    )
    refused = refused_files(spark, telemetry.refused)
    brokers = screening.brokers()
    return ProfileInputs(
        spark=spark,
        telemetry=cleaned,
        window=ProfileWindow(*span, settings.slot_s),
        settings=settings,
        broker_ids=brokers,
        brokers=broker_numbers(spark, brokers),
        incarnations=_incarnations(spark, screening),
        coverage=_coverage(spark, screening),
        first_published_at=screening.first_at("publications"),
        pending_after=span[1] - settings.settle_s - _unflushed_s(telemetry, settings, now, span[1]),
        may_be_fresh=found.first_at("publications")
        < screening.last_at("advertisement_changes") + settings.settle_s,
        gaps=gaps(spark, screening),
        kept_out=quarantine(spark, telemetry.frames, found, bounds),
        contradictions=refused.unionByName(as_declared(contradictions, "quarantine")),
        balance=balance,
    )


def _unflushed_s(
    telemetry: TelemetryFrames, settings: ProfileSettings, now: float, ended_at: float
) -> float:
    """How much of the window's end may still be on its way to disk."""
    if telemetry.description.clock is not RunClock.UNIX:
        return 0.0
    if telemetry.batch is not None:
        return settings.flush_s
    return max(0.0, settings.flush_s - max(0.0, now - ended_at))


def _incarnations(spark: SparkSession, screening: Screening) -> DataFrame:
    """When each broker's next incarnation began; null for its last."""
    rows = []
    for broker, spans in screening.spans().items():
        following: list[float | None] = [first_at for _, first_at, _ in spans[1:]]
        for (epoch, _, _), next_began_at in zip(spans, [*following, None], strict=True):
            rows.append((broker, epoch, next_began_at))
    schema = columns(broker=StringType(), epoch=LongType(), next_began_at=DoubleType())
    return local_frame(spark, rows, schema)


def _coverage(spark: SparkSession, screening: Screening) -> DataFrame:
    """When each broker recorded deliveries without a gap."""
    gappy = {c.broker for c in screening.coverage if c.table == "deliveries" and c.missing}
    rows = [
        (broker, first_at, last_at)
        for broker, spans in screening.spans().items()
        if broker not in gappy
        for _, first_at, last_at in spans
    ]
    schema = columns(broker=StringType(), covered_from=DoubleType(), covered_to=DoubleType())
    return local_frame(spark, rows, schema)


def _described(
    telemetry: TelemetryFrames,
    output: ProfileOutput,
    screening: Screening,
    inputs: ProfileInputs,
    reasons: Iterable[tuple[str, str, int]],
    seconds: Mapping[str, float],
    screen_s: float,
) -> ProfileDescription:
    spark = inputs.spark
    by_table: dict[str, int] = dict.fromkeys(TABLES, 0)
    quarantined: dict[str, int] = {}
    for table, reason, count in reasons:
        by_table[table] = by_table.get(table, 0) + count
        quarantined[reason] = quarantined.get(reason, 0) + count
    return ProfileDescription(
        source=telemetry.location,
        run=telemetry.description.name,
        clock=telemetry.description.clock.value,
        window_started_at=inputs.window.started_at,
        window_ended_at=inputs.window.ended_at,
        settings=inputs.settings.as_dict(),
        sources={
            table: screening.summary(table, telemetry.file_counts.get(table, 0), by_table[table])
            for table in TABLES
        },
        quarantine=dict(sorted(quarantined.items())),
        tables=output.summaries(),
        spark_version=spark.version,
        master=spark.sparkContext.master or "",
        stage_seconds={"screening": round(screen_s, 3)}
        | {name: round(spent, 3) for name, spent in seconds.items()},
        unreadable_files=len(telemetry.refused),
        batch=telemetry.batch,
        refresh=_refresh(telemetry, screening),
    )


def _refresh(telemetry: TelemetryFrames, screening: Screening) -> RefreshSummary | None:
    if telemetry.batch is None or telemetry.written_since is None:
        return None
    closed = 0 if telemetry.balance is None else telemetry.balance.screening.record_count
    return RefreshSummary(
        waited_s=round(time.time() - telemetry.written_since, 3),
        open_records=screening.record_count - closed,
        closed_records=closed,
        rebuilt=telemetry.rebuilt,
    )


def _reasons(quarantined: DataFrame) -> Iterable[tuple[str, str, int]]:
    rows = quarantined.groupBy("table", "reason").count().collect()
    return sorted((row["table"], row["reason"], row["count"]) for row in rows)

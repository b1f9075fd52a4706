"""Batch jobs: the profile of a run, and topic-connected overlays in parts (`on_spark`).

`profile` is for programs that have a Spark session and want the profile; `run_profile` gives
only its description and takes any location.

The subscriptions are in the driver's memory (25 million take about half a gigabyte); a task
gets the nodes of its part and returns links.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from pubweave.design.tco.divided import build_attached, build_divided
from pubweave.design.tco.interests import Indices, Subscriptions
from pubweave.design.tco.low_oda import Mode
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.profile import ProfileDescription
from pubweave.pipeline.frames.locations import LocationError, Storage, absolute, local_path
from pubweave.pipeline.frames.session import spark_session
from pubweave.pipeline.frames.settings import ProfileSettings
from pubweave.pipeline.frames.small_tables import is_small
from pubweave.pipeline.profiling.build import OnDone, TelemetryFrames, build_profile
from pubweave.pipeline.profiling.output import ProfileOutput, claimed, version_name
from pubweave.pipeline.profiling.sources import gathered, open_source


def profile(
    spark: SparkSession,
    source: str | Path,
    output: str | Path | None = None,
    *,
    settings: ProfileSettings | None = None,
    now: float | None = None,
) -> WorkloadProfile:
    """Profile a run into a local directory and open it; prints nothing.

    ``source`` is a directory or any URI that Spark's file systems know, ``output`` by default
    beside it: ``SOURCE-profile``. The session may be shared and is left as it is: the second
    profile in a JVM takes half the time of the first. Up to a million records, start it by
    ``spark_session(quick=True)``.

    >>> spark = pubweave.pipeline.spark_session(quick=True)         # doctest: +SKIP
    >>> profile = pubweave.pipeline.profile(spark, "runs/current")  # doctest: +SKIP
    >>> profile.rows("overlay_cost")                                # doctest: +SKIP
    """
    folder = local_path(f"{str(source).rstrip('/')}-profile" if output is None else str(output))
    if folder is None:
        raise LocationError(f"{output or source}: the profile goes to a local directory: name one")
    at = time.time() if now is None else now
    run_profile(spark, str(source), str(folder), settings or ProfileSettings(), at)
    return WorkloadProfile(folder)


def run_profile(
    spark: SparkSession,
    source: str,
    output: str,
    settings: ProfileSettings,
    now: float,
    *,
    threads: int = 3,
    on_done: OnDone | None = None,
) -> ProfileDescription:
    """Profile ``source`` into ``output``; raises `TelemetryError` or `ProfileError`."""
    found = open_source(Storage(spark), absolute(source))
    with claimed(output):
        target = ProfileOutput(spark, output, version_name(), small=is_small(source))
        target.clear()
        frames = gathered(spark, found.files, target.path("telemetry"))
        telemetry = TelemetryFrames(
            location=found.location,
            description=found.description,
            frames=frames,
            file_counts={table: len(files) for table, files in found.files.items()},
            refused=found.refused,
        )
        built = build_profile(
            spark, telemetry, target, settings, now, threads=threads, on_done=on_done
        )
        target.tidy()
        return built.description


Task = TypeVar("Task")
Result = TypeVar("Result")

LOOK_S = 0.3
PARTS_SHARE = 0.9
"""Of the work, as far as progress is told."""


def on_spark(
    spark: SparkSession, on_progress: Callable[[float], None]
) -> Callable[[Callable[[Task], Result], Sequence[Task]], list[Result]]:
    """What runs tasks as a Spark job, one partition each, and tells which share has ended."""

    def run_all(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        context = spark.sparkContext
        jobs = context.parallelize(tasks, len(tasks)).map(function)
        with ThreadPoolExecutor(1) as thread:
            collected = thread.submit(jobs.collect)
            while True:
                try:
                    return collected.result(timeout=LOOK_S)
                except StillRunning:
                    on_progress(_completed(spark) / len(tasks))
                except BaseException:
                    context.cancelAllJobs()
                    raise

    return run_all


def _completed(spark: SparkSession) -> int:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


def build_on_spark(
    wanted: Subscriptions,
    mode: Mode,
    rho: float,
    *,
    part_size: int,
    variant: str,
    master: str,
    memory: str,
    log: Path,
    tell: Callable[[float], None],
) -> Indices:
    """The links of an overlay: parts joined by representatives, or all attached to a backbone."""
    # Tasks are sent and collected as single values, as large as parts are.
    conf = {"spark.rpc.message.maxSize": "1024", "spark.driver.maxResultSize": "0"}
    session = spark_session(
        master, memory=memory, quick=True, conf=conf, log=log, name="pubweave tco build"
    )
    try:
        run_all = on_spark(session, lambda share: tell(PARTS_SHARE * share))
        if variant == "backbone":
            return build_attached(wanted, part_size, run_all, mode, rho=rho, on_progress=tell)
        return build_divided(wanted, part_size, run_all, mode, rho=rho, on_progress=tell)
    finally:
        session.stop()

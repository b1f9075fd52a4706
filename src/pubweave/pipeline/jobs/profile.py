"""The batch job: read a run's telemetry, compute its profile, publish it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pubweave.model.profile import ProfileDescription
from pubweave.pipeline.held_tables import is_small
from pubweave.pipeline.locations import Storage, absolute
from pubweave.pipeline.profile_build import OnDone, TelemetryFrames, build_profile
from pubweave.pipeline.profile_output import ProfileOutput, claimed, version_name
from pubweave.pipeline.settings import ProfileSettings
from pubweave.pipeline.sources import gathered, open_source


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
        return build_profile(
            spark, telemetry, target, settings, now, threads=threads, on_done=on_done
        )

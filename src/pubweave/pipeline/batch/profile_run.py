"""The batch job: read a run's telemetry, compute its profile, publish it.

`profile_run` is for programs that have a Spark session and want the profile; `run_profile` gives
only its description and takes any location.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.profile.profile import ProfileDescription
from pubweave.pipeline.frames.locations import Storage, absolute
from pubweave.pipeline.frames.settings import ProfileSettings
from pubweave.pipeline.frames.small_tables import is_small
from pubweave.pipeline.profile.build import OnDone, TelemetryFrames, build_profile
from pubweave.pipeline.profile.output import ProfileOutput, claimed, version_name
from pubweave.pipeline.profile.sources import gathered, open_source


def profile_run(
    spark: SparkSession,
    run: Path,
    output: Path,
    now: float,
    settings: ProfileSettings | None = None,
) -> WorkloadProfile:
    """Profile a run's directory into ``output`` and open it; prints nothing.

    The session may be shared and is left as it is: the second profile in a JVM takes half the
    time of the first. Up to a million records, start it by ``spark_session(quick=True)``.
    """
    run_profile(spark, str(run), str(output), settings or ProfileSettings(), now)
    return WorkloadProfile(output)


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

"""The batch job: read a run's telemetry, compute its profile, publish it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pubweave.model.profile import ProfileDescription
from pubweave.pipeline.locations import Storage, absolute, local_path
from pubweave.pipeline.profile_build import OnDone, TelemetryFrames, build_profile
from pubweave.pipeline.profile_output import ProfileOutput, claimed, version_name
from pubweave.pipeline.settings import ProfileSettings
from pubweave.pipeline.sources import gathered, open_source, read_frames

QUICK_BYTES = 16_000_000


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
        target = ProfileOutput(spark, output, version_name())
        target.clear()
        frames = gathered(read_frames(spark, found.files), found.files, target.write, threads)
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


def quick_enough(source: str) -> bool:
    """Whether a local source is so small that Spark's quick settings suit it."""
    path = local_path(source)
    if path is None or not path.is_dir():
        return False
    return sum(file.stat().st_size for file in path.rglob("*.parquet")) <= QUICK_BYTES

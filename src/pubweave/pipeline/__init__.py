"""The pipeline (PySpark, only here): from telemetry to a workload profile.

    telemetry files -> profiling.sources -> profiling.screening (quarantine, duplicates, gaps)
        -> transforms, deliveries -> profiling.output (tables, then profile.json)

Parts: `frames` (the Spark session and what frames share), `transforms` and `deliveries` (frame in,
frame out), `profiling` (the task graph of one profile), `batch` and `streaming` (two ways to run
it), `importers` (outside data as telemetry).
Entry: `profile` in `batch`, `Follower` in `streaming.follow`.
Not here: the profile's tables and their meaning (`model.profile`), reading a profile
(`model.files.profile`).
Invariant: batch and streaming build a profile by the same code (`profiling.build`).
Format: docs/profile.md; telemetry ADR 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave._lazy import lazily

if TYPE_CHECKING:
    from pubweave.model.files.profile import WorkloadProfile as WorkloadProfile
    from pubweave.pipeline.batch import profile as profile
    from pubweave.pipeline.frames.session import spark_session as spark_session
    from pubweave.pipeline.frames.settings import ProfileSettings as ProfileSettings
    from pubweave.pipeline.streaming.follow import Follower as Follower

__getattr__, __all__ = lazily(
    __name__,
    {
        "pubweave.model.files.profile": "WorkloadProfile",
        "pubweave.pipeline.batch": "profile",
        "pubweave.pipeline.frames.session": "spark_session",
        "pubweave.pipeline.frames.settings": "ProfileSettings",
        "pubweave.pipeline.streaming.follow": "Follower",
    },
)

"""The pipeline (PySpark, only here): from telemetry to a workload profile.

    telemetry files -> profile.sources -> profile.screening (quarantine, duplicates, gaps)
        -> transforms, deliveries -> profile.output (tables, then profile.json)

Rooms: `frames` (the Spark session and what frames share), `transforms` and `deliveries` (frame in,
frame out), `profile` (the task graph of one profile), `batch` and `streaming` (two ways to run it),
`importers` (outside data as telemetry).
Entry: `profile_run` in `batch.profile_run`, `Follower` in `streaming.follow`.
Not here: the profile's tables and their meaning (`model.profile`), reading a profile
(`model.files.profile`).
Invariant: batch and streaming build a profile by the same code (`profile.build`).
Format: docs/profile.md; telemetry ADR 4.
"""

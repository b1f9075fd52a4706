"""Batch jobs: the profile of a run, and topic-connected overlays in parts.

`profile_run` reads a run's telemetry once and publishes its profile; `tco_build` runs the tasks of
`design.tco` in Spark tasks.

Entry: `profile_run` and `run_profile` in `profile_run`.
Not here: following a run that goes on (`pipeline.streaming`), experiments on Spark
(`experiments.runner`).
Invariant: what `tco_build` distributes also runs without Spark.
"""

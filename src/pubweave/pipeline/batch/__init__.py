"""Batch jobs: the profile of a run, topic-connected overlays in parts, parameter sweeps.

`profile_run` reads a run's telemetry once and publishes its profile; `tco_build` runs the tasks of
`design.tco` in Spark tasks; `swept_rows` turns rows of parameters into rows of results.

Entry: `profile_run` and `run_profile` in `profile_run`.
Not here: following a run that goes on (`pipeline.streaming`).
Invariant: what `tco_build` distributes also runs without Spark.
"""

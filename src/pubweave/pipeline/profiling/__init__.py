"""One profile from telemetry frames: sources, screening, task graph, stream state, output.

`sources` lists and checks files; `screening` sends faulty records to the
quarantine and removes duplicates; `tables` is the data flow (which transform makes which table);
`task_graph` runs it, tables side by side (`KnownFrames`: what need not be computed again).
`carried_state` is the stream state of a followed run, `output` publishes versions.

Entry: `build_profile` in `build`.
Not here: the transforms themselves, Spark's settings (`frames`), following a run (`streaming`).
Invariant: readers of ``profile.json`` see one complete profile, the old or the new one.
"""

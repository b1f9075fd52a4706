"""Follows a run with Structured Streaming: batch log, watermark, compaction.

    Spark's checkpoint: which files are in which micro-batch
        -> batch_log (records by batch number) -> profiling.build -> profile.json names the batch
        -> compaction: publications below the watermark become sums (profile.carried_state)

`follow` runs the stream. `compaction` closes publications that are over: the watermark is per
publisher, a sequence number up to which all is closed, found by `TELEMETRY_LAG_S`.
Records that come later are found by `disorder`: the state is put aside and rebuilt from the log.

Entry: `Follower` in `follow`. Not here: the computation of a profile (`pipeline.profiling`).
Invariant: every record counts exactly once; a batch repeated after a crash replaces itself.
"""

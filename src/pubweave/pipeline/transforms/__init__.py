"""Transforms from telemetry frames to profile frames: one idea per module.

`publications` is the main pass (one row per publication). From it or beside it: `rates` (Eq. 8 of
DYNATOPS), `interest` and `sketches` (CI's common interest: exact, by theta sketches, as brokers
estimate it), `links`, `latency`, `subscriptions`, `traces` (POP and GRAPE). `filters` matches
content filters inside Spark; `sketches` also has KLL quantiles.

Entry: functions, called by `pipeline.profiling.tables`.
Not here: delivery trees, costs and the audit (`pipeline.deliveries`).
Invariant: frames in, frames out; nothing is read or written, so batch and streaming share them.
"""

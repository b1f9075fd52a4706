"""Telemetry on disk: tables of records as Parquet files that appear whole or not at all.

`parquet` writes and reads tables, `run_description` is ``run.json`` (schema version, clock),
`recorded_traffic` reads back the last stretch of traffic for replay.

Entry: `write_records` and `read_table` in `parquet`.
Not here: the schema (`model.telemetry`), making records (`core.metering`), the writer's thread
(`runtime.broker.telemetry_writer`), profiles (`pipeline`).
Invariant: a file is written under a name with a leading dot and then renamed, so readers see whole
files only. No threads and no clock here. ADR 4.
"""

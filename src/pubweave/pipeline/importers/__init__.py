"""Importers: data of other systems, written as the telemetry of a run.

`subscriptions` (who follows what), `checkins` (moving users), `stocks` (quotes as publications),
`latency` (round-trip matrices); `read_rows` and `write_import` in `subscriptions` serve all.

Entry: the ``import_*`` functions, one per module.
Not here: topology files (`model.files.topology`), seeded workloads (`generate.workloads`).
Invariant: a row that cannot be understood is kept out with its reason; importing the same files
again gives the same records.
"""

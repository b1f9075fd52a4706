"""The workload profile as data: its tables, their columns and what these mean.

Entry: `PROFILE_TABLES` in `tables`, `ProfileDescription` (``profile.json``) in `profile`.
`traffic_tables` and `delivery_tables` define the tables, `tables` also those of brokers' state.
Not here: computing a profile (`pipeline`), reading one from a directory (`model.files`), the
telemetry it is made of (`model.telemetry`).
Invariant: schemas and documentation follow from these tables. Counts are of recorded publications,
unless a column says that it is weighted. docs/profile.md explains the tables.
"""

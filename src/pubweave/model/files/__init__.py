"""Files that people read and write: topologies, plans, access rules, subscriptions.

Entry: `read_topology` and `write_topology` in `topology`, `read_plan` and `write_plan` in `plan`,
`read_access_file` in `access`, `read_subscriptions` in `subscriptions`,
`read_mapping` in `ring_mapping`, `WorkloadProfile` in
`profile` (reads only). `replace_file` in `atomic` puts a whole file in place at once.
Not here: the values (`model`), telemetry files (`telemetry`), journals (`wire`, `runtime.journal`),
documents in the store (`deploy`), network maps and other foreign data (`generate`).
Invariant: a topology or plan file appears whole or not at all, and the same value gives the same
bytes. An error names the file and what is wrong with it.
"""

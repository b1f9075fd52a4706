"""Workloads: which client is where, what it advertises, wants and publishes.

`ipitt`, `stocks` (POP/GRAPE, with the quotes), `churn_rounds` (Shadows: who wants
which topics, joins and leaves), `dynatops` and `checkins` are those of the papers' evaluations;
`clients` is the form in which a driver gets a workload.

Entry: `ipitt_workload` in `ipitt`, `stock_workload` in `stocks`, `topic_sets` in `churn_rounds`.
Not here: when things are sent (a driver's affair), recorded traffic (`telemetry`).
Invariant: a workload is a value; beside real stock quotes and check-ins there is a generated
twin. ADR 3.
"""

"""Workloads: which client is where, what it advertises, wants and publishes.

`ipitt`, `stocks` (POP/GRAPE; `stock_quotes` are the quotes), `shadows`, `dynatops` and `checkins`
are those of the papers' evaluations; `churn_rounds` draws joins and leaves; `clients` is the form
in which a driver gets a workload.

Entry: `ipitt_workload` in `ipitt`, `stock_workload` in `stocks`, `topic_sets` in `shadows`.
Not here: when things are sent (a driver's affair), recorded traffic (`telemetry`).
Invariant: a workload is a value; beside real stock quotes and check-ins there is a generated
twin. ADR 3.
"""

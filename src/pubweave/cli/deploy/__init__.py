"""Verbs that plan and change a running overlay: ``plan``, ``apply`` and ``remap``.

`plan` makes and validates plans (`plan_view` prints them), `plan_control` is ``plan status``,
``resume`` and ``abort``; `apply` walks an overlay through a plan, or plays it in simulation, `run`
hosts the executor, `mismatch` explains why a plan does not fit, `view` shows progress. `remap` and
`remap_loop` move brokers of a ring.

Entry: the click command of each verb's module.
Not here: planners (`planning`), the executor (`deploy.executor`), the store (`runtime.store`).
ADR 7, 8, 18.
"""

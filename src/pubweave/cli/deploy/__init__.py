"""Verbs that plan and change a running overlay: ``plan``, ``apply`` and ``remap``.

`plan` makes and validates plans (`plan_view` prints them), `plan_control` is ``plan status``,
``resume`` and ``abort``; `apply` walks an overlay through a plan, or plays it in simulation, `run`
shows how that goes. `remap` moves brokers of a ring.

Entry: the click command of each verb's module.
Not here: planners (`planning`), carrying a plan out and why one does not fit
(`runtime.coordination`), the store (`runtime.store`). ADR 7, 8, 18.
"""

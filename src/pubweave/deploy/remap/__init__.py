"""Remapping a ring: brokers of a rendezvous overlay take other positions, step by step.

`remapper` has the one document, an operator's scripts (submit, abort), who sees the steps through
(DYNATOPS' manager), and the `RemapAgent` that stands between the store and one broker.

    INIT -> OVERLAY -> TABLES -> TREES -> FINISH -> DONE; before FINISH it may be ABORTED

Entry: `Remapper.handle` in `remapper`, `RemapAgent.handle` beside it.
Not here: which mapping (`design.dynatops.mapping`), the broker's part
(`core.routing.rendezvous.remap`).
Invariant: one document changed by compare-and-set, so a remapping has one history. ADR 18.
"""

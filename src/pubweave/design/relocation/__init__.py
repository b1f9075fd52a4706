"""Where publishers (GRAPE) and subscribers cost least, computed from what brokers delivered.

`rules` has the values and POP's comparison, `choice` GRAPE's choice by priority and weight.
`publisher` computes GRAPE's two metrics for all brokers at once (numba), `reports` the same in
plain Python for live brokers; `subscriber` places subscribers (not in the paper).
`publisher_profile` makes the inputs of both from a workload profile, `files` from a document.

Entry: `select_broker` in `publisher`, `select_from_reports` in `reports`, `SubscriberPlacement` in
`subscriber`. Not here: tracing and deciding in a live broker (`core.relocation`), moving a client
(`core.migration`).
Invariant: both computations of the metrics agree; a property test holds them together. ADR 15.
"""

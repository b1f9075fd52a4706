"""Where publishers (GRAPE) and subscribers cost least, computed from what brokers delivered.

`rules` has the values, POP's comparison and GRAPE's choice by priority and weight.
`publisher` computes GRAPE's two metrics for all brokers at once; `subscriber` places subscribers
(not in the paper).
`publisher_profile` makes the inputs of both from a workload profile, `files` from a document.

Entry: `select_broker` in `publisher`, `SubscriberPlacement` in `subscriber`.
Not here: tracing and deciding in a live broker (`core.relocation`), moving a client
(`core.migration`).
Invariant: nothing here loads numba, because live brokers decide by it. ADR 15.
"""

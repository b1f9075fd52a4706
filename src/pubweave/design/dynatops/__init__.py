"""DYNATOPS: which broker takes which position on a Chord ring, and which users which broker.

`placement` puts users at brokers, `rivals` are the systems that the paper compares with. Rooms:
`mapping` (brokers to ring positions: cost model, search, bounds, decision), `_kernels` (numba).
`placement_rule` is the utility that looks ahead; live brokers use it too.

Not here: routing on the ring and remapping under traffic (`core.routing.rendezvous`), carrying a
remapping out (`deploy.remap`).
ADR 16; user placement at live brokers ADR 22.
"""

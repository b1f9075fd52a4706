"""Brokers to positions of a Chord ring: cost model, search, bounds, decision.

`ring` has ids, fingers and routes; `problem` the input (`inputs` makes it of counts or a profile)
and the cost model from scratch (Eqs. 1-5, 8, 10-12); `swaps` a mapping with all its costs kept up
to date, and Algorithm 3; `best` a better search of ours with a proven lower bound. `reconfigure`
has Algorithms 2 and 4: whether a new mapping pays. `routed_overlay` counts the same for any routed
overlay.

Entry: `ssbr_greedy` in `swaps`, `best_mapping` in `best`, `decide` in `reconfigure`.
Not here: users (`placement`), the protocol that moves brokers (`core.routing.rendezvous.remap`).
Invariant: costs are sums of counts, exact in float64, so ties are ties. ADR 16.
"""

"""The fast planner: a parallel greedy, restarted with what the last run taught.

`greedy` repeats whole runs with new priorities; `fewer_rounds` lays the tokens of a finished plan
anew so that brokers wait less for each other (`Tracks`: a plan as walks of its tokens); `_kernels`
are compiled.

Entry: `Greedy` in `greedy`. Not here: proofs (`bounds`, `exact`).
Invariant: a plan found here is valid; nothing is proven about it. ADR 7, decision 13.
"""

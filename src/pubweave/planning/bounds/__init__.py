"""Lower bounds and impossibility proofs: what no plan of T steps can do.

`reachability` finds where each token can be at each step, `pair_reachability` adds mutual
exclusions (the h2 heuristic), `actions` bounds the number of actions, `infeasibility` proves by
exhaustive search that there is no plan. `corridor` keeps only positions near a known plan: it
bounds nothing, it makes a search small. `token_positions` numbers what is left for the exact
models. The modules called ``_kernels_*`` are compiled.

Entry: `Reachability` in `reachability`. Not here: finding plans (`greedy`, `exact`, `paper`).
Invariant: what is dropped is on no plan of T steps (in `actions`: of k actions), but for
`corridor`. ADR 7, decisions 9-11, 15.
"""

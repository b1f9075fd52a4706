"""IPITT as printed: its integer programs (Algorithm 1) and its baseline, best-first search.

`integer_program` builds Eqs. 1-15, from one of three sets of shifts (`ActionSet`);
`algorithm_1` asks for T steps and for one more while there is no plan. `highs` solves in a child
process. `best_first_search` is the baseline of the evaluation.

Entry: `solve` in `planning`. Not here: our own planners (`greedy`, `exact`).
Invariant: `integer_program` imports no solver and gets no tricks: it is the baseline that ours is
measured against. ADR 7, decision 4.
"""

"""Cheaper trees for measured traffic: the cost model, priced link exchanges, and searches.

`traffic` groups notifications by the set of brokers that share them, and says what a broker and a
link cost; `cost` is CI's cost model (Eqs. 1 and 2). `link_exchange` prices an exchange of two links
exactly; `global_search` and `exact` (branch and bound) use it or bound it; `spanning` builds the
paper's MST and MIT; `limits` are the operator's.

Entry: `DesignProblem` and `DesignResult` in `problem`; `search` in `global_search`,
`cheapest_tree` in `exact`. `profile_inputs` makes the inputs from a workload profile.
Not here: local heuristics (`design.ci`), the plan that leads to the tree (`planning`).
Invariant: cost depends only on distinct delivery sets and their weights; the same seed gives the
same tree unless the search is stopped. ADR 9.
"""

"""The exact planner: fewest steps by SAT, then least cost by network flow.

`process` is this side of the child process, `worker` the other; `search` runs there, upwards from
the bound (`sat`) or downwards from known plans (`descent`). `token_model` has the clauses;
`flow_model` is the integer program, which `search` runs on HiGHS.

Entry: `ExactProcess` in `process`. Not here: the papers' integer programs (`planning.paper`).
Invariant: a solver runs only in the child process, which can be ended at any moment; that makes
time limits and Ctrl-C reliable. ADR 7, decisions 5, 9-12.
"""

"""The exact planner: fewest steps by SAT, then least cost by network flow.

`process` is both sides of the child process; `search` runs there, upwards from the bound or
downwards from known plans (`Descent`). `token_model` has the clauses; `flow_model` is the integer
program, which `search` runs on HiGHS.

Entry: `ExactProcess` in `process`. Not here: the papers' integer programs (`planning.paper`).
Invariant: a solver runs only in the child process, which can be ended at any moment; that makes
time limits and Ctrl-C reliable. ADR 7, decisions 5, 9-12.
"""

"""Planning: from a source topology to a target topology in few, safe steps.

`solve` is the entry: a `PlanningProblem` and a method in, a `PlanResult` out; `anytime` keeps the
best plan so far with its bounds (`BackgroundBound` proves one in a thread); `moves` plans
composite moves.

    problem -> bounds -> greedy, exact (child process), paper -> check -> result

Rooms: `problem` (what is asked and answered), `bounds` (what no plan can beat), `greedy`, `exact`
and `paper` (three families of planners), `check` (the plan validator).
Not here: which topology is the target (`design`), carrying a plan out (`deploy`).
Invariant: every plan that leaves `solve` has passed `check.validate`. Clock, stop and seed come
from the caller. ADR 7.
"""

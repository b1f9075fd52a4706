"""Planning: from a source topology to a target topology in few, safe steps.

Entry in `solver`: `solve` (two topologies) and `solve_problem` (a `PlanningProblem`) give a
`PlanResult`; `anytime` keeps the best plan so far with its bounds (`BackgroundBound` proves one in
a thread); `moves` plans composite moves.

    problem -> bounds -> greedy, exact (child process), paper -> check -> result

Rooms: `problem` (what is asked and answered), `bounds` (what no plan can beat), `greedy`, `exact`
and `paper` (three families of planners), `check` (the plan validator).
Not here: which topology is the target (`design`), carrying a plan out (`deploy`).
Invariant: every plan that leaves `solver` has passed `check.validate`. Only `solve` reads a clock.
ADR 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave._lazy import lazily

if TYPE_CHECKING:
    from pubweave.planning.check.validate import InvalidPlanError as InvalidPlanError
    from pubweave.planning.check.validate import validate_plan as validate_plan
    from pubweave.planning.problem.problem import PlanningError as PlanningError
    from pubweave.planning.problem.problem import PlanningProblem as PlanningProblem
    from pubweave.planning.problem.problem import PlanResult as PlanResult
    from pubweave.planning.problem.problem import PlanStatus as PlanStatus
    from pubweave.planning.solver import solve as solve

__getattr__, __all__ = lazily(
    __name__,
    {
        "pubweave.planning.check.validate": "InvalidPlanError validate_plan",
        "pubweave.planning.problem.problem": "PlanResult PlanStatus PlanningError PlanningProblem",
        "pubweave.planning.solver": "solve",
    },
)

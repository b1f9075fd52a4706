"""Plans of T steps from the satisfiability solvers of python-sat, whole or near a known plan.

Meant for a child process (`exact/worker`): a solver call may last, and only ending the process
ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pubweave.planning.bounds.pair_reachability import prune
from pubweave.planning.bounds.reachability import Reach, Reachability
from pubweave.planning.bounds.token_positions import corridor
from pubweave.planning.exact.token_model import (
    TokenModel,
    add_exclusions,
    add_options,
    add_order,
    allows_order,
)
from pubweave.planning.problem.indexed import NumberedSteps

# Of the solvers that python-sat brings one of the quickest on these clauses; single runs differ by
# more than the versions of Glucose do.
SOLVER = "glucose42"
# Follows given phases better, and finds plans that the other one misses for long.
_NEAR_SOLVER = "cadical153"


def plan_within(
    reachability: Reachability, reach: Reach | None, near: NumberedSteps | None = None
) -> NumberedSteps | None:
    """A plan of so many steps, or None if it is proven that there is none.

    ``near`` is a plan of more steps; a plan like it is tried first."""
    model = model_of(reachability, reach)
    if model is None:
        return None
    with solver_of(model, SOLVER if near is None else _NEAR_SOLVER) as solver:
        if near is not None:
            solver.set_phases(model.positions.like(near))
        return model.decode(solver.get_model()) if solver.solve() else None


@dataclass(frozen=True)
class SearchRadius:
    """How far from a plan to look for one of a step less, and how long."""

    radius: int
    ahead: int
    """How many steps earlier than in the plan a token may be where it goes."""
    conflicts: int


def plan_around(
    reachability: Reachability, reach: Reach, plan: NumberedSteps, where: SearchRadius
) -> NumberedSteps | None:
    """A plan near one of a step more; None says nothing."""
    near = corridor(reachability, reach, plan, where.radius, where.ahead)
    model = model_of(reachability, near)
    if model is None:
        return None
    with solver_of(model) as solver:
        solver.conf_budget(where.conflicts)
        return model.decode(solver.get_model()) if solver.solve_limited() else None


def model_of(reachability: Reachability, reach: Reach | None) -> TokenModel | None:
    """The clauses of all plans within these positions; None where pairs of tokens rule them out."""
    positions = None if reach is None else prune(reachability, reach)
    if positions is None:
        return None
    model = TokenModel(positions)
    add_options(model)
    add_exclusions(model)
    if allows_order(model):
        add_order(model)
    return model


def solver_of(model: TokenModel, name: str = SOLVER) -> Any:
    """A solver with the clauses of a model in it; use it in a with."""
    from pysat.solvers import Solver  # type: ignore[import-untyped]

    return Solver(name=name, bootstrap_with=model.clauses.rows)

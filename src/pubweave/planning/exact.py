"""The exact planner: fewest steps by satisfiability, then least cost at that number of steps.

T rises from the reachability bound; each T without a plan raises the proven bound by one. Then the
network flow program, started from the plan found, brings actions (or their cost) down to the
proven least. This module is meant for a child process (`exact_worker`): a solver call may last,
and only ending the process ends it. It says what it finds as it goes.

Not handled, and refused by `solve`: ``allow_move``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pubweave.planning.action_bounds import ActionBound
from pubweave.planning.indexed import IndexedProblem, NumberedSteps
from pubweave.planning.pair_reach import prune
from pubweave.planning.reachability import Reach, Reachability
from pubweave.planning.token_model import TokenModel
from pubweave.planning.token_positions import TokenPositions
from pubweave.planning.token_rules import add_options, add_order, allows_order


@dataclass(frozen=True)
class Finding:
    """News of the search; what is None is not news."""

    steps_at_least: int | None = None
    cost_at_least: float | None = None
    """Of all plans with the fewest steps."""
    plan: NumberedSteps | None = None
    is_cheapest: bool = False
    """The last plan has the fewest steps and the least cost at that many."""
    is_infeasible: bool = False


Tell = Callable[[Finding], None]

_QUICK_CONFLICTS = 20_000
# Of the solvers that python-sat brings the quickest by far on these clauses, with and without plan.
_SOLVER = "glucose4"


def search(indexed: IndexedProblem, known: NumberedSteps | None, tell: Tell) -> None:
    """Tell of ever better bounds and plans until nothing is left to prove.

    ``known`` is a valid plan or None; a plan told of is never worse than it."""
    reachability = Reachability(indexed, apart=True)
    at_least = reachability.fewest_steps()
    if at_least is None:
        tell(Finding(is_infeasible=True))
        return
    tell(Finding(steps_at_least=at_least))
    best, steps = known, at_least
    while best is None or steps < len(best):
        found = plan_within(indexed, reachability.within(steps))
        if found is None:
            steps += 1
            tell(Finding(steps_at_least=steps))
        else:
            best = found
            tell(Finding(plan=best))
    for finding in cheapest(reachability, best):
        tell(finding)


def plan_within(indexed: IndexedProblem, reach: Reach | None) -> NumberedSteps | None:
    """A plan of so many steps, or None if it is proven that there is none."""
    from pysat.solvers import Solver  # type: ignore[import-untyped]

    model = _model(indexed, reach)
    if model is None:
        return None
    with Solver(name=_SOLVER, bootstrap_with=model.clauses.rows) as solver:
        return model.decode(solver.get_model()) if solver.solve() else None


def _model(indexed: IndexedProblem, reach: Reach | None) -> TokenModel | None:
    """The clauses of all plans within these positions; None where pairs of tokens rule them out."""
    positions = None if reach is None else prune(TokenPositions.of(indexed, reach))
    if positions is None:
        return None
    model = TokenModel(positions)
    add_options(model)
    if allows_order(model):
        add_order(model)
    return model


def fewer_actions(
    indexed: IndexedProblem, reach: Reach, best: NumberedSteps
) -> Iterator[NumberedSteps]:
    """Plans of the same steps with ever fewer actions, as long as they are found quickly.

    A plan from a satisfiability solver, or from the greedy, carries needless actions; a cardinality
    network over the moves gets rid of most of them long before the flow program could."""
    from pysat.card import ITotalizer  # type: ignore[import-untyped]
    from pysat.solvers import Solver

    model = _model(indexed, reach)
    assert model is not None, "a plan of this many steps exists"
    actions = sum(len(step) for step in best)
    with (
        Solver(name=_SOLVER, bootstrap_with=model.clauses.rows) as solver,
        ITotalizer(model.move_literals, ubound=actions, top_id=model.clauses.count) as counter,
    ):
        solver.append_formula(counter.cnf.clauses)
        while actions > 1:
            solver.conf_budget(_QUICK_CONFLICTS)
            if not solver.solve_limited(assumptions=[-counter.rhs[actions - 1]]):
                return
            better = model.decode(solver.get_model())
            actions = sum(len(step) for step in better)
            yield better


def cheapest(reachability: Reachability, best: NumberedSteps) -> Iterator[Finding]:
    """Ever cheaper plans of as many steps as ``best`` has, which must be the fewest."""
    from pubweave.planning.flow_solver import FlowSolver

    if not best:
        yield Finding(cost_at_least=0, is_cheapest=True)
        return
    reach = reachability.within(len(best))
    assert reach is not None, "a plan of this many steps exists"
    if reachability.indexed.problem.action_cost is None:
        bound = ActionBound(reachability, reach)
        yield Finding(cost_at_least=bound.least())
        for better in fewer_actions(reachability.indexed, reach, best):
            best = better
            yield Finding(plan=best)
        narrowed = bound.within(sum(len(step) for step in best))
        assert narrowed is not None, "a plan of this many actions exists"
        reach = narrowed
    positions = prune(TokenPositions.of(reachability.indexed, reach))
    assert positions is not None, "a plan exists"
    yield from FlowSolver(positions).run(best)

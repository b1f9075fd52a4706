"""The exact planner: fewest steps by satisfiability, then least cost at that number of steps.

Two ways, made to run beside each other (`solve` does). UP: T rises from the reachability bound, and
each T without a plan raises the proven bound by one; then the fewest actions by satisfiability.
DOWN: from known plans to ones of a step less, first in their surroundings, then
anywhere, as long as there is one; then the least cost by the network flow program. Where the one
stalls, the other often does not.

This module is meant for a child process (`exact/process`): a solver call may last, and only ending
the process ends it. It says what it finds as it goes. Not handled, and refused by `solve`:
``allow_move``.

`Descent` takes many greedy plans a step down, each within its close surroundings. Whether a step
can be saved within one slide of a plan is decided in a tenth of a second at 100 brokers, where the
whole question takes minutes. Most plans have no better one so close by, but the greedy has hundreds
of plans of about the same length to offer, and it takes only one of them. In between, now and then,
more room: tokens may be two steps ahead of the plan, which takes a second or two and finds what
close surroundings miss; two slides away, which takes ten.
"""

from __future__ import annotations

import enum
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pubweave.planning.bounds.pair_reachability import prune
from pubweave.planning.bounds.reachability import ActionBound, Reach, Reachability
from pubweave.planning.bounds.token_positions import TokenPositions
from pubweave.planning.exact.flow_model import FlowModel
from pubweave.planning.exact.token_model import (
    SearchRadius,
    TokenModel,
    add_moves,
    model_of,
    plan_around,
    plan_within,
    solver_of,
)
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.problem.indexed import IndexedProblem, NumberedSteps

_CLOSE_AROUND = SearchRadius(radius=1, ahead=1, conflicts=20_000)
_AHEAD = SearchRadius(radius=1, ahead=2, conflicts=40_000)
_WIDE = SearchRadius(radius=2, ahead=1, conflicts=20_000)
# After this many starts in vain, again and again.
_AHEAD_EVERY = 4
_WIDE_EVERY = 20
_STARTS = 40
_GREEDY_RUNS = 500


class Descent:
    """Ever shorter plans of one problem, until it runs out of ideas."""

    def __init__(self, reachability: Reachability, rng: np.random.Generator) -> None:
        self._reachability = reachability
        self._rng = rng
        self._reaches: dict[int, Reach | None] = {}

    def run(self, best: NumberedSteps, at_least: int) -> Iterator[NumberedSteps]:
        """Each plan has fewer steps than ``best`` and all before; none has fewer than
        ``at_least``."""
        start, longest, in_vain = best, len(best), 0
        while len(best) > at_least and in_vain < _STARTS:
            found = self._down(start, at_least)
            in_vain += 1
            if len(found) >= len(best):
                found = self._further(found if len(found) == len(best) else best, in_vain)
            if len(found) < len(best):
                best, in_vain = found, 0
                yield best
            start = self._another(longest) or best

    def within(self, steps: int) -> Reach | None:
        """What so many steps can reach, worked out once."""
        if steps not in self._reaches:
            self._reaches[steps] = self._reachability.within(steps)
        return self._reaches[steps]

    def _down(self, plan: NumberedSteps, at_least: int) -> NumberedSteps:
        """As far down as each next plan is close to the one before."""
        while len(plan) > at_least:
            found = self._around(plan, _CLOSE_AROUND)
            if found is None:
                break
            plan = found
        return plan

    def _further(self, plan: NumberedSteps, in_vain: int) -> NumberedSteps:
        """One step less with more room, if it is time for that; else the plan itself."""
        found = None
        if in_vain % _WIDE_EVERY == 0:
            found = self._around(plan, _WIDE)
        elif in_vain % _AHEAD_EVERY == 0:
            found = self._around(plan, _AHEAD)
        return plan if found is None else found

    def _around(self, plan: NumberedSteps, where: SearchRadius) -> NumberedSteps | None:
        reach = self.within(len(plan) - 1)
        return None if reach is None else plan_around(self._reachability, reach, plan, where)

    def _another(self, longest: int) -> NumberedSteps | None:
        """A greedy plan, mostly of no more than so many steps."""
        problem = self._reachability.indexed.problem
        if problem.max_degree is not None:
            return None  # the source may lie above the limit, of which the greedy knows nothing
        greedy = Greedy(self._reachability.indexed, self._rng)
        first = greedy.first()
        if first is None:
            return None
        runs = iter(range(_GREEDY_RUNS))
        better = list(greedy.improve(first, lambda: next(runs, None) is None, longest))
        return better[-1] if better else first


@dataclass(frozen=True)
class Finding:
    """News of the search; what is None is not news."""

    steps_at_least: int | None = None
    cost_at_least: float | None = None
    """Of all plans with the fewest steps."""
    plan: NumberedSteps | None = None
    is_cheapest: bool = False
    """The last plan has the fewest steps and the least cost at that many."""


Tell = Callable[[Finding], None]

_QUICK_CONFLICTS = 20_000
_CLOSE = 1e-6


class SearchDirection(enum.Enum):
    """From which side the fewest steps are looked for."""

    UP = "up"
    DOWN = "down"


def search(
    indexed: IndexedProblem,
    at_least: int,
    known: NumberedSteps | None,
    way: SearchDirection,
    seed: int,
    tell: Tell,
) -> None:
    """Tell of ever better bounds and plans until nothing is left to prove, or nothing to do.

    No plan has fewer than ``at_least`` steps. ``known`` is a valid plan or None; a plan told of is
    never worse than it."""
    reachability = Reachability(indexed, apart=True)
    if way is SearchDirection.UP:
        best = _upwards(reachability, known, at_least, tell)
    elif known is not None:
        best = _downwards(reachability, known, at_least, seed, tell)
    else:
        return
    for finding in cheapest(reachability, best, way):
        tell(finding)


def _upwards(
    reachability: Reachability, known: NumberedSteps | None, steps: int, tell: Tell
) -> NumberedSteps:
    best = known
    while best is None or steps < len(best):
        found = plan_within(reachability, reachability.within(steps))
        if found is None:
            steps += 1
            tell(Finding(steps_at_least=steps))
        else:
            best = found
            tell(Finding(plan=best))
    return best


def _downwards(
    reachability: Reachability, best: NumberedSteps, at_least: int, seed: int, tell: Tell
) -> NumberedSteps:
    descent = Descent(reachability, np.random.default_rng(seed))
    while True:
        for shorter in descent.run(best, at_least):
            best = shorter
            tell(Finding(plan=best))
        if len(best) <= at_least:
            return best
        found = plan_within(reachability, descent.within(len(best) - 1), near=best)
        if found is None:
            tell(Finding(steps_at_least=len(best)))
            return best
        best = found
        tell(Finding(plan=best))


def cheapest(
    reachability: Reachability, best: NumberedSteps, way: SearchDirection
) -> Iterator[Finding]:
    """Ever cheaper plans of as many steps as ``best`` has, which must be the fewest.

    Only the flow program knows costs that differ."""
    if not best:
        yield Finding(cost_at_least=0, is_cheapest=True)
        return
    reach = reachability.within(len(best))
    assert reach is not None, "a plan of this many steps exists"
    if reachability.indexed.problem.action_cost is not None:
        yield from _flow(reachability, reach, best)
        return
    bound = ActionBound(reachability, reach)
    yield Finding(cost_at_least=bound.least())
    if way is SearchDirection.UP:
        yield from _fewest_actions(bound, best)
        return
    model = model_of(reachability, reach)
    assert model is not None, "a plan of this many steps exists"
    for better in _fewer_actions(model, _actions(best), _QUICK_CONFLICTS):
        best = better
        yield Finding(plan=best)
    narrowed = bound.within(_actions(best))
    assert narrowed is not None, "a plan of this many actions exists"
    yield from _flow(reachability, narrowed, best)


def _flow(reachability: Reachability, reach: Reach, best: NumberedSteps) -> Iterator[Finding]:
    positions = prune(reachability, reach)
    assert positions is not None, "a plan exists"
    yield from _FlowSolver(positions).run(best)


class _FlowSolver:
    """HiGHS on one network flow program: plans as they get cheaper, and the proof at the end.

    Never beside OR-Tools in one process."""

    def __init__(self, positions: TokenPositions) -> None:
        self._model = FlowModel(positions)
        # With whole costs, a bound may be rounded up.
        self._whole = all(cost == int(cost) for cost in self._model.cost)

    def run(self, start: NumberedSteps) -> Iterator[Finding]:
        """Findings until the cheapest plan is proven; ``start`` is a plan of the same steps."""
        found: queue.Queue[Finding | None] = queue.Queue()
        solving = threading.Thread(target=self._solve, args=(start, found), daemon=True)
        solving.start()
        while (finding := found.get()) is not None:
            yield finding
        solving.join()

    def _solve(self, start: NumberedSteps, found: queue.Queue[Finding | None]) -> None:
        import highspy

        untyped: Any = highspy
        highs = untyped.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("mip_rel_gap", 0.0)
        highs.passModel(self._program(highspy))
        values = self._model.values(start)
        given = highspy.HighsSolution()
        given.col_value = values
        highs.setSolution(given)
        least = float(np.dot(values, self._model.cost))

        def tell(event: Any) -> None:
            nonlocal least
            solution = np.asarray(event.data_out.mip_solution)
            cost = float(np.dot(np.round(solution), self._model.cost))
            if cost < least - _CLOSE:
                least = cost
                found.put(Finding(plan=self._model.decode(solution.tolist())))

        highs.cbMipImprovingSolution += tell
        highs.run()
        if highs.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            solution = np.asarray(highs.getSolution().col_value)
            cost = float(np.dot(np.round(solution), self._model.cost))
            plan = self._model.decode(solution.tolist()) if cost < least - _CLOSE else None
            found.put(Finding(plan=plan, cost_at_least=min(cost, least), is_cheapest=True))
        found.put(None)

    def _program(self, highspy: Any) -> Any:
        starts, index, value = self._model.matrix()
        program = highspy.HighsLp()
        program.num_col_ = len(self._model.cost)
        program.num_row_ = len(self._model.lower)
        program.col_cost_ = np.array(self._model.cost)
        program.col_lower_ = np.zeros(program.num_col_)
        program.col_upper_ = np.ones(program.num_col_)
        program.row_lower_ = np.array(self._model.lower)
        program.row_upper_ = np.array(self._model.upper)
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = starts
        program.a_matrix_.index_ = index
        program.a_matrix_.value_ = value
        program.integrality_ = [highspy.HighsVarType.kInteger] * program.num_col_
        return program


def _actions(plan: NumberedSteps) -> int:
    return sum(len(step) for step in plan)


def _fewest_actions(bound: ActionBound, best: NumberedSteps) -> Iterator[Finding]:
    """Down from the actions of ``best`` until it is proven that one fewer is impossible.

    A plan from a satisfiability solver, or from the greedy, carries needless actions. The first
    rounds on one set of clauses get rid of most of them; the fewer actions are allowed, the fewer
    positions are left, so that the last rounds, the hard ones, are asked of a much smaller set."""
    for conflicts in (_QUICK_CONFLICTS, None):
        while True:
            actions = _actions(best)
            narrowed = bound.within(actions - 1)
            model = None if narrowed is None else model_of(bound.reachability, narrowed)
            found = best
            if model is not None:
                for found in _fewer_actions(model, actions, conflicts):
                    yield Finding(plan=found)
            if found is not best:
                best = found
            elif model is None or conflicts is None:
                yield Finding(cost_at_least=actions, is_cheapest=True)
                return
            else:
                break


def _fewer_actions(
    model: TokenModel, actions: int, conflicts: int | None
) -> Iterator[NumberedSteps]:
    """Plans with ever fewer actions than so many; each takes at most so many conflicts."""
    from pysat.card import ITotalizer  # type: ignore[import-untyped]

    moves = add_moves(model)
    with (
        solver_of(model) as solver,
        ITotalizer(moves, ubound=actions, top_id=model.clauses.count) as counter,
    ):
        solver.append_formula(counter.cnf.clauses)
        while actions > 1:
            if conflicts is not None:
                solver.conf_budget(conflicts)
            if not solver.solve_limited(assumptions=[-counter.rhs[actions - 1]]):
                return
            better = model.decode(solver.get_model())
            actions = _actions(better)
            yield better

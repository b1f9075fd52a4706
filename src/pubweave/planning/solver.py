"""The entry point of planning: a problem and a method in, a judged result out.

Every plan that leaves here, also through ``on_progress``, has passed `validate.validate_plan`;
one that does not pass is a crash, not a result. A stop at any moment gives the best plan so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from pubweave.model.plans import Plan
from pubweave.model.topology import Topology
from pubweave.planning.anytime import Anytime, BackgroundBound
from pubweave.planning.bounds.infeasibility import Exhaustion
from pubweave.planning.bounds.reachability import Reachability
from pubweave.planning.check.validate import InvalidPlanError, validate_plan
from pubweave.planning.exact.process import ExactProcess
from pubweave.planning.exact.search import SearchDirection
from pubweave.planning.greedy.fewer_rounds import quieter_plan
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.moves import fewest_move_steps, plan_moves
from pubweave.planning.problem.indexed import IndexedProblem, NumberedSteps, indexed
from pubweave.planning.problem.membership import split_membership
from pubweave.planning.problem.problem import (
    OnProgress,
    PlanningError,
    PlanningProblem,
    PlanningProgress,
    PlanResult,
    Stop,
    ignore_progress,
    validate_problem,
)

OWN_METHODS = ("auto", "exact", "fast")
PAPER_METHODS = ("ip-naive", "ip-all-paths", "ip-each-path", "bfs", "bfs-parallel")
METHODS = (*OWN_METHODS, *PAPER_METHODS)
Clock = Callable[[], float]

# Above this the exact model has too many positions to be built: auto stays with the greedy.
_EXACT_TOKEN_PAIRS_MAX = 4_000_000
_POLL_S = 0.02
# While the child proves, the greedy goes on here, on another core if there is one.
_GREEDY_SHARE_S = 0.02
# Later the children find what it misses, and it would only take a core from them.
_GREEDY_S = 1.0
# Before it starts: per link to change, so that small problems are not kept waiting.
_FIRST_IMPROVEMENT_S = 0.005
# Where no plan is known, before a child is worth its start.
_FIRST_EXPLORATION_S = 0.5
# For fewer rounds of the plan found, while there is time and after it is up.
_QUIET_S = 2.0
_LAST_QUIET_S = 0.5


def solve(
    source: Topology,
    target: Topology,
    *,
    method: str = "auto",
    time_limit_s: float | None = None,
    seed: int = 0,
    **rules: Any,
) -> PlanResult:
    """Plan from one tree to another; ``rules`` are the other fields of `PlanningProblem`.

    >>> from pubweave import Topology
    >>> chain = Topology.from_links([("b1", "b2"), ("b2", "b3")])
    >>> star = Topology.from_links([("b1", "b2"), ("b1", "b3")])
    >>> result = solve(chain, star)
    >>> result.status.value, [str(action) for action in result.plan.actions()]
    ('optimal', ['shift(b3, b2, b1)'])
    """
    until = None if time_limit_s is None else time.monotonic() + time_limit_s
    return solve_problem(
        PlanningProblem(source, target, **rules),
        method=method,
        stop=lambda: until is not None and time.monotonic() >= until,
        clock=time.perf_counter,
        seed=seed,
    )


def solve_problem(
    problem: PlanningProblem,
    *,
    method: str = "auto",
    stop: Stop,
    clock: Clock,
    seed: int = 0,
    on_progress: OnProgress = ignore_progress,
) -> PlanResult:
    """Plan from the problem's source to its target.

    Parameters
    ----------
    method : one of METHODS. ``exact`` runs until everything is proven or stopped, ``fast`` never
        proves more than the bounds show and runs until stopped or until it meets them, ``auto``
        is ``exact`` where the problem is small enough and ``fast`` otherwise. The others are
        IPITT's own: three integer programs and a baseline.
    stop : asked often; from the first True on, the best plan so far is returned.
    clock : seconds, for the result's ``seconds``.

    Raises
    ------
    PlanningError : the problem is wrong as stated, or the method does not know an option of it.
    """
    if method not in METHODS:
        raise PlanningError(f"no method {method!r}: use one of {', '.join(METHODS)}")
    validate_problem(problem)
    split = split_membership(problem)

    def wrapped(progress: PlanningProgress) -> None:
        plan = None if progress.plan is None else split.wrap(progress.plan)
        on_progress(PlanningProgress(progress.message, plan))

    tell = on_progress if split.is_trivial else wrapped
    try:
        if method in OWN_METHODS:
            inner = _Solver(split.inner, method, stop, clock, seed, tell).result()
        else:
            inner = _by_paper(split.inner, method, stop, clock, seed, tell)
        result = split.wrap_result(inner)
        if result.plan is not None and not split.is_trivial:
            validate_plan(problem, result.plan)
    except InvalidPlanError as error:
        # Nobody's input is to blame, as for another ValueError.
        raise RuntimeError(f"the planner ({method}) made an invalid plan: {error}") from error
    return result


def _by_paper(
    problem: PlanningProblem,
    method: str,
    stop: Stop,
    clock: Clock,
    seed: int,
    on_progress: OnProgress,
) -> PlanResult:
    """One of `PAPER_METHODS`, for one set of brokers."""
    from pubweave.planning.paper.algorithm_1 import plan_by_paper
    from pubweave.planning.paper.best_first_search import plan_by_bfs
    from pubweave.planning.paper.integer_program import ActionSet

    given: dict[str, Any] = {"stop": stop, "clock": clock, "seed": seed, "on_progress": on_progress}
    if method.startswith("bfs"):
        return plan_by_bfs(problem, parallel=method == "bfs-parallel", **given)
    return plan_by_paper(problem, action_set=ActionSet(method.removeprefix("ip-")), **given)


class _Solver:
    """One run over one set of brokers."""

    def __init__(
        self,
        problem: PlanningProblem,
        method: str,
        stop: Stop,
        clock: Clock,
        seed: int,
        on_progress: OnProgress,
    ) -> None:
        self._problem = problem
        self._method = method
        self._stop = stop
        self._clock = clock
        self._started_at = clock()
        self._seed = seed
        self._rng = np.random.default_rng(seed)
        self._best = Anytime(problem, clock, on_progress)
        # The greedy never goes above the limit, but it does not know of having to come down to it.
        self._is_greedy_safe = problem.max_degree is None or all(
            problem.source.degree(broker) <= problem.max_degree for broker in problem.source.brokers
        )

    def result(self) -> PlanResult:
        numbered = indexed(self._problem)
        if self._problem.allow_move:
            self._plan_moves(numbered)
        elif self._exactly(numbered):
            self._search(numbered)
        else:
            self._improve(numbered)
        if self._best.plan is not None:
            self._quieten(numbered, self._best.plan)
        seconds = self._clock() - self._started_at
        return replace(self._best.result(self._method), seconds=seconds)

    def _quieten(self, numbered: IndexedProblem, plan: Plan) -> None:
        """The same plan in fewer rounds, perhaps with fewer actions."""
        until = self._clock() + (_LAST_QUIET_S if self._stop() else _QUIET_S)
        plan = quieter_plan(numbered, plan, self._seed, lambda: self._clock() >= until)
        self._best.exchange(plan, "quiet steps")

    def _exactly(self, numbered: IndexedProblem) -> bool:
        size = numbered.token_count * numbered.broker_count**2
        fits = size <= _EXACT_TOKEN_PAIRS_MAX
        if self._method == "exact" and not fits:
            raise PlanningError(
                f"{numbered.broker_count} brokers with {numbered.token_count} links to change are "
                "too many for method exact: use fast"
            )
        if self._problem.action_cost is not None and (self._method == "fast" or not fits):
            raise PlanningError(
                "only exact planning knows action costs, and this problem is too large for it: "
                "leave --action-cost out"
                if not fits
                else "method fast knows no action costs: use exact"
            )
        return fits and self._method != "fast"

    def _plan_moves(self, numbered: IndexedProblem) -> None:
        if self._method == "exact":
            raise PlanningError("method exact knows no moves: use fast or auto with --allow move")
        if self._problem.action_cost is not None:
            raise PlanningError("plans with moves know no action costs: drop one of the two")
        self._best.raise_bounds(steps=fewest_move_steps(self._problem))
        self._best.raise_bounds(cost=numbered.token_count)
        plan = plan_moves(self._problem)
        if plan is not None:
            self._best.offer(plan, "moves")
        shifts = Greedy(numbered, self._rng).first() if self._is_greedy_safe else None
        if shifts is not None:
            self._best.offer(numbered.plan(shifts), "greedy")

    def _first(self, numbered: IndexedProblem, greedy: Greedy) -> None:
        steps = greedy.first() if self._is_greedy_safe else None
        if steps is not None:
            self._best.offer(numbered.plan(steps), "greedy")
        self._best.raise_bounds(cost=float(numbered.token_count) if self._unit_costs else 0.0)

    @property
    def _unit_costs(self) -> bool:
        return self._problem.action_cost is None

    def _improve(self, numbered: IndexedProblem) -> None:
        """Method fast: first a plan, then the bound, then better plans until stopped."""
        greedy = Greedy(numbered, self._rng)
        self._first(numbered, greedy)
        if self._stop() or not numbered.token_count:
            return
        exhaustion = Exhaustion(numbered) if self._best.plan is None else None
        if exhaustion and self._explore(numbered, exhaustion, self._for(_FIRST_EXPLORATION_S)):
            exhaustion = None
        if self._best.is_infeasible:
            return
        with BackgroundBound(numbered, self._stop) as bound:
            if exhaustion:
                self._explore(numbered, exhaustion, lambda: self._stop() or bound.is_infeasible)
            if self._best.plan is None:
                bound.wait()
            else:
                steps = numbered.steps(self._best.plan)
                for better in greedy.improve(steps, lambda: self._ends(bound)):
                    self._best.offer(numbered.plan(better), "greedy")
                    self._best.raise_bounds(steps=bound.steps)
            self._best.raise_bounds(steps=bound.steps)
            if bound.is_infeasible:
                self._best.set_infeasible()

    def _ends(self, bound: BackgroundBound) -> bool:
        """Whether the greedy should stop: asked to, nothing left to find, or not its problem."""
        plan = self._best.plan
        is_met = bound.is_infeasible or (plan is not None and plan.step_count <= bound.steps)
        return is_met or self._stop() or not self._is_greedy_safe

    def _search(self, numbered: IndexedProblem) -> None:
        """Method exact: a child proves, the greedy here keeps looking for fewer steps."""
        greedy = Greedy(numbered, self._rng)
        self._first(numbered, greedy)
        if self._best.plan is not None and numbered.token_count:
            self._improve_for(numbered, greedy, _FIRST_IMPROVEMENT_S * numbered.token_count)
        exhaustion = Exhaustion(numbered)
        if self._best.plan is None:
            self._explore(numbered, exhaustion, self._for(_FIRST_EXPLORATION_S))
        if self._best.is_infeasible:
            return
        bound = Reachability(numbered, apart=True)
        at_least = bound.fewest_steps(self._stop, lambda steps: self._best.raise_bounds(steps))
        if at_least is None:
            self._best.set_infeasible()
            return
        self._best.raise_bounds(at_least)
        while not self._stop() and not self._best.is_settled:
            if self._prove(numbered, at_least, greedy, exhaustion):
                break

    def _explore(self, numbered: IndexedProblem, exhaustion: Exhaustion, stop: Stop) -> bool:
        """Where no plan is known: True if one came now, or the proof that there is none."""
        exhaustion.explore(stop)
        if exhaustion.plan is not None:
            self._best.offer(numbered.plan(exhaustion.plan), "exhaustion")
        if exhaustion.is_impossible:
            self._best.set_infeasible(exhaustion.reason)
        return exhaustion.plan is not None or exhaustion.is_impossible

    def _prove(
        self, numbered: IndexedProblem, at_least: int, greedy: Greedy, exhaustion: Exhaustion
    ) -> bool:
        """Run two children, from below and from above; True when nothing is left to say.

        False when the fewest steps became known to us but not to a child, which still looks for
        them: both then start afresh from that plan and turn to its actions."""
        known = self._known(numbered)
        proven = self._best.has_fewest_steps
        with ExitStack() as stack:
            children = [
                stack.enter_context(ExactProcess(self._problem, at_least, known, way, self._seed))
                for way in SearchDirection
                if way is SearchDirection.UP or known is not None
            ]
            while not self._stop() and not self._best.is_settled:
                if all(child.has_ended() for child in children):
                    break
                for child in children:
                    for finding in child.findings(_POLL_S / len(children)):
                        self._best.take(finding, numbered)
                if known is None and self._look(numbered, exhaustion):
                    return self._best.is_infeasible
                if known is None or proven:
                    continue
                if self._clock() < self._started_at + _GREEDY_S:
                    self._improve_for(numbered, greedy, _GREEDY_SHARE_S)
                if self._best.has_fewest_steps:
                    return False
        return True

    def _look(self, numbered: IndexedProblem, exhaustion: Exhaustion) -> bool:
        """A share of exhaustion: True if it ended the search."""
        looks = self._best.plan is None and exhaustion.is_open
        return looks and self._explore(numbered, exhaustion, self._for(_GREEDY_SHARE_S))

    def _known(self, numbered: IndexedProblem) -> NumberedSteps | None:
        return None if self._best.plan is None else numbered.steps(self._best.plan)

    def _improve_for(self, numbered: IndexedProblem, greedy: Greedy, seconds: float) -> None:
        assert self._best.plan is not None
        if not self._is_greedy_safe:
            return
        for better in greedy.improve(numbered.steps(self._best.plan), self._for(seconds)):
            self._best.offer(numbered.plan(better), "greedy")

    def _for(self, seconds: float) -> Stop:
        """A stop after so long, or when the stop comes."""
        until = self._clock() + seconds
        return lambda: self._stop() or self._clock() >= until

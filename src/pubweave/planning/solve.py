"""The entry point of planning: a problem and a method in, a judged result out.

Every plan that leaves here, also through ``on_progress``, has passed `validate.validate_plan`;
one that does not pass is a crash, not a result. A stop at any moment gives the best plan so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pubweave.planning.anytime import Anytime
from pubweave.planning.background_bound import BackgroundBound
from pubweave.planning.exact_process import ExactProcess
from pubweave.planning.greedy import Greedy
from pubweave.planning.indexed import IndexedProblem, NumberedSteps, indexed
from pubweave.planning.membership import split_membership
from pubweave.planning.moves import fewest_move_steps, plan_moves
from pubweave.planning.problem import PlanningError, PlanningProblem
from pubweave.planning.progress import OnProgress, Progress, ignore_progress
from pubweave.planning.result import PlanResult
from pubweave.planning.stop import Stop

METHODS = ("auto", "exact", "fast", "ip-naive", "ip-all-paths", "ip-each-path", "bfs")
Clock = Callable[[], float]

# Above this the exact model has too many positions to be built: auto stays with the greedy.
_EXACT_TOKEN_PAIRS_MAX = 4_000_000
_POLL_S = 0.02
# While the child proves, the greedy goes on here, on another core if there is one.
_GREEDY_SHARE_S = 0.02
# Before it starts: per link to change, so that small problems are not kept waiting.
_FIRST_IMPROVEMENT_S = 0.005


def solve(
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
        is ``exact`` where the problem is small enough and ``fast`` otherwise.
    stop : asked often; from the first True on, the best plan so far is returned.
    clock : seconds, for the result's ``seconds``.

    Raises
    ------
    PlanningError : the problem is wrong as stated, or the method does not know an option of it.
    """
    if method not in METHODS:
        raise PlanningError(f"no method {method!r}: use one of {', '.join(METHODS)}")
    if method.startswith("ip-") or method == "bfs":
        from pubweave.planning.paper_methods import solve_by_paper

        return solve_by_paper(
            problem, method=method, stop=stop, clock=clock, seed=seed, on_progress=on_progress
        )
    split = split_membership(problem)
    if split.is_trivial:
        return _Solver(problem, method, stop, clock, seed, on_progress).result()

    def wrapped(progress: Progress) -> None:
        plan = None if progress.plan is None else split.wrap(progress.plan)
        on_progress(Progress(progress.message, plan))

    inner = _Solver(split.inner, method, stop, clock, seed, wrapped).result()
    return split.wrap_result(inner)


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
        self._rng = np.random.default_rng(seed)
        self._best = Anytime(problem, clock, on_progress)

    def result(self) -> PlanResult:
        numbered = indexed(self._problem)
        if self._problem.allow_move:
            self._plan_moves(numbered)
        elif self._exactly(numbered):
            self._search(numbered)
        else:
            self._improve(numbered)
        seconds = self._clock() - self._started_at
        return replace(self._best.result(self._method), seconds=seconds)

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
        shifts = Greedy(numbered, self._rng).first()
        if shifts is not None:
            self._best.offer(numbered.plan(shifts), "greedy")

    def _first(self, numbered: IndexedProblem, greedy: Greedy) -> None:
        steps = greedy.first()
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
        with BackgroundBound(numbered, self._stop) as bound:
            if self._best.plan is None:
                bound.wait()
            else:
                steps = numbered.steps(self._best.plan)
                for better in greedy.improve(steps, lambda: self._stop() or self._meets(bound)):
                    self._best.offer(numbered.plan(better), "greedy")
                    self._best.raise_bounds(steps=bound.steps)
            self._best.raise_bounds(steps=bound.steps)
            if bound.is_infeasible:
                self._best.set_infeasible()

    def _meets(self, bound: BackgroundBound) -> bool:
        plan = self._best.plan
        return bound.is_infeasible or (plan is not None and plan.step_count <= bound.steps)

    def _search(self, numbered: IndexedProblem) -> None:
        """Method exact: a child proves, the greedy here keeps looking for fewer steps."""
        greedy = Greedy(numbered, self._rng)
        self._first(numbered, greedy)
        if self._best.plan is not None and numbered.token_count:
            self._improve_for(numbered, greedy, _FIRST_IMPROVEMENT_S * numbered.token_count)
        if self._stop():
            return
        while not self._stop() and not self._prove(numbered, greedy):
            pass

    def _prove(self, numbered: IndexedProblem, greedy: Greedy) -> bool:
        """Run a child; True when it has nothing more to say.

        False as soon as the greedy has a plan of the fewest steps that the child is still looking
        for: a new child then starts from that plan and turns to its actions."""
        known = self._known(numbered)
        with ExactProcess(self._problem, known) as child:
            while child.is_running and not self._stop():
                for finding in child.findings(_POLL_S):
                    self._best.take(finding, numbered)
                if known is not None and not self._best.has_fewest_steps:
                    self._improve_for(numbered, greedy, _GREEDY_SHARE_S)
                    plan = self._best.plan
                    assert plan is not None
                    if self._best.has_fewest_steps and plan.step_count < len(known):
                        return False
            if not child.is_running:
                child.check_ended_well()
        return True

    def _known(self, numbered: IndexedProblem) -> NumberedSteps | None:
        return None if self._best.plan is None else numbered.steps(self._best.plan)

    def _improve_for(self, numbered: IndexedProblem, greedy: Greedy, seconds: float) -> None:
        assert self._best.plan is not None
        until = self._clock() + seconds

        def ended() -> bool:
            return self._stop() or self._clock() >= until

        for better in greedy.improve(numbered.steps(self._best.plan), ended):
            self._best.offer(numbered.plan(better), "greedy")

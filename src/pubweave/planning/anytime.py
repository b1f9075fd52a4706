"""The best plan so far and what is proven of it: the one place where a result is put together."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from pubweave.model.plans import Bounds, Plan, PlanStatus
from pubweave.planning.bounds.reachability import Reachability
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.exact.search import Finding
from pubweave.planning.problem.indexed import IndexedProblem
from pubweave.planning.problem.problem import (
    OnProgress,
    PlanningProblem,
    PlanningProgress,
    PlanResult,
    Stop,
)

_CLOSE = 1e-6
_UNREACHABLE = "some link of the target cannot be reached from the source under these rules"


class Anytime:
    """Takes plans and bounds in any order; always has a result ready."""

    def __init__(
        self, problem: PlanningProblem, clock: Callable[[], float], on_progress: OnProgress
    ) -> None:
        self.plan: Plan | None = None
        self._problem = problem
        self._clock = clock
        self._started_at = clock()
        self._on_progress = on_progress
        self._steps_at_least = 0
        self._cost_at_least = 0.0
        self._why_infeasible = ""
        self._figures: dict[str, float] = {}

    def offer(self, plan: Plan, origin: str) -> None:
        """Keep the plan if it is better; an invalid plan raises InvalidPlanError."""
        validate_plan(self._problem, plan)
        if self.plan is not None and self._rank(plan) >= self._rank(self.plan):
            return
        self.plan = plan
        self._note("first_plan_s")
        self._figures["best_plan_s"] = self._clock() - self._started_at
        self._note_proof()
        steps, actions = plan.step_count, plan.action_count
        self._tell(f"{origin}: {steps} steps, {actions} actions")

    def exchange(self, plan: Plan, origin: str) -> None:
        """Keep a plan that is no worse in place of the one there is."""
        validate_plan(self._problem, plan)
        assert self.plan is not None
        assert self._rank(plan) <= self._rank(self.plan)
        if plan != self.plan:
            self.plan = plan
            self._tell(f"{origin}: {plan.step_count} steps, {plan.action_count} actions")

    def take(self, finding: Finding, numbered: IndexedProblem) -> None:
        """News of the exact search."""
        if finding.plan is not None:
            self.offer(numbered.plan(finding.plan), "exact")
        self.raise_bounds(finding.steps_at_least, finding.cost_at_least)

    def raise_bounds(self, steps: int | None = None, cost: float | None = None) -> None:
        """No plan has fewer steps; none of the fewest steps is cheaper."""
        if steps is not None and steps > self._steps_at_least:
            self._steps_at_least = steps
            self._tell(f"at least {steps} steps")
        if cost is not None:
            self._cost_at_least = max(self._cost_at_least, cost)
        self._note_proof()

    @property
    def has_fewest_steps(self) -> bool:
        """Whether the plan is proven to have the fewest steps."""
        return self.plan is not None and self.plan.step_count == self._steps_at_least

    @property
    def is_infeasible(self) -> bool:
        """Whether it is proven that there is no plan."""
        return bool(self._why_infeasible)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to find or to prove."""
        return self._status() in (PlanStatus.INFEASIBLE, PlanStatus.OPTIMAL)

    def set_infeasible(self, why: str = _UNREACHABLE) -> None:
        """It is proven that there is no plan, for the reason given."""
        self._why_infeasible = self._why_infeasible or why

    def result(self, method: str) -> PlanResult:
        bounds = Bounds(self._steps_at_least, math.ceil(self._cost_at_least - _CLOSE))
        notes = (self._why_infeasible,) if self.is_infeasible else ()
        seconds = self._clock() - self._started_at
        return PlanResult(
            self._status(), self.plan, bounds, method, seconds, notes, dict(self._figures)
        )

    def _status(self) -> PlanStatus:
        if self.is_infeasible:
            return PlanStatus.INFEASIBLE
        if self.plan is None:
            return PlanStatus.UNKNOWN
        if self.plan.step_count > self._steps_at_least:
            return PlanStatus.FEASIBLE
        if self._cost(self.plan) > self._cost_at_least + _CLOSE:
            return PlanStatus.STEPS_OPTIMAL
        return PlanStatus.OPTIMAL

    def _rank(self, plan: Plan) -> tuple[int, float]:
        return plan.step_count, self._cost(plan)

    def _cost(self, plan: Plan) -> float:
        costs = self._problem.action_cost
        if costs is None:
            return float(plan.action_count)
        return float(sum(costs.get(action, 1.0) for action in plan.actions()))

    def _note_proof(self) -> None:
        if self.has_fewest_steps:
            self._note("steps_proven_s")

    def _note(self, figure: str) -> None:
        self._figures.setdefault(figure, self._clock() - self._started_at)

    def _tell(self, message: str) -> None:
        bounds = Bounds(self._steps_at_least, math.ceil(self._cost_at_least - _CLOSE))
        self._on_progress(PlanningProgress(message, self.plan, bounds))


# The reachability bound of a large problem, proven in a thread while the greedy looks for plans.
#
# The kernel behind it runs without the interpreter lock. The thread looks at the stop between
# kernels and is not waited for: for 10,000 brokers a kernel may take seconds.


_POLL_S = 0.02


class BackgroundBound:
    """``steps`` is a proven lower bound at any moment; use it in a with."""

    def __init__(self, indexed: IndexedProblem, stop: Stop) -> None:
        self.steps = 1
        self.is_infeasible = False
        self._indexed = indexed
        self._stop = stop
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._prove, daemon=True)

    def __enter__(self) -> BackgroundBound:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._left.set()

    def wait(self) -> None:
        """Until the bound is final or the stop comes."""
        while self._thread.is_alive() and not self._stop():
            self._thread.join(_POLL_S)

    def _prove(self) -> None:
        def ended() -> bool:
            return self._left.is_set() or self._stop()

        def tell(steps: int) -> None:
            self.steps = steps

        found = Reachability(self._indexed).fewest_steps(ended, tell)
        if found is None:
            self.is_infeasible = True
        else:
            self.steps = found

"""IPITT's Algorithm 1: ask for a plan of T steps, and for one more while there is none.

One addition to the printed loop: it ends. The each-path set (Algorithm 3) can be without any plan
where one exists, so T is capped, and all-paths, then naive, take over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pubweave.model.ids import BrokerId
from pubweave.model.plans import Bounds, Plan, PlanStatus, Shift
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.paper.highs import HighsSession
from pubweave.planning.paper.integer_program import (
    ActionSet,
    ChosenActions,
    IpOutcome,
    IpProblem,
    IpStatus,
    generate_actions,
    transformation_paths,
)
from pubweave.planning.problem.problem import (
    OnProgress,
    PlanningProblem,
    PlanningProgress,
    PlanResult,
    Stop,
    ignore_progress,
)

_NEXT = {ActionSet.EACH_PATH: ActionSet.ALL_PATHS, ActionSet.ALL_PATHS: ActionSet.NAIVE}
_SLACK_STEPS = 2


def ip_problem(problem: PlanningProblem, kind: ActionSet) -> IpProblem:
    """The numbers of a planning problem, with the actions of one set that may be used at all."""
    names = sorted(problem.source.brokers)
    number = {broker: place for place, broker in enumerate(names)}
    actions = generate_actions(kind, problem.source, problem.target)
    if problem.forbidden:
        never = {
            frozenset((number[a], number[b]))
            for a, b in problem.forbidden
            if a in number and b in number
        }
        keep = [frozenset((i, k)) not in never for i, _, k in actions.tolist()]
        actions = actions[np.array(keep, dtype=bool)]
    costs = None
    if problem.action_cost is not None:
        costs = tuple(
            float(problem.action_cost.get(Shift(names[i], names[j], names[k]), 1.0))
            for i, j, k in actions.tolist()
        )
    return IpProblem(
        len(names),
        tuple((number[a], number[b]) for a, b in sorted(problem.source.links)),
        tuple((number[a], number[b]) for a, b in sorted(problem.target.links)),
        actions,
        costs,
        problem.max_degree,
        problem.disjoint_brokers,
    )


def step_cap(problem: PlanningProblem) -> int:
    """Where looking for a plan with more steps ends: the longest way, then every goal link once."""
    ways = transformation_paths(problem.source, problem.target).values()
    longest = max((len(way) - 1 for way in ways), default=0)
    return longest + len(problem.goal_links) + _SLACK_STEPS


def plan_by_paper(
    problem: PlanningProblem,
    *,
    action_set: ActionSet,
    stop: Stop,
    clock: Callable[[], float],
    seed: int = 0,
    max_steps: int | None = None,
    on_progress: OnProgress = ignore_progress,
) -> PlanResult:
    """Plan with the paper's program; both topologies must have the same brokers."""
    with HighsSession(seed) as highs:
        run = _Run(problem, highs, stop, clock, on_progress)
        return run.result(action_set, max_steps or step_cap(problem))


@dataclass
class _Run:
    problem: PlanningProblem
    highs: HighsSession
    stop: Stop
    clock: Callable[[], float]
    on_progress: OnProgress
    least_steps: int = 0
    notes: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def result(self, action_set: ActionSet, max_steps: int) -> PlanResult:
        started_at = self.clock()
        kind: ActionSet | None = action_set
        status, plan = PlanStatus.UNKNOWN, None
        while kind is not None:
            status, plan = self._algorithm_1(kind, max_steps)
            if status is not PlanStatus.INFEASIBLE:
                break
            kind, status = self._fall_back(kind, max_steps)
        if plan is not None:
            validate_plan(self.problem, plan)
        if self.problem.allow_move and status in (PlanStatus.OPTIMAL, PlanStatus.STEPS_OPTIMAL):
            self.notes.append("the paper's program knows shifts only: moves might need fewer steps")
            status = PlanStatus.FEASIBLE
        return PlanResult(
            status,
            plan,
            self._bounds(status, plan),
            f"ip-{action_set.value}",
            self.clock() - started_at,
            tuple(self.notes),
            self.figures,
        )

    def _fall_back(self, kind: ActionSet, max_steps: int) -> tuple[ActionSet | None, PlanStatus]:
        larger = _NEXT.get(kind)
        note = f"the {kind.value} action set has no plan within {max_steps} steps"
        self.notes.append(note if larger is None else f"{note}; fell back to {larger.value}")
        return larger, PlanStatus.UNKNOWN

    def _algorithm_1(self, kind: ActionSet, max_steps: int) -> tuple[PlanStatus, Plan | None]:
        problem = ip_problem(self.problem, kind)
        if not self.problem.goal_links:
            return PlanStatus.OPTIMAL, Plan()
        self.figures.setdefault("actions_considered", len(problem.actions))
        for t in range(1, max_steps + 1):
            outcome = self._solve(problem, kind, t)
            plan = None if outcome.steps is None else self._plan(problem, outcome.steps)
            if outcome.status in (IpStatus.STOPPED, IpStatus.FAILED):
                return self._stopped(outcome, plan, t)
            if plan is not None:
                proven = PlanStatus.OPTIMAL if kind is ActionSet.NAIVE else PlanStatus.FEASIBLE
                return proven, plan
            self._prove(kind, t)
        return PlanStatus.INFEASIBLE, None

    def _solve(self, problem: IpProblem, kind: ActionSet, t: int) -> IpOutcome:
        self.on_progress(PlanningProgress(f"{kind.value}: is there a plan of {t} steps?"))

        def tell(steps: ChosenActions) -> None:
            plan = self._plan(problem, steps)
            self.on_progress(
                PlanningProgress(f"{kind.value}: plan of {plan.step_count} steps", plan)
            )

        outcome = self.highs.solve(problem, t, self.stop, tell)
        if outcome.variables:
            self.figures.update(
                step_limit=t, variables=outcome.variables, constraints=outcome.constraints
            )
            largest = max(outcome.memory_mb, self.figures.get("memory_mb", 0.0))
            self.figures["memory_mb"] = largest
        return outcome

    def _stopped(
        self, outcome: IpOutcome, plan: Plan | None, t: int
    ) -> tuple[PlanStatus, Plan | None]:
        why = "stopped" if outcome.status is IpStatus.STOPPED else f"gave up ({outcome.detail})"
        self.notes.append(f"{why} while asking for {t} steps or more")
        status = PlanStatus.UNKNOWN if plan is None else PlanStatus.FEASIBLE
        return status, plan

    def _plan(self, problem: IpProblem, steps: ChosenActions) -> Plan:
        """Empty steps are feasible in the program and mean nothing: they are dropped."""
        names: list[BrokerId] = sorted(self.problem.source.brokers)
        rows = problem.actions
        shifts = (
            tuple(Shift(*(names[broker] for broker in rows[row].tolist())) for row in step)
            for step in steps
        )
        return Plan(tuple(step for step in shifts if step))

    def _prove(self, kind: ActionSet, infeasible_to: int) -> None:
        # Only the set of all shifts says something about all plans, and nothing about moves.
        if kind is ActionSet.NAIVE and not self.problem.allow_move:
            self.least_steps = max(self.least_steps, infeasible_to + 1)

    def _bounds(self, status: PlanStatus, plan: Plan | None) -> Bounds:
        if plan is not None and status is PlanStatus.OPTIMAL:
            return Bounds(plan.step_count, plan.action_count)
        goal_links = len(self.problem.goal_links)
        return Bounds(max(min(1, goal_links), self.least_steps), goal_links)

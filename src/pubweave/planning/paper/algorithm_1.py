"""IPITT's Algorithm 1: ask for a plan of T steps, and for one more while there is none.

Two additions to the printed loop. It starts at a remembered T where it has one (as the paper's own
implementation does) and then also looks below, so the promise of fewest steps is kept. And it ends:
the each-path set (Algorithm 3) can be without any plan where one exists, so T is capped, and
all-paths, then naive, take over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pubweave.model.ids import BrokerId
from pubweave.model.plans import Bounds, Plan, PlanStatus, Shift
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.paper.best_first_search import plan_by_bfs
from pubweave.planning.paper.highs import HighsSession
from pubweave.planning.paper.integer_program import (
    ActionSet,
    IpProblem,
    generate_actions,
    transformation_paths,
)
from pubweave.planning.paper.outcome import ChosenActions, IpOutcome, IpStatus
from pubweave.planning.problem.membership import split_membership
from pubweave.planning.problem.problem import PlanningError, PlanningProblem, validate_problem
from pubweave.planning.problem.result import (
    OnProgress,
    PlanningProgress,
    PlanResult,
    Stop,
    ignore_progress,
)

_NEXT = {ActionSet.EACH_PATH: ActionSet.ALL_PATHS, ActionSet.ALL_PATHS: ActionSet.NAIVE}
_SLACK_STEPS = 2


class RememberedSteps:
    """Where Algorithm 1 starts: T by overlay size and share of links changed (IPITT IV-B)."""

    def __init__(self, known: dict[str, int] | None = None) -> None:
        self.known = dict(known or {})

    def start(self, problem: PlanningProblem) -> int:
        """The T that the last problem of this kind needed, or 1."""
        return self.known.get(self._key(problem), 1)

    def remember(self, problem: PlanningProblem, step_count: int) -> None:
        self.known[self._key(problem)] = max(1, step_count)

    @staticmethod
    def _key(problem: PlanningProblem) -> str:
        links = max(1, len(problem.source.links))
        percent = round(100 * len(problem.goal_links) / links)
        return f"{len(problem.source.brokers)} brokers, {percent}%"


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
    memory: RememberedSteps | None = None,
    max_steps: int | None = None,
    on_progress: OnProgress = ignore_progress,
) -> PlanResult:
    """Plan with the paper's program; both topologies must have the same brokers."""
    with HighsSession(seed) as highs:
        run = _Run(problem, highs, stop, clock, memory or RememberedSteps(), on_progress)
        return run.result(action_set, max_steps or step_cap(problem))


@dataclass
class _Run:
    problem: PlanningProblem
    highs: HighsSession
    stop: Stop
    clock: Callable[[], float]
    memory: RememberedSteps
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
            self.memory.remember(self.problem, plan.step_count)
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
        best: Plan | None = None
        infeasible_to, t = 0, min(self.memory.start(self.problem), max_steps)
        while infeasible_to < max_steps:
            outcome = self._solve(problem, kind, t)
            plan = None if outcome.steps is None else self._plan(problem, outcome.steps)
            if outcome.status in (IpStatus.STOPPED, IpStatus.FAILED):
                return self._stopped(outcome, plan or best, infeasible_to)
            if plan is None:
                infeasible_to, t = t, t + 1
                self._prove(kind, infeasible_to)
            else:
                best, t = plan, plan.step_count - 1
            if best is not None and infeasible_to == best.step_count - 1:
                proven = PlanStatus.OPTIMAL if kind is ActionSet.NAIVE else PlanStatus.FEASIBLE
                return proven, best
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
        self, outcome: IpOutcome, plan: Plan | None, infeasible_to: int
    ) -> tuple[PlanStatus, Plan | None]:
        why = "stopped" if outcome.status is IpStatus.STOPPED else f"gave up ({outcome.detail})"
        self.notes.append(f"{why} while asking for {infeasible_to + 1} steps or more")
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


# The paper's methods behind one door: its three integer programs and its baseline.
#
# A problem comes in as the user states it and a judged result for it goes out: contradictions are
# refused, appends and detaches are taken out and put back around the plan.


_ACTION_SETS = {f"ip-{kind.value}": kind for kind in ActionSet}
PAPER_METHODS = (*_ACTION_SETS, "bfs", "bfs-parallel")


def solve_by_paper(
    problem: PlanningProblem,
    *,
    method: str,
    stop: Stop,
    clock: Callable[[], float],
    seed: int = 0,
    on_progress: OnProgress = ignore_progress,
    memory: RememberedSteps | None = None,
) -> PlanResult:
    """Plan by one of `PAPER_METHODS`; ``memory`` is where Algorithm 1 keeps its starting T."""
    if method not in PAPER_METHODS:
        raise PlanningError(f"no method {method!r}: there are {', '.join(PAPER_METHODS)}")
    validate_problem(problem)
    split = split_membership(problem)

    def tell(progress: PlanningProgress) -> None:
        plan = None if progress.plan is None else split.wrap(progress.plan)
        on_progress(PlanningProgress(progress.message, plan, progress.bounds))

    if method in _ACTION_SETS:
        inner = plan_by_paper(
            split.inner,
            action_set=_ACTION_SETS[method],
            stop=stop,
            clock=clock,
            seed=seed,
            memory=memory,
            on_progress=tell,
        )
    else:
        inner = plan_by_bfs(
            split.inner,
            stop=stop,
            clock=clock,
            seed=seed,
            parallel=method == "bfs-parallel",
            on_progress=tell,
        )
    result = split.wrap_result(inner)
    if result.plan is not None:
        validate_plan(problem, result.plan)
    return result

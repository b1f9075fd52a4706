"""The paper's methods behind one door: its three integer programs and its baseline.

A problem comes in as the user states it and a judged result for it goes out: contradictions are
refused, appends and detaches are taken out and put back around the plan.
"""

from __future__ import annotations

from collections.abc import Callable

from pubweave.planning.action_sets import ActionSet
from pubweave.planning.bfs import plan_by_bfs
from pubweave.planning.membership import split_membership
from pubweave.planning.paper_planner import RememberedSteps, plan_by_paper
from pubweave.planning.problem import PlanningError, PlanningProblem, validate_problem
from pubweave.planning.result import OnProgress, PlanResult, Progress, Stop, ignore_progress
from pubweave.planning.validate import validate_plan

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

    def tell(progress: Progress) -> None:
        plan = None if progress.plan is None else split.wrap(progress.plan)
        on_progress(Progress(progress.message, plan, progress.bounds))

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

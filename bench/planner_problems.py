"""The problems that the planner is measured on, and one measured run of one method.

The paper's setting (12 topologies, a share of the links changed) for any seed, the pairs of trees
from measured round-trip times in the shared data folder, and small random problems that brute
force can judge.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pubweave.generate.topologies.trees import change_links, ipitt_topologies
from pubweave.model.plans import PlanStatus
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningProblem, PlanningProgress
from pubweave.planning.solver import solve_problem

RATIO = 0.2


@dataclass(frozen=True)
class Run:
    """One method on one problem. Times are of the caller's clock, from the call on."""

    name: str
    method: str
    limit_s: float
    status: str
    steps: int | None
    actions: int | None
    steps_at_least: int
    actions_at_least: int
    seconds: float
    first_plan_s: float | None
    steps_proven_s: float | None
    trace: tuple[tuple[float, int, int], ...] = field(repr=False)
    """(seconds, steps, actions) of each better plan on the way."""

    @property
    def is_balanced(self) -> bool:
        return "unbalanced" not in self.name

    def seconds_to(self, steps: int) -> float:
        """When a plan of so few steps was there; the limit where there never was one."""
        reached = [at for at, count, _ in self.trace if count <= steps]
        return min(reached, default=self.limit_s)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def paper_problems(
    brokers: int, seed: int, count: int = 12
) -> Iterator[tuple[str, PlanningProblem]]:
    """The first of the paper's 12 topologies, each with a target for this seed."""
    named = list(ipitt_topologies(brokers, seed).items())
    for number, (name, source) in enumerate(named):
        # Spread over degrees and shapes where not all are wanted.
        if number * count // len(named) == (number - 1) * count // len(named):
            continue
        rng = np.random.default_rng([seed, brokers, number])
        yield name, PlanningProblem(source, change_links(source, RATIO, rng))


def measured_problems(brokers_max: int) -> Iterator[tuple[str, PlanningProblem]]:
    """Pairs of trees from measured round-trip times; nothing where the data is absent."""
    folder = Path(os.environ.get("PUBWEAVE_DATA") or "../shared/data")
    path = folder / "itt" / "itt_instances.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        document = json.loads(line)
        if document["changed_links"] and document["n"] <= brokers_max:
            trees = (_tree(document["initial"]), _tree(document["goal"]))
            yield document["id"], PlanningProblem(*trees)


def planned(name: str, problem: PlanningProblem, method: str, limit_s: float, seed: int = 0) -> Run:
    """Run one method within its limit."""
    started_at = time.perf_counter()
    trace: list[tuple[float, int, int]] = []
    proven_at: list[float] = []

    def passed() -> float:
        return time.perf_counter() - started_at

    def tell(progress: PlanningProgress) -> None:
        plan, bounds = progress.plan, progress.bounds
        if plan is None:
            return
        if not trace or (plan.step_count, plan.action_count) < trace[-1][1:]:
            trace.append((passed(), plan.step_count, plan.action_count))
        if bounds is not None and bounds.steps >= plan.step_count:
            proven_at.append(passed())

    result = solve_problem(
        problem,
        method=method,
        stop=lambda: passed() >= limit_s,
        clock=time.perf_counter,
        seed=seed,
        on_progress=tell,
    )
    seconds = passed()
    plan = result.plan
    if plan is not None and (not trace or (plan.step_count, plan.action_count) < trace[-1][1:]):
        trace.append((seconds, plan.step_count, plan.action_count))
    is_proven = result.status in (PlanStatus.OPTIMAL, PlanStatus.STEPS_OPTIMAL)
    return Run(
        name,
        method,
        limit_s,
        result.status.value,
        None if plan is None else plan.step_count,
        None if plan is None else plan.action_count,
        result.bounds.steps,
        result.bounds.actions,
        round(seconds, 4),
        round(trace[0][0], 4) if trace else None,
        round(min(proven_at, default=seconds), 4) if is_proven else None,
        tuple((round(at, 4), steps, actions) for at, steps, actions in trace),
    )


def _tree(links: list[list[float]]) -> Topology:
    return Topology.from_links([(f"b{int(a)}", f"b{int(b)}") for a, b, _ in links])

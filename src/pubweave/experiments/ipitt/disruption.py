"""IPITT's execution evaluation again (Figure 6): what a transformation costs clients and brokers.

Where it is measured (`points`), on which problems and by which plans (`PlanVariant`), and the means
over them, as the paper takes them. One simulated run is `disruption_run`; what the paper says
and what we hold ourselves to is `disruption_targets`. Plans are found by counted tries, not by a
clock, so that the same seed gives the same figures on every machine.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from pubweave.experiments.ipitt.disruption_run import STORE_S, Cost, DisruptionRun, paper_traffic
from pubweave.experiments.ipitt.planning import instances
from pubweave.model.plans import Plan
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.greedy.fewer_rounds import quieter_plan
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.paper.best_first_search import plan_by_bfs
from pubweave.planning.problem.indexed import indexed
from pubweave.planning.problem.problem import PlanningProblem
from pubweave.planning.problem.result import Stop, never
from pubweave.sim.kernel.random_plans import one_by_one

BROKERS, RATIO, SUBSCRIBERS = 60, 0.20, 1000
SIZES, FULL_SIZES = (20, 40, 60), (20, 30, 40, 50, 60, 70, 80)
RATIOS, FULL_RATIOS = (0.10, 0.20, 0.30), (0.05, 0.10, 0.15, 0.20, 0.25, 0.30)
SUBSCRIBER_COUNTS, FULL_SUBSCRIBER_COUNTS = (200, 600, 1000), (200, 400, 600, 800, 1000)
TRIES = 800
"""So many plans are tried per link to change; about a second in all at 60 brokers and 20%."""
TRIES_PER_EXPANSION = 5
"""A topology of BFS takes about as long as this many plans of ours."""


class PlanVariant(enum.Enum):
    """Which plan is carried out, and how."""

    PARALLEL = "side by side"
    """Actions of a step share no broker and run at once (IPITT VI-C)."""
    SERIAL = "one by one"
    """The same plan, one action at a time."""
    FEWEST = "fewest steps"
    """Actions of a step may share brokers, as the integer program allows; those wait."""
    FEWEST_SERIAL = "fewest steps, one by one"
    BFS = "BFS"
    """The paper's baseline: its own plan, one action at a time."""


@dataclass(frozen=True)
class MeasuringPoint:
    """Where something is measured."""

    brokers: int = BROKERS
    ratio: float = RATIO
    subscribers: int = SUBSCRIBERS


@dataclass(frozen=True)
class Case:
    """One problem with one workload, carried out in some ways."""

    point: MeasuringPoint
    topology: int
    workload: int
    ways: tuple[PlanVariant, ...]
    seed: int
    topologies: int
    store_s: tuple[float, float] = STORE_S
    tries: int = TRIES


@dataclass(frozen=True)
class Disruption:
    """One run."""

    point: MeasuringPoint
    topology: str
    workload: int
    way: PlanVariant
    steps: int
    actions: int
    cost: Cost

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self.point),
            "topology": self.topology,
            "workload": self.workload,
            "way": self.way.value,
            "steps": self.steps,
            "actions": self.actions,
            **asdict(self.cost),
        }


@dataclass(frozen=True)
class PointMeans:
    """One way at one point: means over the runs."""

    point: MeasuringPoint
    way: PlanVariant
    runs: int
    steps: float
    actions: float
    cost: dict[str, float]
    """By the names of `Cost`."""


def points(
    sizes: Sequence[int], ratios: Sequence[float], subscribers: Sequence[int], base: MeasuringPoint
) -> list[MeasuringPoint]:
    """Those of Figure 6: one variable at a time around a base point; each once."""
    found = [replace(base, brokers=size) for size in sizes]
    found += [replace(base, ratio=ratio) for ratio in ratios]
    found += [replace(base, subscribers=count) for count in subscribers]
    return list(dict.fromkeys([base, *found]))


def cases(
    where: Iterable[MeasuringPoint],
    *,
    base: MeasuringPoint,
    ways: Sequence[PlanVariant],
    seed: int,
    topologies: int,
    workloads: int,
    store_s: tuple[float, float] = STORE_S,
) -> list[Case]:
    """Every problem at every point; at the base point in every way there is."""
    return [
        Case(
            point,
            topology,
            workload,
            tuple(PlanVariant) if point == base else tuple(ways),
            seed,
            topologies,
            store_s,
        )
        for point in where
        for topology in range(topologies)
        for workload in range(workloads)
    ]


def measure(case: Case) -> Iterator[Disruption]:
    """Carry one case out in each of its ways, always with the same clients."""
    point = case.point
    batch = instances(point.brokers, point.ratio, case.seed, case.topologies)
    instance = batch[case.topology]
    source = instance.problem.source
    traffic = paper_traffic(
        source,
        instance.problem.target,
        subscribers=point.subscribers,
        seed=(case.seed, case.topology, case.workload, point.brokers),
    )
    plans = Plans(instance.problem, case.seed, case.tries)
    for way in case.ways:
        plan = plans.of(way)
        run = DisruptionRun(source, plan, traffic, seed=case.seed, store_s=case.store_s)
        yield Disruption(
            point,
            instance.topology,
            case.workload,
            way,
            plan.step_count,
            plan.action_count,
            run.cost(),
        )


class Plans:
    """The plans that the ways of one problem carry out, each found once."""

    def __init__(self, problem: PlanningProblem, seed: int, tries: int = TRIES) -> None:
        self._problem = problem
        self._seed = seed
        self._tries = tries * max(1, len(problem.goal_links))
        self._found: dict[PlanVariant, Plan] = {}

    def of(self, way: PlanVariant) -> Plan:
        if way not in self._found:
            self._found[way] = self._find(way)
        return self._found[way]

    def _find(self, way: PlanVariant) -> Plan:
        match way:
            case PlanVariant.PARALLEL:
                return self._planned(replace(self._problem, disjoint_brokers=True))
            case PlanVariant.SERIAL:
                return one_by_one(self.of(PlanVariant.PARALLEL))
            case PlanVariant.FEWEST:
                return self._quieter(self._planned(self._problem))
            case PlanVariant.FEWEST_SERIAL:
                return one_by_one(self.of(PlanVariant.FEWEST))
            case PlanVariant.BFS:
                return self._searched()

    def _planned(self, problem: PlanningProblem) -> Plan:
        """The best plan of so many tries of method fast."""
        numbered = indexed(problem)
        greedy = Greedy(numbered, np.random.default_rng(self._seed))
        steps = greedy.first()
        if steps is None:
            raise ValueError("the greedy planner finds no plan for this problem")
        for better in greedy.improve(steps, _after(self._tries)):
            steps = better
        plan = numbered.plan(steps)
        validate_plan(problem, plan)
        return plan

    def _quieter(self, plan: Plan) -> Plan:
        """As `plan make` leaves it: in as few rounds as are found for these steps."""
        plan = quieter_plan(indexed(self._problem), plan, self._seed, never)
        validate_plan(self._problem, plan)
        return plan

    def _searched(self) -> Plan:
        expansions = max(1, self._tries // TRIES_PER_EXPANSION)
        plan = plan_by_bfs(
            self._problem,
            stop=never,
            clock=lambda: 0.0,
            seed=self._seed,
            expansions_max=expansions,
        ).plan
        if plan is None:
            raise ValueError(f"BFS finds no plan with {expansions} expansions: use another seed")
        return plan


def _after(count: int) -> Stop:
    """Stops when asked for the last of so many times."""
    left = iter(range(count - 1))
    return lambda: next(left, None) is None


def means(runs: Iterable[Disruption]) -> list[PointMeans]:
    """Over topologies and workloads, as the paper has them."""
    grouped: dict[tuple[MeasuringPoint, PlanVariant], list[Disruption]] = {}
    for run in runs:
        grouped.setdefault((run.point, run.way), []).append(run)
    return [
        PointMeans(
            point,
            way,
            len(group),
            statistics.fmean(run.steps for run in group),
            statistics.fmean(run.actions for run in group),
            _mean_cost([run.cost for run in group]),
        )
        for (point, way), group in grouped.items()
    ]


def _mean_cost(costs: Sequence[Cost]) -> dict[str, float]:
    names = [field.name for field in fields(Cost) if field.name != "violations"]
    return {name: statistics.fmean(getattr(cost, name) for cost in costs) for name in names}

"""IPITT's execution evaluation again (Figure 6): what a transformation costs clients and brokers.

Where it is measured (`points`), on which problems and by which plans (`PlanVariant`), and the means
over them, as the paper takes them; what the paper says and what we hold ourselves to (`bars`). One
simulated run is `disruption_run`. Plans are found by counted tries, not by a clock, so that the
same seed gives the same figures on every machine.

Figure 6 is judged panel by panel. The paper's figures carry no data; its words are from VI-C.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from pubweave.experiments.experiment import Statement
from pubweave.experiments.ipitt.disruption_run import STORE_S, Cost, DisruptionRun, paper_traffic
from pubweave.experiments.ipitt.planning import instances
from pubweave.model.plans import Plan
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.greedy.fewer_rounds import quieter_plan
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.paper.best_first_search import plan_by_bfs
from pubweave.planning.problem.indexed import indexed
from pubweave.planning.problem.problem import PlanningProblem, Stop, never
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
            self._problem, stop=never, clock=lambda: 0.0, seed=self._seed, expansions_max=expansions
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


EXCESS_MS_MAX = 300.0
SAVING_MIN = 0.55


@dataclass(frozen=True)
class Panel:
    """One panel of Figure 6: ``value`` of `Cost` against ``variable`` of `MeasuringPoint`."""

    letter: str
    variable: str
    value: str
    paper: str


PANELS = (
    Panel("6a", "brokers", "affected_ms", "up to 2 s above the unaffected; more brokers, more"),
    Panel("6b", "brokers", "plan_s", "up to 55% shorter than BFS"),
    Panel("6d", "brokers", "queue_growth", "overlay size does not matter"),
    Panel("6e", "ratio", "affected_ms", "rises by up to 2.2 s"),
    Panel("6f", "ratio", "plan_s", "up to 60% shorter than BFS"),
    Panel("6g", "ratio", "queue_growth", "change ratio does not matter"),
    Panel("6h", "subscribers", "affected_ms", "grows sublinearly"),
    Panel("6i", "subscribers", "plan_s", "grows sublinearly"),
    Panel("6j", "subscribers", "queue_growth", "up to +110% for 5 times the subscribers"),
)


def line(
    means: Sequence[PointMeans], panel: Panel, way: PlanVariant, base: MeasuringPoint
) -> list[PointMeans]:
    """The means of one line of a panel, from left to right."""
    here = [
        mean
        for mean in means
        if mean.way is way
        and replace(base, **{panel.variable: getattr(mean.point, panel.variable)}) == mean.point
    ]
    return sorted(here, key=lambda mean: float(getattr(mean.point, panel.variable)))


def ours(means: Sequence[PointMeans], panel: Panel, base: MeasuringPoint) -> str:
    """What we found, to stand beside the paper's words."""
    found = line(means, panel, PlanVariant.PARALLEL, base)
    if not found:
        return "not measured"
    if panel.value == "affected_ms":
        worst = max(mean.cost["affected_ms"] - mean.cost["unaffected_ms"] for mean in found)
        text = f"up to {worst:.0f} ms above the unaffected"
    elif panel.value == "plan_s":
        text = _saved(means, panel, base)
    else:
        values = [mean.cost["queue_growth"] for mean in found]
        text = f"{min(values):.0f} to {max(values):.0f} publications"
    if panel.variable == "subscribers" and len(found) > 1:
        text += f"; {_growth(found, panel.value)}"
    return text


def _saved(means: Sequence[PointMeans], panel: Panel, base: MeasuringPoint) -> str:
    """How much shorter than one by one, and than BFS where that was measured everywhere."""
    texts = []
    for way, name in ((PlanVariant.SERIAL, "one by one"), (PlanVariant.BFS, "BFS")):
        pairs = list(
            zip(
                line(means, panel, PlanVariant.PARALLEL, base),
                line(means, panel, way, base),
                strict=False,
            )
        )
        savings = [
            1 - fast.cost["plan_s"] / slow.cost["plan_s"]
            for fast, slow in pairs
            if fast.point == slow.point
        ]
        if savings and len(savings) == len(line(means, panel, PlanVariant.PARALLEL, base)):
            least, most = f"{min(savings):.0%}", f"{max(savings):.0%}"
            span = least if least == most else f"{least} to {most}"
            texts.append(f"{span} shorter than {name}")
    return "; ".join(texts) or "alone"


def _growth(found: Sequence[PointMeans], value: str) -> str:
    first, last = found[0], found[-1]
    times = last.point.subscribers / first.point.subscribers
    before, after = first.cost[value], last.cost[value]
    return f"{after / before - 1:+.0%} for {times:g}x" if before else "from nothing"


def exponent(first: tuple[float, float], last: tuple[float, float]) -> float:
    """b of y = a x^b through two points; below 1 is sublinear.

    >>> exponent((1.0, 3.0), (4.0, 6.0))
    0.5
    """
    (x0, y0), (x1, y1) = first, last
    return math.log(y1 / y0) / math.log(x1 / x0)


def bars(
    runs: Sequence[Disruption], means: Sequence[PointMeans], base: MeasuringPoint
) -> list[Statement]:
    """Everything the issue asks of an execution, judged."""
    at_base = {way: [r for r in runs if r.point == base and r.way is way] for way in PlanVariant}
    found = []
    parallel = at_base[PlanVariant.PARALLEL]
    if parallel:
        found += _latency_bars(parallel)
    found += _growth_bars(means, base)
    for name, fast, slow in (
        ("same plan, actions of a step share no broker", PlanVariant.PARALLEL, PlanVariant.SERIAL),
        (
            "the same for plans of fewest steps, which share brokers",
            PlanVariant.FEWEST,
            PlanVariant.FEWEST_SERIAL,
        ),
    ):
        if at_base[fast] and len(at_base[fast]) == len(at_base[slow]):
            found.append(_saving_bar(f"execution time, {name}", at_base[fast], at_base[slow]))
    violated = sum(bool(run.cost.violations) for run in runs)
    deliveries = sum(run.cost.deliveries for run in runs)
    found.append(
        Statement(
            "no run with a violation",
            f"{violated} of {len(runs)} runs, {deliveries:,} deliveries",
            not violated,
            "nothing lost, doubled or out of order",
        )
    )
    return found


def _latency_bars(parallel: Sequence[Disruption]) -> list[Statement]:
    readings: tuple[tuple[str, Callable[[Disruption], float]], ...] = (
        (
            "p99 latency, held on their way against not held meanwhile",
            lambda run: run.cost.affected_ms - run.cost.unaffected_ms,
        ),
        (
            "p99 latency, in transit meanwhile against before and after (the paper's metric)",
            lambda run: run.cost.in_transit_ms - run.cost.quiet_ms,
        ),
    )
    wanted = f"at most {EXCESS_MS_MAX:.0f} ms more"
    return [
        _judged(name, wanted, [of(run) for run in parallel], " ms", lambda v: v <= EXCESS_MS_MAX)
        for name, of in readings
    ]


def _judged(
    name: str, wanted: str, values: Sequence[float], unit: str, is_met: Callable[[float], bool]
) -> Statement:
    """By the mean over the runs, as the paper reports; the range is told."""
    mean = statistics.fmean(values)
    text = f"{mean:.0f}{unit}"
    if len(values) > 1:
        text += f" ({min(values):.0f} to {max(values):.0f} over {len(values)} runs)"
    return Statement(wanted, text, is_met(mean), name)


def _saving_bar(name: str, fast: Sequence[Disruption], slow: Sequence[Disruption]) -> Statement:
    savings = [
        100 * (1 - one.cost.plan_s / other.cost.plan_s)
        for one, other in zip(fast, slow, strict=True)
    ]
    bar = _judged(name, f"at least {SAVING_MIN:.0%} less", savings, "%", _is_saved)
    means = [statistics.fmean(run.cost.plan_s for run in group) for group in (fast, slow)]
    return replace(bar, found=f"{bar.found}; {means[0]:.1f} s against {means[1]:.1f} s")


def _is_saved(percent: float) -> bool:
    return percent >= 100 * SAVING_MIN


def _growth_bars(means: Sequence[PointMeans], base: MeasuringPoint) -> list[Statement]:
    found = []
    for panel in PANELS:
        points = line(means, panel, PlanVariant.PARALLEL, base)
        if panel.variable != "subscribers" or len(points) < 2:
            continue
        ends = [
            (mean.point.subscribers, mean.cost[panel.value]) for mean in (points[0], points[-1])
        ]
        if not all(value > 0 for _, value in ends):
            continue
        power = exponent(*ends)
        name = {
            "affected_ms": "latency of affected",
            "plan_s": "execution time",
            "queue_growth": "queue growth",
        }[panel.value]
        (few, low), (many, high) = ends
        found.append(
            Statement(
                "sublinear",
                f"subscribers^{power:.2f}: {low:.4g} at {few:,}, {high:.4g} at {many:,}",
                power < 1,
                f"{name} with subscribers",
            )
        )
    return found

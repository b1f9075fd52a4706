"""IPITT's Figures 5 and 6 and its Table I as experiments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pubweave.experiments.experiment import (
    Experiment,
    OptionError,
    Report,
    ResultTable,
    Verdicts,
    numbers,
    option,
)
from pubweave.experiments.ipitt import disruption, planning
from pubweave.experiments.ipitt.disruption import (
    PANELS,
    Case,
    Disruption,
    MeasuringPoint,
    PlanVariant,
    bars,
    means,
    ours,
)
from pubweave.experiments.ipitt.planning import (
    FIGURE_5_WORDS,
    METHODS,
    TABLE_1,
    Measured,
    ModelSize,
    averages,
    excess_steps,
    planner_of,
    until,
)
from pubweave.experiments.ipitt.plots_planning import draw_figure_5, draw_figure_6, draw_table_1

LIMIT_S, FULL_LIMIT_S = 5.0, 600.0
TOPOLOGIES, FULL_TOPOLOGIES = 2, 12
WORKLOADS, FULL_WORKLOADS = 1, 2


@dataclass(frozen=True, kw_only=True)
class PlannerOptions:
    """What Figure 5 and Table I have in common."""

    full: bool = option(False, "The paper's own sizes; takes hours.")
    topologies: int | None = option(None, "How many of the paper's 12.", low=1, high=12)
    time_limit: float | None = option(
        None,
        "For each plan. [default: 5, with --full 600]",
        low=0,
        is_above=True,
        metavar="SECONDS",
    )
    seed: int = option(1, low=0)

    @property
    def limit_s(self) -> float:
        return self.time_limit or (FULL_LIMIT_S if self.full else LIMIT_S)

    @property
    def topology_count(self) -> int:
        return self.topologies or (FULL_TOPOLOGIES if self.full else TOPOLOGIES)


# --- Figure 5 ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Figure5Options(PlannerOptions):
    sizes: str | None = option(None, "Overlay sizes at 20%. [default: 10,20,30]", metavar="N,N,...")
    ratios: str | None = option(None, "Change ratios. [default: 0.1,0.2,0.3]", metavar="R,R,...")
    methods: str | None = option(None, "Which methods. [default: all]", metavar="M,M,...")

    @property
    def ratio_size(self) -> int:
        return planning.FULL_RATIO_SIZE if self.full else planning.RATIO_SIZE


MethodTask = tuple[str, tuple[tuple[int, float], ...], Figure5Options]


def _figure_5_tasks(options: Figure5Options) -> list[MethodTask]:
    """A method on all instances, because what it fails at spares it harder ones."""
    sizes = numbers("--sizes", options.sizes, int, 3, 99_999) or (
        planning.FULL_SIZES if options.full else planning.SIZES
    )
    ratios = numbers("--ratios", options.ratios, float, 0, 1) or (
        planning.FULL_RATIOS if options.full else planning.RATIOS
    )
    where = tuple(planning.points(sizes, ratios, options.ratio_size))
    methods = METHODS if options.methods is None else options.methods.split(",")
    for method in methods:
        if method not in METHODS:
            raise OptionError(f"--methods {method}: there are {', '.join(METHODS)}")
    return [(method, where, options) for method in methods]


def _run_method(task: MethodTask) -> Iterator[Measured]:
    method, where, options = task
    return planning.measure(
        where,
        (method,),
        planner_of(options.seed),
        lambda: until(options.limit_s),
        seed=options.seed,
        topologies=options.topology_count,
    )


def _by_point(runs: Sequence[Measured]) -> list[Measured]:
    return sorted(runs, key=lambda run: (run.brokers, run.ratio))


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _figure_5_report(options: Figure5Options, runs: Sequence[Measured]) -> Report:
    runs = _by_point(runs)
    rows = [
        (
            mean.method,
            str(mean.brokers),
            f"{mean.ratio:.0%}",
            f"{mean.found}/{mean.tried}",
            _shown(mean.seconds, ".3f"),
            _shown(mean.steps, ".1f"),
            _shown(mean.actions, ".1f"),
        )
        for mean in averages(runs)
    ]
    title = "ours: means over the topologies on which a plan was found"
    headings = ("method", "brokers", "changed", "found", "time, s", "steps", "actions")
    excess = {method: excess_steps(runs, method) for method in METHODS}
    notes = [
        *(
            f"{method}: at most {share:.0%} more steps than proven fewest"
            for method, share in excess.items()
            if share is not None
        ),
        "the paper says (VI-C, Gurobi on a server):",
        *(f"  {words}" for words in FIGURE_5_WORDS),
    ]
    return Report({"runs": runs}, [ResultTable(title, headings, rows)], notes=notes, numbers=runs)


# --- Table I -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Table1Options(PlannerOptions):
    brokers: int = option(60, flags=("-n", "--brokers"), low=4)
    memory: bool = option(False, "Load each program and measure; naive takes GBs.")


def _table_1_tasks(options: Table1Options) -> list[tuple[int, Table1Options]]:
    return [(number, options) for number in range(options.topology_count)]


def _count_sizes(task: tuple[int, Table1Options]) -> list[ModelSize]:
    """The programs of one topology, for the fewest steps our planner finds."""
    number, options = task
    batch = planning.instances(
        options.brokers, planning.RATIO, options.seed, options.topology_count
    )
    planner, stop = planner_of(options.seed), until(options.limit_s)
    plan = planner(batch[number].problem, "auto", stop).plan
    if plan is None:
        raise OptionError(f"no plan within {options.limit_s:g} s: raise --time-limit")
    with_memory = options.memory and number == 0
    return planning.model_sizes(batch[number], plan.step_count, with_memory=with_memory)


def _table_1_report(options: Table1Options, sizes: Sequence[ModelSize]) -> Report:
    rows = []
    for row in TABLE_1:
        if row.actions is None or row.variables is None or row.constraints is None:
            continue
        facts = 60 * 59
        steps = (row.variables - 5 * facts) / (row.actions + 5 * facts)
        theirs = (row.actions, row.variables, row.constraints, steps, row.memory_mb)
        rows.append((f"{row.name}, paper", *(f"{value:,.0f}" for value in theirs)))
        mine = [size for size in sizes if size.method == row.method]
        medians = [
            f"{median(getattr(size, name) for size in mine):,.0f}"
            for name in ("actions", "variables", "constraints", "step_count")
        ]
        held = next((size.memory_mb for size in mine if size.memory_mb is not None), None)
        rows.append((f"{row.method}, ours", *medians, _shown(held, ",.0f")))
    title = f"Table I (60 brokers) and ours ({options.brokers} brokers, median)"
    headings = ("", "actions", "variables", "constraints", "T", "memory, MB")
    notes = (
        "variables are |A|T + 5F(T+1), F = n(n-1), in the paper's rows as in ours; its constraints "
        "have one row per",
        "proposition more than its appendix (naive, all-paths); its each-path count fits no "
        "reading",
    )
    return Report({"sizes": list(sizes)}, [ResultTable(title, headings, rows)], notes=notes)


# --- Figure 6 ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Figure6Options:
    full: bool = option(False, "The paper's 12 topologies, 2 workloads; takes hours.")
    brokers: int = option(60, flags=("-n", "--brokers"), low=6)
    sizes: str | None = option(None, "Overlay sizes. [default: 20,40,60]", metavar="N,N,...")
    ratios: str | None = option(None, "Change ratios. [default: 0.1,0.2,0.3]", metavar="R,R,...")
    subscribers: str | None = option(None, "[default: 200,600,1000]", metavar="N,N,...")
    topologies: int | None = option(None, "How many of the paper's 12.", low=1, high=12)
    workloads: int | None = option(None, "How many sets of clients.", low=1, high=100)
    store_ms: float = option(
        2.0, "One way to the store, from half to one and a half of this.", low=0.01
    )
    jobs: int = option(1, low=1)
    seed: int = option(1, low=0)

    @property
    def counts(self) -> Sequence[int]:
        """Of subscribers."""
        return numbers("--subscribers", self.subscribers, int, 1, 100_000) or (
            disruption.FULL_SUBSCRIBER_COUNTS if self.full else disruption.SUBSCRIBER_COUNTS
        )

    @property
    def base(self) -> MeasuringPoint:
        return MeasuringPoint(self.brokers, disruption.RATIO, max(self.counts))


def _figure_6_tasks(options: Figure6Options) -> list[Case]:
    full = options.full
    where = disruption.points(
        numbers("--sizes", options.sizes, int, 6, 100_000)
        or (disruption.FULL_SIZES if full else disruption.SIZES),
        numbers("--ratios", options.ratios, float, 0, 0.5)
        or (disruption.FULL_RATIOS if full else disruption.RATIOS),
        options.counts,
        options.base,
    )
    return disruption.cases(
        where,
        base=options.base,
        ways=(PlanVariant.PARALLEL, PlanVariant.SERIAL, PlanVariant.BFS)
        if full
        else (PlanVariant.PARALLEL, PlanVariant.SERIAL),
        seed=options.seed,
        topologies=options.topologies or (FULL_TOPOLOGIES if full else TOPOLOGIES),
        workloads=options.workloads or (FULL_WORKLOADS if full else WORKLOADS),
        store_s=(options.store_ms / 2000, 1.5 * options.store_ms / 1000),
    )


COLUMNS = {
    "way": "{.way.value}", "brokers": "{.point.brokers}", "changed": "{.point.ratio:.0%}",
    "subscribers": "{.point.subscribers:,}", "runs": "{.runs}", "steps": "{.steps:.1f}",
    "actions": "{.actions:.1f}", "affected": "{.cost[affected_ms]:.0f}",
    "unaffected": "{.cost[unaffected_ms]:.0f}", "in transit": "{.cost[in_transit_ms]:.0f}",
    "quiet": "{.cost[quiet_ms]:.0f}", "plan, s": "{.cost[plan_s]:.2f}",
    "queue": "{.cost[queue_growth]:.0f}", "reserve, ms": "{.cost[reserve_ms]:.0f}",
    "hold, ms": "{.cost[hold_ms]:.0f}", "close, ms": "{.cost[close_ms]:.0f}",
}  # fmt: skip


def _figure_6_report(options: Figure6Options, runs: Sequence[Disruption]) -> Report:
    found, base = means(runs), options.base
    title = "means over the runs; latencies at the 99th percentile, in ms"
    table = ResultTable.of(title, found, COLUMNS)
    panels = ResultTable(
        "Figure 6: the paper's words (VI-C, PADRES on a cluster) and ours",
        ("", "the paper", "here"),
        [(panel.letter, panel.paper, ours(found, panel, base)) for panel in PANELS],
        left=3,
    )
    title = f"bars, at {base.brokers} brokers, {base.subscribers:,} subscribers, {base.ratio:.0%}"
    fields = {"name": "about", "wanted": "wanted", "found": "found", "met": "is_met"}
    judged = Verdicts(bars(runs, found, base), "bars", fields, title)
    return Report({"runs": list(runs)}, [table, panels], [judged])


EXPERIMENTS: tuple[Experiment[Any, Any, Any], ...] = (
    Experiment(
        "ipitt-fig5",
        "IPITT Figure 5: planning time, actions and steps of all methods on the same instances.",
        Figure5Options,
        tasks=_figure_5_tasks,
        run=_run_method,
        report=_figure_5_report,
        plot=lambda options, runs, path: draw_figure_5(
            averages(_by_point(runs)), options.ratio_size, path
        ),
        example="--sizes 20,40,60 --methods auto,ip-each-path,bfs",
        unit="plans",
        steps=lambda task: len(task[1]) * task[2].topology_count,
        tells_folder=True,
    ),
    Experiment(
        "ipitt-table1",
        """IPITT Table I: how large the integer programs are at 60 brokers and 20%.

        Sizes are counted, not solved; T is the fewest steps our planner finds for the topology.
        With --full all 12 topologies are counted. Memory (of the first topology) is that of a
        process that has loaded the program, before solving it.""",
        Table1Options,
        tasks=_table_1_tasks,
        run=_count_sizes,
        report=_table_1_report,
        plot=lambda options, sizes, path: draw_table_1(sizes, options.brokers, path),
        unit="topologies",
    ),
    Experiment(
        "ipitt-fig6",
        """IPITT Figure 6: latency, execution time and queues while a plan is carried out.

        Everything is simulated in virtual time, so the figures do not depend on the machine.
        Small by default (some minutes); at 60 brokers, 1000 subscribers and 20% every way of
        execution is measured, and the bars are judged there.""",
        Figure6Options,
        tasks=_figure_6_tasks,
        run=disruption.measure,
        report=_figure_6_report,
        plot=lambda options, runs, path: draw_figure_6(means(runs), options.base, path),
        example="--topologies 1 --sizes 20,60 --jobs 4",
        unit="transformations",
        steps=lambda case: len(case.ways),
    ),
)

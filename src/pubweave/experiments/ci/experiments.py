"""CI's figures and its comparison on real latencies, as experiments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pubweave.experiments.ci import plots
from pubweave.experiments.ci.figures import (
    FULL_SEEDS,
    SEEDS,
    CiTask,
    Run,
    chosen,
    mean,
    percent,
    run_task,
    statements,
    tasks,
)
from pubweave.experiments.ci.real import KINDS, REAL_VARIANTS, RealCost, cost_shares, run_real
from pubweave.experiments.experiment import (
    Experiment,
    Report,
    ResultTable,
    Verdicts,
    data_folder,
    figures,
    option,
)

IN_THIS_PROCESS = "none"
PARTS = ("notifications", "broadcasts", "asking", "reconfigurations", "exchanges")


@dataclass(frozen=True, kw_only=True)
class CiOptions:
    full: bool = option(False, "The paper's 25 underlays of 10,100 routers.")
    underlays: int | None = option(None, f"How many. [default: {SEEDS}]", low=2, high=100)
    seed: int = option(1, low=0)
    master: str = option("local[*]", "Where Spark runs; 'none' does without it.")


def _tasks(figure: str, options: CiOptions) -> list[CiTask]:
    count = options.underlays or (FULL_SEEDS if options.full else SEEDS)
    return tasks(figure, seed=options.seed, count=count, full=options.full)


def _master(options: CiOptions, count: int) -> str | None:
    return None if options.master == IN_THIS_PROCESS else options.master


def _report(figure: str, options: CiOptions, runs: Sequence[Run]) -> Report:
    rows = []
    for variant, point in dict.fromkeys((run.variant, run.point) for run in runs):
        group = chosen(runs, variant, point)
        total = mean([run.total for run in group])
        parts = (mean([getattr(run, name) for run in group]).value for name in PARTS)
        rows.append((
            variant, "" if point is None else f"{point:g}", f"{total.value:,.0f}",
            f"{total.half / total.value:.1%}", *(f"{part:,.0f}" for part in parts),
        ))  # fmt: skip
    title = f"{figure}: means over {len({run.seed for run in runs})} underlays, 95% intervals"
    headings = ("heuristic", "eta or alpha", "cost", "± 95%", *PARTS)
    return Report(
        {"runs": list(runs)},
        [ResultTable(title, headings, rows, left=2)],
        [Verdicts(statements(figure, runs))],
    )


_figure = figures(
    CiOptions, tasks=_tasks, run=run_task, report=_report, draw=plots.draw, unit="underlays",
    spark=_master, tells_folder=True,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CiRealOptions:
    data: Path = field(metadata=data_folder("The folder with latency/ and topology/."))
    seeds: int = option(4, low=2, high=100)
    seed: int = option(1, low=0)
    ticks: int = option(25_000, low=2_500)


def _real_tasks(options: CiRealOptions) -> list[tuple[str, int, CiRealOptions]]:
    seeds = range(options.seed, options.seed + options.seeds)
    return [(kind, seed, options) for kind in KINDS for seed in seeds]


def _run_real(task: tuple[str, int, CiRealOptions]) -> Iterator[RealCost]:
    kind, seed, options = task
    return run_real(kind, seed, options.data, options.ticks)


def _real_report(options: CiRealOptions, costs: Sequence[RealCost]) -> Report:
    numbers: dict[str, dict[str, list[float]]] = {}
    for each in costs:
        numbers.setdefault(each.kind, {}).setdefault(each.variant, []).append(each.cost)
    shares = cost_shares(costs)
    table = ResultTable(
        f"cost against the static tree, {options.seeds} seeds, 95% intervals",
        ("", *KINDS),
        [
            (plots.LABELS[name], *(percent(shares[kind][name]) for kind in KINDS))
            for name in REAL_VARIANTS
        ],
    )
    return Report({"costs": numbers}, [table], numbers=numbers)


EXPERIMENTS = (
    _figure(
        "ci-fig4",
        "CI Figure 4: costs over time of all heuristics, with two total changes.",
        "--underlays 8",
    ),
    _figure("ci-fig5", "CI Figure 5: what a larger neighborhood brings and costs.", "--full"),
    _figure(
        "ci-fig6",
        "CI Figure 6: all heuristics while processing outweighs communication more and more.",
        "--full",
    ),
    Experiment(
        "ci-real",
        "CI, lMST and lMIT where the paper had no data: PlanetLab, Seattle, CAIDA, SNDlib.",
        CiRealOptions,
        tasks=_real_tasks,
        run=_run_real,
        report=_real_report,
        plot=lambda _, costs, path: plots.draw_real(cost_shares(costs), path),
        example="--data ../shared/data",
        unit="worlds",
    ),
)

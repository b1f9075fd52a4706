"""``pubweave reproduce``: the papers' figures and tables again, with their numbers beside ours.

Small by default, so that it ends within minutes on a laptop; ``--full`` is the paper's setting.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli import (
    reproduce_ci,
    reproduce_ci_real,
    reproduce_dynatops,
    reproduce_dynatops_systems,
    reproduce_grape,
    reproduce_shadows,
    reproduce_shadows_real,
)
from pubweave.cli.errors import BadInput
from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark
from pubweave.cli.reproduce_autopilot import autopilot_day
from pubweave.cli.reproduce_disruption import figure_6

if TYPE_CHECKING:
    from pubweave.experiments.ipitt_planning import Averages, Measured, ModelSize
    from pubweave.planning.problem import PlanningProblem
    from pubweave.planning.result import PlanResult, Stop

LIMIT_S, FULL_LIMIT_S = 5.0, 600.0
TOPOLOGIES, FULL_TOPOLOGIES = 2, 12


@click.group()
def reproduce() -> None:
    """The papers' figures and tables, theirs beside ours.

    \b
    Example:
      pubweave reproduce ipitt-table1
      pubweave reproduce ipitt-fig5 --out runs/fig5
      pubweave reproduce ipitt-fig6 --jobs 4
      pubweave reproduce ci-fig4
      pubweave reproduce grape-fig5
      pubweave reproduce autopilot-day
    """


reproduce.add_command(figure_6)
reproduce.add_command(autopilot_day)
for figure in (
    reproduce_ci.figure_4,
    reproduce_ci.figure_5,
    reproduce_ci.figure_6,
    reproduce_ci_real.figure,
    reproduce_dynatops.figure_10,
    reproduce_dynatops.table_1,
    *reproduce_dynatops_systems.FIGURES,
    reproduce_grape.figure_5,
    reproduce_grape.figure_6,
    reproduce_shadows_real.figure,
    *reproduce_shadows.FIGURES,
):
    reproduce.add_command(figure)

_out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the picture and the numbers. [default: runs/<name>]",
)
_full = click.option("--full", is_flag=True, help="The paper's own sizes; takes hours.")
_seed = click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
_limit = click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For each plan. [default: 5, with --full 600]",
)


@reproduce.command("ipitt-fig5")
@_out
@_full
@click.option("--sizes", metavar="N,N,...", help="Overlay sizes at 20%. [default: 10,20,30]")
@click.option("--ratios", metavar="R,R,...", help="Change ratios. [default: 0.1,0.2,0.3]")
@click.option("--methods", metavar="M,M,...", help="Which methods. [default: all]")
@click.option("--topologies", type=click.IntRange(1, 12), help="How many of the paper's 12.")
@_limit
@_seed
@json_option
def figure_5(
    out: Path | None,
    full: bool,
    sizes: str | None,
    ratios: str | None,
    methods: str | None,
    topologies: int | None,
    time_limit: float | None,
    seed: int,
    as_json: bool,
) -> None:
    """IPITT Figure 5: planning time, actions and steps of all methods on the same instances.

    \b
    Example:
      pubweave reproduce ipitt-fig5 --sizes 20,40,60 --methods auto,ip-each-path,bfs
    """
    from pubweave.cli.reproduce_pictures import draw_figure_5
    from pubweave.experiments import ipitt_planning as experiment

    wanted_sizes = _numbers("--sizes", sizes, int) or (
        experiment.FULL_SIZES if full else experiment.SIZES
    )
    wanted_ratios = _numbers("--ratios", ratios, float) or (
        experiment.FULL_RATIOS if full else experiment.RATIOS
    )
    chosen = _methods(methods)
    ratio_size = experiment.FULL_RATIO_SIZE if full else experiment.RATIO_SIZE
    limit_s = time_limit or (FULL_LIMIT_S if full else LIMIT_S)
    count = topologies or (FULL_TOPOLOGIES if full else TOPOLOGIES)
    where = experiment.points(wanted_sizes, wanted_ratios, ratio_size)
    runs: list[Measured] = []
    total = len(where) * len(chosen) * count
    with progress_bar("planning", total, shown=not as_json) as bar:
        for run in experiment.measure(
            where, chosen, _planner(seed), lambda: _until(limit_s), seed=seed, topologies=count
        ):
            runs.append(run)
            bar.to(len(runs))
    means = experiment.averages(runs)
    folder = _folder(out, "ipitt-fig5")
    draw_figure_5(means, ratio_size, folder / "ipitt-fig5.png")
    _write(folder / "ipitt-fig5.json", [run.as_json() for run in runs])
    if as_json:
        print_json({"runs": [run.as_json() for run in runs], "picture": str(folder)})
        return
    _print_figure_5(means, runs)
    remark(f"wrote {folder / 'ipitt-fig5.png'} and {folder / 'ipitt-fig5.json'}")


@reproduce.command("ipitt-table1")
@_out
@_full
@click.option("-n", "--brokers", default=60, show_default=True, type=click.IntRange(min=4))
@click.option("--topologies", type=click.IntRange(1, 12), help="How many of the paper's 12.")
@click.option("--memory", is_flag=True, help="Load each program and measure; naive takes GBs.")
@_limit
@_seed
@json_option
def table_1(
    out: Path | None,
    full: bool,
    brokers: int,
    topologies: int | None,
    memory: bool,
    time_limit: float | None,
    seed: int,
    as_json: bool,
) -> None:
    """IPITT Table I: how large the integer programs are at 60 brokers and 20%.

    Sizes are counted, not solved; T is the fewest steps our planner finds for the topology. With
    --full all 12 topologies are counted. Memory (of the first topology) is that of a process that
    has loaded the program, before solving it.

    \b
    Example:
      pubweave reproduce ipitt-table1
    """
    from pubweave.cli.reproduce_pictures import draw_table_1
    from pubweave.experiments import ipitt_planning as experiment

    limit_s = time_limit or (FULL_LIMIT_S if full else LIMIT_S)
    count = topologies or (FULL_TOPOLOGIES if full else TOPOLOGIES)
    batch = experiment.instances(brokers, experiment.RATIO, seed, count)
    sizes: list[ModelSize] = []
    planner = _planner(seed)
    with progress_bar("counting", len(batch), shown=not as_json) as bar:
        for done, instance in enumerate(batch, 1):
            plan = planner(instance.problem, "auto", _until(limit_s)).plan
            if plan is None:
                raise BadInput(f"no plan within {limit_s:g} s: raise --time-limit")
            with_memory = memory and done == 1
            sizes += experiment.model_sizes(instance, plan.step_count, with_memory=with_memory)
            bar.to(done)
    folder = _folder(out, "ipitt-table1")
    draw_table_1(sizes, brokers, folder / "ipitt-table1.png")
    documents = [
        {name: getattr(size, name) for name in size.__dataclass_fields__} for size in sizes
    ]
    _write(folder / "ipitt-table1.json", documents)
    if as_json:
        print_json({"sizes": documents, "picture": str(folder / "ipitt-table1.png")})
        return
    _print_table_1(sizes, brokers)
    remark(f"wrote {folder / 'ipitt-table1.png'} and {folder / 'ipitt-table1.json'}")


def _planner(seed: int) -> Callable[[PlanningProblem, str, Stop], PlanResult]:
    from pubweave.cli.plan import solve_with

    def plan(problem: PlanningProblem, method: str, stop: Stop) -> PlanResult:
        return solve_with(problem, method=method, stop=stop, clock=time.perf_counter, seed=seed)

    return plan


def _until(limit_s: float) -> Stop:
    end = time.monotonic() + limit_s
    return lambda: time.monotonic() >= end


def _numbers(option: str, text: str | None, kind: type) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"{option} {text}: expected numbers with commas between them") from None
    if not all(2 < value < 100_000 if kind is int else 0 < value <= 1 for value in values):
        raise BadInput(f"{option} {text}: sizes are 3 or more, ratios above 0 and at most 1")
    return values


def _methods(text: str | None) -> Sequence[str]:
    from pubweave.experiments.ipitt_planning import METHODS

    chosen = METHODS if text is None else tuple(text.split(","))
    for method in chosen:
        if method not in METHODS:
            raise BadInput(f"--methods {method}: there are {', '.join(METHODS)}")
    return chosen


def _folder(out: Path | None, name: str) -> Path:
    folder = out or Path("runs") / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(path: Path, documents: list[dict[str, Any]]) -> None:
    body = ",\n".join(json.dumps(document) for document in documents)
    path.write_text(f"[\n{body}\n]\n")


def _print_figure_5(means: Sequence[Averages], runs: Sequence[Measured]) -> None:
    from rich.table import Table

    from pubweave.experiments.ipitt_paper import FIGURE_5_WORDS
    from pubweave.experiments.ipitt_planning import METHODS, excess_steps

    table = Table(title="ours: means over the topologies on which a plan was found")
    for heading in ("brokers", "changed", "method", "found", "time, s", "steps", "actions"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for mean in means:
        table.add_row(
            str(mean.brokers),
            f"{mean.ratio:.0%}",
            mean.method,
            f"{mean.found}/{mean.tried}",
            "-" if mean.seconds is None else f"{mean.seconds:.3f}",
            "-" if mean.steps is None else f"{mean.steps:.1f}",
            "-" if mean.actions is None else f"{mean.actions:.1f}",
        )
    output_console().print(table)
    for method in METHODS:
        excess = excess_steps(runs, method)
        if excess is not None:
            click.echo(f"{method}: at most {excess:.0%} more steps than proven fewest")
    click.echo("the paper says (VI-C, Gurobi on a server):")
    for words in FIGURE_5_WORDS:
        click.echo(f"  {words}")


def _print_table_1(sizes: Sequence[ModelSize], brokers: int) -> None:
    from rich.table import Table

    from pubweave.experiments.ipitt_paper import TABLE_1

    table = Table(title=f"Table I (60 brokers) and ours ({brokers} brokers, median)")
    for heading in ("", "actions", "variables", "constraints", "T", "memory, MB"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in TABLE_1:
        if row.actions is None or row.variables is None or row.constraints is None:
            continue
        facts = 60 * 59
        steps = (row.variables - 5 * facts) / (row.actions + 5 * facts)
        table.add_row(
            f"{row.name}, paper",
            f"{row.actions:,}",
            f"{row.variables:,}",
            f"{row.constraints:,}",
            f"{steps:.0f}",
            f"{row.memory_mb:,.0f}",
        )
        ours = [size for size in sizes if size.method == row.method]
        medians = [
            f"{median(getattr(size, name) for size in ours):,.0f}"
            for name in ("actions", "variables", "constraints", "step_count")
        ]
        held = [size.memory_mb for size in ours if size.memory_mb is not None]
        table.add_row(f"{row.method}, ours", *medians, f"{held[0]:,.0f}" if held else "-")
    output_console().print(table)
    click.echo(
        "variables are |A|T + 5F(T+1), F = n(n-1), in the paper's rows as in ours; its constraints "
        "have one row per\nproposition more than its appendix (naive, all-paths); its each-path "
        "count fits no reading"
    )

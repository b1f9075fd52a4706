"""``pubweave reproduce ci-fig4|ci-fig5|ci-fig6``: the CI heuristic in the paper's evaluation.

At flow level: notifications grouped by set of brokers, decisions by the rules that brokers use.
Underlays run side by side through Spark; ``--master none`` runs them one after another without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark

if TYPE_CHECKING:
    from pubweave.experiments.ci.figures import Run, Task
    from pubweave.experiments.ci.statements import Statement

IN_THIS_PROCESS = "none"


def _options(command: Any) -> Any:
    options = [
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            help="Directory for the picture and the numbers. [default: runs/<name>]",
        ),
        click.option("--full", is_flag=True, help="The paper's 25 underlays of 10,100 routers."),
        click.option("--underlays", type=click.IntRange(2, 100), help="How many. [default: 4]"),
        click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0)),
        click.option(
            "--master",
            default="local[*]",
            show_default=True,
            help="Where Spark runs; 'none' does without it.",
        ),
        json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command("ci-fig4")
@_options
def figure_4(**options: Any) -> None:
    """CI Figure 4: costs over time of all heuristics, with two total changes.

    \b
    Example:
      pubweave reproduce ci-fig4 --underlays 8
    """
    _reproduce("ci-fig4", **options)


@click.command("ci-fig5")
@_options
def figure_5(**options: Any) -> None:
    """CI Figure 5: what a larger neighborhood brings and costs.

    \b
    Example:
      pubweave reproduce ci-fig5 --full
    """
    _reproduce("ci-fig5", **options)


@click.command("ci-fig6")
@_options
def figure_6(**options: Any) -> None:
    """CI Figure 6: all heuristics while processing outweighs communication more and more.

    \b
    Example:
      pubweave reproduce ci-fig6 --full
    """
    _reproduce("ci-fig6", **options)


def _reproduce(
    figure: str,
    *,
    out: Path | None,
    full: bool,
    underlays: int | None,
    seed: int,
    master: str,
    as_json: bool,
) -> None:
    from pubweave.experiments.ci.figures import FULL_SEEDS, SEEDS, tasks
    from pubweave.experiments.ci.plots import draw
    from pubweave.experiments.ci.statements import statements

    count = underlays or (FULL_SEEDS if full else SEEDS)
    folder = out or Path("runs") / figure
    folder.mkdir(parents=True, exist_ok=True)
    runs = _run(tasks(figure, seed=seed, count=count, full=full), master, folder, as_json)
    said = statements(figure, runs)
    draw(figure, runs, folder / f"{figure}.png")
    lines = ",\n".join(json.dumps(run.as_json()) for run in runs)
    (folder / f"{figure}.json").write_text(f"[\n{lines}\n]\n")
    if as_json:
        rows = [
            {"statement": each.wanted, "found": each.found, "met": each.is_met} for each in said
        ]
        runs_json = [run.as_json() for run in runs]
        print_json({"statements": rows, "runs": runs_json, "picture": str(folder)})
        return
    _print(figure, runs, said)
    remark(f"wrote {folder / figure}.png and .json")


def _run(listed: Sequence[Task], master: str, folder: Path, as_json: bool) -> list[Run]:
    from pubweave.experiments.ci.figures import run_task

    found: list[Run] = []
    with progress_bar("underlays", len(listed), shown=not as_json) as bar:
        if master == IN_THIS_PROCESS:
            for number, task in enumerate(listed, 1):
                found.extend(run_task(task))
                bar.to(number)
            return found
        for number, runs in enumerate(_by_spark(run_task, listed, master, folder), 1):
            found.extend(runs)
            bar.to(number)
    return found


def _by_spark(
    run_task: Callable[[Task], list[Run]], listed: Sequence[Task], master: str, folder: Path
) -> list[list[Run]]:
    """A task for each underlay, in their order."""
    from pubweave.pipeline.session import spark_session

    session = spark_session(master, quick=True, log=folder / "spark.log", name="pubweave reproduce")
    try:
        context = session.sparkContext
        found: list[list[Run]] = context.parallelize(listed, len(listed)).map(run_task).collect()
        return found
    finally:
        session.stop()


def _print(figure: str, runs: Sequence[Run], said: Sequence[Statement]) -> None:
    from rich.table import Table

    from pubweave.experiments.ci.figures import chosen, mean

    console = output_console()
    keys = list(dict.fromkeys((run.variant, run.point) for run in runs))
    table = Table(title=f"{figure}: means over {len({run.seed for run in runs})} underlays")
    for heading in ("heuristic", "eta or alpha"):
        table.add_column(heading)
    for heading in (
        "cost",
        "± 95%",
        "notifications",
        "broadcasts",
        "reconfigurations",
        "exchanges",
    ):
        table.add_column(heading, justify="right")
    for variant, point in keys:
        group = chosen(runs, variant, point)
        total = mean([run.total for run in group])
        parts = [
            mean([getattr(run, name) for run in group]).value
            for name in ("notifications", "broadcasts", "reconfigurations", "exchanges")
        ]
        table.add_row(
            variant,
            "" if point is None else f"{point:g}",
            f"{total.value:,.0f}",
            f"{total.half / total.value:.1%}",
            *(f"{part:,.0f}" for part in parts),
        )
    console.print(table)
    verdicts = Table(title="what the paper says and what we promised, and what was found")
    for heading in ("statement", "found (95% interval)", ""):
        verdicts.add_column(heading)
    for each in said:
        verdict = "[green]met[/green]" if each.is_met else "[red]not met[/red]"
        verdicts.add_row(each.wanted, each.found, verdict)
    console.print(verdicts)

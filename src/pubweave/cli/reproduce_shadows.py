"""``pubweave reproduce shadows-fig2`` to ``shadows-fig8``: the evaluation of Shadows again.

The nodes, topics and rounds are the paper's by default; ``--full`` is three distributions and five
seeds. Low-ODA is rebuilt after every 25th round only, with ``--full`` every 10th.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark

if TYPE_CHECKING:
    from pubweave.experiments.ci_statements import Statement
    from pubweave.experiments.shadows_figures import Row, Task

ABOUT = {
    "shadows-fig2": "backups chosen greedily: backups and primaries by number of topics.",
    "shadows-fig3": "backups chosen by primal-dual: backups and primaries by number of topics.",
    "shadows-fig4": "degrees under churn with greedy and with primal-dual backups.",
    "shadows-fig5": "the maximum degree under churn for lambda from 1 to 4.",
    "shadows-fig6": "degrees under churn: Shadow, Naive, Low-ODA, and our lean rule.",
    "shadows-fig7": "how long rounds take, beside Low-ODA from scratch.",
    "shadows-fig8": "how many links change, beside Low-ODA from scratch.",
}
POPULARITIES = ("uniform", "zipf", "exponential")
FULL_SEEDS = 5
OPTIONS = [
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Directory for the picture and the numbers. [default: runs/<name>]",
    ),
    click.option("--full", is_flag=True, help="Three distributions and five seeds; minutes."),
    click.option(
        "--popularity",
        "popularities",
        multiple=True,
        type=click.Choice(POPULARITIES),
        help="Of topics; repeatable. [default: uniform, with --full all]",
    ),
    click.option("--seeds", type=click.IntRange(min=1), help="How many. [default: 1, --full: 5]"),
    click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0)),
    click.option("--nodes", default=2_000, show_default=True, type=click.IntRange(min=10)),
    click.option("--topics", default=200, show_default=True, type=click.IntRange(min=1)),
    click.option("--rounds", default=1_000, show_default=True, type=click.IntRange(min=4)),
    click.option(
        "--low-oda-every",
        type=click.IntRange(min=1),
        metavar="ROUNDS",
        help="Rebuild by Low-ODA so often. [default: 25, --full: 10]",
    ),
    json_option,
]


def _command(figure: str) -> click.Command:
    number = figure.removeprefix("shadows-fig")

    def run(**options: Any) -> None:
        _reproduce(figure, **options)

    run.__doc__ = f"""Shadows Figure {number}: {ABOUT[figure]}

    \\b
    Example:
      pubweave reproduce {figure} --popularity zipf --seeds 3
    """
    command: Any = run
    for option in reversed(OPTIONS):
        command = option(command)
    made: click.Command = click.command(figure)(command)
    return made


def _reproduce(
    figure: str,
    *,
    out: Path | None,
    full: bool,
    popularities: tuple[str, ...],
    seeds: int | None,
    seed: int,
    low_oda_every: int | None,
    as_json: bool,
    **sizes: int,
) -> None:
    from pubweave.cli.reproduce_shadows_pictures import draw
    from pubweave.experiments.shadows_figures import run_task, tasks
    from pubweave.experiments.shadows_statements import statements
    from pubweave.generate.churn_rounds import Popularity

    count = seeds or (FULL_SEEDS if full else 1)
    every = min(low_oda_every or (10 if full else 25), sizes["rounds"])
    names = popularities or (POPULARITIES if full else POPULARITIES[:1])
    listed: list[Task] = tasks(
        figure,
        seeds=range(seed, seed + count),
        popularities=[Popularity(name) for name in names],
        sizes={**sizes, "low_oda_every": every},
    )
    rows: list[Row] = []
    with progress_bar("instances", len(listed), shown=not as_json) as bar:
        for number, task in enumerate(listed, 1):
            rows += run_task(task, time.perf_counter)
            bar.to(number)
    folder = out or Path("runs") / figure
    folder.mkdir(parents=True, exist_ok=True)
    draw(figure, rows, folder / f"{figure}.png")
    lines = ",\n".join(json.dumps(row) for row in rows)
    (folder / f"{figure}.json").write_text(f"[\n{lines}\n]\n")
    said = statements(figure, rows)
    if as_json:
        found = [{"statement": s.wanted, "found": s.found, "met": s.is_met} for s in said]
        print_json({"statements": found, "rows": len(rows), "folder": str(folder)})
        return
    _print(figure, rows, said)
    remark(f"wrote {folder / figure}.png and .json")


def _print(figure: str, rows: Sequence[Row], said: Sequence[Statement]) -> None:
    from rich.table import Table

    from pubweave.experiments.shadows_figures import chosen, mean_of

    columns = [
        name
        for name in (
            "backups",
            "primaries",
            "average_degree",
            "max_degree",
            "repair_ms",
            "build_ms",
        )
        if any(name in row for row in rows)
    ]
    table = Table(title=f"{figure}: means over nodes or rounds")
    for heading in ("topics", "variant", *columns):
        table.add_column(heading.replace("_", " "))
    for popularity in dict.fromkeys(row["popularity"] for row in rows):
        for variant in dict.fromkeys(row["variant"] for row in rows):
            own = chosen(rows, popularity=popularity, variant=variant)
            shown = [f"{mean_of(own, name):.3f}" if name in own[0] else "" for name in columns]
            table.add_row(popularity, variant, *shown)
    console = output_console()
    console.print(table)
    verdicts = Table(title="what the paper says and what we promised, and what was found")
    for heading in ("statement", "found", ""):
        verdicts.add_column(heading)
    for each in said:
        verdict = "[green]met[/green]" if each.is_met else "[red]not met[/red]"
        verdicts.add_row(each.wanted, each.found, verdict)
    console.print(verdicts)


FIGURES = tuple(_command(figure) for figure in ABOUT)

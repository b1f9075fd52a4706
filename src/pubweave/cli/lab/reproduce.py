"""``pubweave reproduce``: the papers' figures and tables again, with their numbers beside ours.

A verb for each experiment of `experiments/runner.py`; this module turns its options into flags,
runs it, and prints. Small by default, so that it ends within minutes on a laptop; ``--full`` is the
paper's setting.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import MISSING, Field, fields
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import click

from pubweave.cli.errors import FAILED, blaming
from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark
from pubweave.experiments.experiment import Experiment, OptionFacts, Report
from pubweave.experiments.runner import EXPERIMENTS, InterruptedRunError, json_of
from pubweave.experiments.runner import reproduce as run_experiment

if TYPE_CHECKING:
    from pubweave.experiments.experiment import ResultTable

ESTIMATED_AFTER = 4
"""Tasks: by then the first variants have been seen, which differ in how long they take."""


@click.group()
def reproduce() -> None:
    """The papers' figures and tables, theirs beside ours.

    Ctrl-C ends a run and keeps the rows so far in NAME.partial.json.

    \b
    Example:
      pubweave reproduce ipitt-table1
      pubweave reproduce ipitt-fig5 --out runs/fig5
      pubweave reproduce ipitt-fig6 --jobs 4
      pubweave reproduce ci-fig4
      pubweave reproduce grape-fig5
      pubweave reproduce autopilot-day
    """


def _command(experiment: Experiment[Any, Any, Any]) -> click.Command:
    name = experiment.name
    hints = get_type_hints(experiment.options)
    example = f"pubweave reproduce {name} {experiment.example}".rstrip()

    @click.pass_context
    def run(ctx: click.Context, /, out: Path | None, as_json: bool, **given: Any) -> None:
        folder = out or Path("runs") / name
        report = _run(experiment, experiment.options(**given), folder, shown=not as_json)
        if as_json:
            print_json(json_of(experiment, report, folder))
        else:
            _print(report)
            written = f"{folder / name}.json"
            remark(f"wrote {written}" + (" and .png" if experiment.plot is not None else ""))
        ctx.exit(FAILED if experiment.must_meet and not report.is_met else 0)

    kind = "picture and the numbers" if experiment.plot is not None else "numbers"
    command = click.Command(
        name,
        callback=run,
        params=[_option(each, hints[each.name]) for each in fields(experiment.options)],
        help=f"{cleandoc(experiment.about)}\n\n\b\nExample:\n  {example}",
    )
    command.params.append(
        click.Option(
            ["--out"],
            type=click.Path(file_okay=False, path_type=Path),
            help=f"Directory for the {kind}. [default: runs/{name}]",
        )
    )
    return json_option(command)


def _option(each: Field[Any], hint: Any) -> click.Option:
    """A flag for a field of the options."""
    facts: OptionFacts = each.metadata["option"]
    is_required = each.default is MISSING
    kind = hint if isinstance(hint, type) and not get_args(hint) else get_args(hint)[0]
    shows_default = not is_required and each.default not in (None, False, ())
    return click.Option(
        [*(facts.flags or [f"--{each.name.replace('_', '-')}"]), each.name],
        type=_type(kind, facts),
        is_flag=True if kind is bool else None,
        multiple=get_origin(hint) is tuple,
        required=is_required,
        default=None if is_required else each.default,
        show_default=(facts.default_words or True) if shows_default else False,
        metavar=facts.metavar,
        envvar=facts.envvar,
        help=facts.about or None,
    )


def _type(kind: type, facts: OptionFacts) -> Any:
    if facts.choices:
        return click.Choice(facts.choices)
    if kind in (int, float):
        bounds: dict[str, Any] = {"min": facts.low, "max": facts.high, "min_open": facts.is_above}
        return click.IntRange(**bounds) if kind is int else click.FloatRange(**bounds)
    if kind is Path:
        return click.Path(file_okay=False, exists=True, path_type=Path)
    return None if kind is bool else str


def _run(
    experiment: Experiment[Any, Any, Any], options: Any, folder: Path, *, shown: bool
) -> Report:
    has_data = getattr(options, "data", None) is not None
    if shown and not has_data and hasattr(options, "data"):
        remark("no --data: what would be read from there is generated instead")
    began = time.monotonic()
    with (
        progress_bar(experiment.unit, None, shown=shown) as bar,
        blaming("--data") if has_data else contextlib.nullcontext(),
    ):

        def on_progress(done: int, total: int) -> None:
            bar.to(done, total)
            if shown and done == ESTIMATED_AFTER < total:
                minutes = (time.monotonic() - began) * total / done / 60
                if minutes > 1:
                    remark(f"{total} {experiment.unit} will take about {minutes:.0f} min")

        try:
            return run_experiment(experiment, options, folder, on_progress)
        except InterruptedRunError as error:
            remark(str(error))
            raise


def _print(report: Report) -> None:
    console = output_console()
    verdicts = [each.table() for each in report.verdicts if each.statements]
    for table in (*report.tables, *verdicts):
        console.print(_drawn(table))
    for note in report.notes:
        click.echo(note)


def _drawn(table: ResultTable) -> Any:
    from rich.table import Table as Drawing
    from rich.text import Text

    drawing = Drawing(title=table.title)
    for place, heading in enumerate(table.headings):
        drawing.add_column(heading, justify="left" if place < table.left else "right")
    colours = {"met": "green", "not": "red"}
    for row in table.rows:
        *cells, last = (Text(cell) for cell in row)
        last.stylize(colours.get(last.plain.partition(" ")[0], ""))
        drawing.add_row(*cells, last)
    return drawing


for _experiment in EXPERIMENTS.values():
    reproduce.add_command(_command(_experiment))

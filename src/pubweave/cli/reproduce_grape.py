"""``pubweave reproduce grape-fig5|grape-fig6``: publishers that move, in the paper's evaluation.

Real brokers trace, select and migrate in virtual time. How long that takes depends on the
machine, what comes of it does not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark

if TYPE_CHECKING:
    from pubweave.experiments.grape.figures import Task
    from pubweave.experiments.grape.run import Outcome
    from pubweave.experiments.grape.setting import Setting
    from pubweave.experiments.grape.statements import Headline, Statement


ESTIMATED_AFTER = 4


def _options(command: Any) -> Any:
    options = [
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            help="Directory for the picture and the numbers. [default: runs/<name>]",
        ),
        click.option(
            "--data",
            envvar="PUBWEAVE_DATA",
            type=click.Path(file_okay=False, exists=True, path_type=Path),
            help="The folder with stocks/ and latency/; without it both are generated. "
            "[or PUBWEAVE_DATA]",
        ),
        click.option(
            "--full",
            is_flag=True,
            help="The paper's 18 minutes, 40 publishers, more points: over an hour on a core.",
        ),
        click.option("--publishers", type=click.IntRange(1, 100), help="[default: 10, full: 40]"),
        click.option("-n", "--brokers", type=click.IntRange(3, 490), help="[default: 63]"),
        click.option("--seeds", default=1, show_default=True, type=click.IntRange(1, 100)),
        click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0)),
        click.option("--jobs", default=1, show_default=True, type=click.IntRange(min=1)),
        json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command("grape-fig5")
@_options
def figure_5(**options: Any) -> None:
    """POP/GRAPE Figure 5: load, delay, hops, memory and overhead by subscriber distribution.

    \b
    Example:
      pubweave reproduce grape-fig5 --data ../shared/data --jobs 2
    """
    _reproduce("grape-fig5", **options)


@click.command("grape-fig6")
@_options
def figure_6(**options: Any) -> None:
    """POP/GRAPE Figure 6: selection time, publishers' waits, and the sampling triggers.

    \b
    Example:
      pubweave reproduce grape-fig6 --data ../shared/data
    """
    _reproduce("grape-fig6", **options)


def _reproduce(
    figure: str,
    *,
    out: Path | None,
    data: Path | None,
    full: bool,
    publishers: int | None,
    brokers: int | None,
    seeds: int,
    seed: int,
    jobs: int,
    as_json: bool,
) -> None:
    from pubweave.experiments.grape.figures import tasks
    from pubweave.experiments.grape.plots import draw
    from pubweave.experiments.grape.statements import headlines, statements

    setting = _setting(full, publishers, brokers)
    listed = tasks(figure, seed=seed, seeds=seeds, full=full, data=data, setting=setting)
    outcomes = _run(listed, jobs, shown=not as_json)
    told = headlines(outcomes) if figure == "grape-fig5" else []
    said = statements(figure, outcomes)
    folder = out or Path("runs") / figure
    folder.mkdir(parents=True, exist_ok=True)
    draw(figure, outcomes, folder / f"{figure}.png")
    lines = ",\n".join(json.dumps(outcome.as_json()) for outcome in outcomes)
    (folder / f"{figure}.json").write_text(f"[\n{lines}\n]\n")
    if as_json:
        print_json({
            "headlines": [{"what": h.words, "paper": h.paper, "ours": h.ours} for h in told],
            "statements": [
                {"statement": s.wanted, "found": s.found, "met": s.is_met} for s in said
            ],
            "runs": [outcome.as_json() for outcome in outcomes],
            "picture": str(folder / f"{figure}.png"),
        })  # fmt: skip
        return
    _print(figure, outcomes, told, said)
    if data is None:
        remark("quotes and latencies were generated: give --data for the real ones")
    remark(f"wrote {folder / figure}.png and .json")


def _setting(full: bool, publishers: int | None, brokers: int | None) -> Setting:
    from pubweave.experiments.grape.setting import FULL, Setting

    setting = FULL if full else Setting()
    return replace(
        setting,
        publishers=publishers or setting.publishers,
        brokers=brokers or setting.brokers,
    )


def _run(listed: Sequence[Task], jobs: int, *, shown: bool) -> list[Outcome]:
    """All runs in their order, however many at once. Says how long that will take, once the first
    variants have been seen: they differ by what they trace."""
    found: list[Outcome] = []
    started_at = time.monotonic()
    with progress_bar("runs", len(listed), shown=shown) as bar:
        try:
            for outcome in _outcomes(listed, jobs):
                found.append(outcome)
                bar.to(len(found))
                if len(found) == ESTIMATED_AFTER and shown:
                    lasts_s = (time.monotonic() - started_at) * len(listed) / len(found)
                    remark(f"{len(listed)} runs will take about {1 + lasts_s // 60:.0f} min")
        except ValueError as error:
            raise BadInput(str(error)) from error
    return found


def _outcomes(listed: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    from pubweave.experiments.grape.figures import run_task

    if jobs == 1:
        yield from map(run_task, listed)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_task, listed)


def _print(
    figure: str, outcomes: Sequence[Outcome], told: Sequence[Headline], said: Sequence[Statement]
) -> None:
    from rich.table import Table

    console = output_console()
    console.print(_outcome_table(figure, outcomes))
    if told:
        table = Table(title="the paper's figures and ours (PlanetLab latencies, simulated)")
        for heading in ("", "the paper", "ours"):
            table.add_column(heading)
        for headline in told:
            table.add_row(headline.words, headline.paper, headline.ours)
        console.print(table)
    table = Table(title="what the paper says, and what was found")
    for heading in ("statement", "found", ""):
        table.add_column(heading)
    for each in said:
        verdict = "[green]met[/green]" if each.is_met else "[red]not met[/red]"
        table.add_row(each.wanted, each.found, verdict)
    console.print(table)


def _outcome_table(figure: str, outcomes: Sequence[Outcome]) -> Any:
    from rich.table import Table

    from pubweave.experiments.grape.figures import mean_of

    table = Table(title=f"{figure}: averages over brokers or deliveries at the end of the run")
    for heading in ("workload", "variant"):
        table.add_column(heading)
    columns = ("at", "traced", "messages/s", "input, %", "delay, ms", "hops", "overhead, %",
               "memory, B", "moves", "selection, s")  # fmt: skip
    for heading in columns:
        table.add_column(heading, justify="right")
    groups: dict[tuple[str, int, str, int], list[Outcome]] = {}
    for outcome in outcomes:
        key = (outcome.distribution, outcome.spread, outcome.variant, outcome.threshold)
        groups.setdefault(key, []).append(outcome)
    for (distribution, spread, variant, threshold), group in groups.items():
        table.add_row(
            distribution,
            variant,
            str(spread),
            str(threshold),
            f"{mean_of(group, 'message_rate'):.2f}",
            f"{100 * mean_of(group, 'input_utilization'):.2f}",
            f"{mean_of(group, 'delay_ms'):.0f}",
            f"{mean_of(group, 'hops'):.2f}",
            f"{100 * mean_of(group, 'overhead'):.1f}",
            f"{mean_of(group, 'memory_bytes'):,.0f}",
            f"{mean_of(group, 'moves'):.0f}",
            f"{mean_of(group, 'selection_s'):.2f}",
        )
    return table

"""``pubweave reproduce dynatops-fig6|fig7|fig8|fig9``: DYNATOPS beside Bayeux, TCO and GeoPS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.errors import blaming
from pubweave.cli.output import json_option, output_console, progress_bar, remark
from pubweave.cli.reproduce_dynatops import finish, out_option, seed_option, table_of

if TYPE_CHECKING:
    from pubweave.experiments.dynatops_rows import SystemRun
    from pubweave.experiments.dynatops_statements import Statement
    from pubweave.experiments.dynatops_sweep import Scale, Task

LARGE = 24
"""So many runs go through Spark unless somebody says otherwise."""

_common = (
    out_option,
    click.option("--seeds", default=1, show_default=True, type=click.IntRange(1, 100)),
    seed_option,
    click.option(
        "--spark/--no-spark", default=None, help=f"Runs side by side. [default: from {LARGE} on]"
    ),
    click.option("--master", default="local[*]", show_default=True, help="--spark: master URL."),
    json_option,
)
_poisson = (
    click.option("--full", is_flag=True, help="The paper's 100 hours, and all check-ins."),
    click.option("--users", default=50_000, show_default=True, type=click.IntRange(min=10)),
    click.option("--brokers", default=100, show_default=True, type=click.IntRange(min=2)),
    click.option("--topics", default=1_000, show_default=True, type=click.IntRange(min=10)),
    click.option("--hours", type=click.IntRange(min=1), help="[default: 10, with --full 100]"),
)
_PATTERNS = ("uniform", "zipf", "multimodal")
_one_topic = click.option(
    "--one-topic", is_flag=True, help="A change is one topic of a user, not all five."
)
_location = (
    click.option(
        "--data",
        envvar="PUBWEAVE_DATA",
        type=click.Path(file_okay=False, exists=True, path_type=Path),
        help="The folder with checkins/; without it, travels are drawn. [or PUBWEAVE_DATA]",
    ),
    click.option("--days", type=click.IntRange(2, 83), help="[default: 20, with --full 83]"),
)


def _with(*options: Any) -> Callable[[Any], Any]:
    def decorated(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


@click.command("dynatops-fig6")
@_with(*_location, click.option("--full", is_flag=True, help="All check-ins: 83 days."), *_common)
def figure_6(data: Path | None, days: int | None, full: bool, **common: Any) -> None:
    """DYNATOPS Figure 6: users who travel (check-ins), all systems and sizes of clusters.

    \b
    Example:
      pubweave reproduce dynatops-fig6 --data ../shared/data --days 30
    """
    from pubweave.experiments import dynatops_statements, dynatops_sweep

    scale = _scale(full, data=data, days=days)
    _reproduce("dynatops-fig6", scale, dynatops_sweep.figure_6, dynatops_statements.figure_6,
               **common)  # fmt: skip


@click.command("dynatops-fig7")
@_with(
    *_poisson,
    _one_topic,
    click.option(
        "--pattern",
        default="multimodal",
        show_default=True,
        type=click.Choice([*_PATTERNS, "all"]),
    ),
    click.option("--no-tco", is_flag=True, help="Leave TCO out, which takes most of the time."),
    *_common,
)
def figure_7(full: bool, one_topic: bool, pattern: str, no_tco: bool, **options: Any) -> None:
    """DYNATOPS Figure 7: users' changing subscriptions, by how fast they change.

    'dynatops' has the paper's rules; 'dynatops-wide' its rule for users in clusters of 100 that
    are told through one broker; 'dynatops-plus' ours in the same clusters.

    \b
    Example:
      pubweave reproduce dynatops-fig7 --pattern all --no-tco
    """
    from pubweave.experiments import dynatops_statements, dynatops_sweep

    scale, common = _poisson_scale(full, one_topic, options)
    patterns = _PATTERNS if pattern == "all" else (pattern,)
    systems = [name for name in dynatops_sweep.FIGURE_7_SYSTEMS if not (no_tco and name == "tco")]
    _reproduce(
        "dynatops-fig7",
        scale,
        lambda scale, seeds: dynatops_sweep.figure_7(scale, seeds, patterns, systems=systems),
        dynatops_statements.figure_7,
        **common,
    )


@click.command("dynatops-fig8")
@_with(*_poisson, _one_topic, *_common)
def figure_8(full: bool, one_topic: bool, **options: Any) -> None:
    """DYNATOPS Figure 8: delay and messages of all systems, by pattern of subscriptions.

    \b
    Example:
      pubweave reproduce dynatops-fig8 --hours 20 --seeds 3 --spark
    """
    from pubweave.experiments import dynatops_statements, dynatops_sweep

    scale, common = _poisson_scale(full, one_topic, options)
    _reproduce("dynatops-fig8", scale, dynatops_sweep.figure_8, dynatops_statements.figure_8,
               **common)  # fmt: skip


@click.command("dynatops-fig9")
@_with(*_poisson, *_location, *_common)
def figure_9(full: bool, data: Path | None, days: int | None, **options: Any) -> None:
    """DYNATOPS Figure 9: longer and shorter free periods between reconfigurations.

    \b
    Example:
      pubweave reproduce dynatops-fig9 --data ../shared/data
    """
    from pubweave.experiments import dynatops_statements, dynatops_sweep

    scale, common = _poisson_scale(full, False, options, data=data, days=days)
    _reproduce("dynatops-fig9", scale, dynatops_sweep.figure_9, dynatops_statements.figure_9,
               **common)  # fmt: skip


def _scale(full: bool, *, data: Path | None, days: int | None, **more: Any) -> Scale:
    from pubweave.experiments.dynatops_sweep import MOST_DAYS, Scale

    return Scale(
        data=None if data is None else str(data.absolute()),
        days=days or (MOST_DAYS if full else Scale.days),
        **more,
    )


def _poisson_scale(
    full: bool,
    one_topic: bool,
    options: dict[str, Any],
    *,
    data: Path | None = None,
    days: int | None = None,
) -> tuple[Scale, dict[str, Any]]:
    """The sizes of the Poisson model, and the options that are left."""
    sizes = {name: options.pop(name) for name in ("users", "brokers", "topics")}
    hours = options.pop("hours") or (100 if full else 10)
    scale = _scale(full, data=data, days=days, hours=hours, whole=not one_topic, **sizes)
    return scale, options


def _reproduce(
    name: str,
    scale: Scale,
    tasks_of: Callable[[Scale, Sequence[int]], list[Task]],
    statements_of: Callable[[Sequence[SystemRun]], list[Statement]],
    *,
    out: Path | None,
    seeds: int,
    seed: int,
    spark: bool | None,
    master: str,
    as_json: bool,
) -> None:
    from pubweave.cli.reproduce_dynatops_systems_pictures import draw

    tasks = tasks_of(scale, range(seed, seed + seeds))
    if not as_json and any(task["model"] == "location" and not task["data"] for task in tasks):
        remark("no --data: travels are drawn, not real check-ins")
    folder = out or Path("runs") / name
    is_large = len(tasks) >= LARGE if spark is None else spark
    rows = _rows(tasks, folder / "spark.log", master if is_large else None, shown=not as_json)
    statements = statements_of(rows)
    finish(name, rows, folder, as_json, draw, statements=[each.as_json() for each in statements])
    if not as_json:
        _print_rows(rows)
        _print_statements(statements)


def _rows(tasks: list[Task], log: Path, master: str | None, *, shown: bool) -> list[SystemRun]:
    """All runs, here or on Spark."""
    from pubweave.experiments.dynatops_sweep import as_rows, run_task

    documents: list[Task] = []
    with progress_bar("runs", len(tasks), shown=shown) as bar, blaming("--data"):
        if master is None:
            for number, task in enumerate(tasks, 1):
                documents += run_task(task)
                bar.to(number)
            return as_rows(documents)
        from pubweave.pipeline.session import spark_session
        from pubweave.pipeline.tco_build import swept_rows

        session = spark_session(master, quick=True, log=log, name="pubweave reproduce")
        try:
            documents = swept_rows(
                session, run_task, tasks, lambda share: bar.to(share * len(tasks))
            )
        finally:
            session.stop()
    return as_rows(documents)


def _print_rows(rows: Sequence[SystemRun]) -> None:
    table = table_of(
        "per hour, or per publication; delay in hops (Poisson) or ms (location)",
        ("model", "system", "pattern", "rate", "c", "w_l", "T_free", "broker changes", "control",
         "handovers", "max load", "delay", "from root", "messages", "reconf.", "Eq. 7", "counted"),
        3,
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row.model, row.system, row.pattern, f"{row.rate:g}", str(row.cluster_size),
            f"{row.load_weight:g}", str(row.free_period_h), f"{row.subscription_changes:,.1f}",
            f"{row.management_messages:,.0f}", f"{row.handovers:,.2f}",
            f"{row.highest_load_over_mean:.2f}", f"{row.delay:.2f}", f"{row.tree_delay:.2f}",
            f"{row.messages_per_publication:.1f}", str(row.reconfigurations),
            f"{row.reconfiguration_cost:,.0f}", f"{row.reconfiguration_messages:,.0f}",
        )  # fmt: skip
    output_console().print(table)


def _print_statements(statements: Sequence[Statement]) -> None:
    table = table_of(
        "the paper's words and our figures",
        ("statement", "the paper", "its rules, ours", "our rules", "holds"),
        1,
    )
    for each in statements:
        shares = [
            "-" if share is None else f"{share:.1%}" for share in (each.by_paper, each.by_plus)
        ]
        theirs = f"{each.theirs:.0%}" if each.theirs else "less"
        table.add_row(each.words, theirs, *shares, each.holds)
    output_console().print(table)


FIGURES = (figure_6, figure_7, figure_8, figure_9)

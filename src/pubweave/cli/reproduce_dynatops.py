"""``pubweave reproduce dynatops-fig7|fig10|table1``: mappings and user placement, theirs and ours.

What needs the reconfiguration protocol or other systems' brokers is not here: Figures 6, 8 and 9,
Figure 7d, and TCO in Figures 7b and 7c.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark

if TYPE_CHECKING:
    from pubweave.experiments.dynatops_mapping import Saving
    from pubweave.experiments.dynatops_users import UserRun

_out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the picture and the numbers. [default: runs/<name>]",
)
_seed = click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
_seeds = click.option("--seeds", default=3, show_default=True, type=click.IntRange(1, 100))


@click.command("dynatops-fig7")
@_out
@click.option("--full", is_flag=True, help="The paper's 100 hours; else 10.")
@click.option("--one-topic", is_flag=True, help="A change is one topic of a user, not all five.")
@click.option(
    "--pattern",
    default="multimodal",
    show_default=True,
    type=click.Choice(["uniform", "zipf", "multimodal"]),
)
@_seed
@json_option
def figure_7(
    out: Path | None, full: bool, one_topic: bool, pattern: str, seed: int, as_json: bool
) -> None:
    """DYNATOPS Figure 7 (a-c): users' changing subscriptions, placed by similarity or static.

    \b
    Example:
      pubweave reproduce dynatops-fig7 --pattern zipf
    """
    from pubweave.experiments.dynatops_users import RATES, Setting, measure
    from pubweave.generate.dynatops_workloads import Pattern

    setting = Setting(hours=100 if full else 10, whole=not one_topic, pattern=Pattern(pattern))
    rows: list[UserRun] = []
    with progress_bar("systems and rates", 2 * len(RATES), shown=not as_json) as bar:
        for row in measure(setting, RATES, seed):
            rows.append(row)
            bar.to(len(rows))
    _finish("dynatops-fig7", rows, out, as_json)
    if not as_json:
        _print_users(rows)


def _measured_savings(seeds: int, seed: int, *, shown: bool) -> list[Saving]:
    from pubweave.experiments.dynatops_mapping import PATTERNS, SIZES, measure

    rows: list[Saving] = []
    with progress_bar("mappings", len(SIZES) * len(PATTERNS) * seeds, shown=shown) as bar:
        for row in measure(SIZES, range(seed, seed + seeds), time.perf_counter):
            rows.append(row)
            bar.to(len(rows))
    return rows


def _finish(
    name: str, rows: Sequence[Saving] | Sequence[UserRun], out: Path | None, as_json: bool
) -> None:
    """Picture and numbers into a folder, and the numbers to whoever asked for JSON."""
    from pubweave.cli.reproduce_dynatops_pictures import draw

    folder = out or Path("runs") / name
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{name}.png"
    draw(name, rows, picture)
    documents = [row.as_json() for row in rows]
    body = ",\n".join(json.dumps(document) for document in documents)
    (folder / f"{name}.json").write_text(f"[\n{body}\n]\n")
    if as_json:
        print_json({"runs": documents, "picture": str(picture)})
    else:
        remark(f"wrote {picture} and {name}.json beside it")


def _table(title: str, headings: Sequence[str], left: int) -> Any:
    from rich.table import Table

    table = Table(title=title)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left else "right")
    return table


def _print_savings(rows: Sequence[Saving]) -> None:
    from pubweave.experiments.dynatops_mapping import PATTERNS, SIZES, mean_of

    table = _table(
        "saved against consistent hashing, means over seeds",
        ("brokers", "topics", "pattern", "overhead", "delay", "cost", "best", "at most"),
        3,
    )
    names = ("greedy_overhead_saved", "greedy_delay_saved", "greedy_saved", "best_saved",
             "most_saved")  # fmt: skip
    for size in SIZES:
        for pattern in PATTERNS:
            values = [f"{mean_of(rows, size, pattern.value, name):.1%}" for name in names]
            table.add_row(f"{size[0]:,}", f"{size[1]:,}", pattern.value, *values)
    output_console().print(table)
    click.echo(
        "overhead, delay and cost are Algorithm 3's; best starts from the least delay; at most: no "
        "mapping saves more\nthe paper (Figure 10, in words): always better than consistent "
        "hashing, more so where subscriptions are skewed"
    )


def _print_times(rows: Sequence[Saving]) -> None:
    from pubweave.experiments.dynatops_mapping import PAPER_SECONDS, PATTERNS, SIZES, mean_of

    table = _table(
        "seconds (the paper: a 2 GHz workstation of 2013)",
        ("brokers", "topics", "pattern", "the paper", "greedy, ours", "best, ours"),
        3,
    )
    for size in SIZES:
        for pattern in PATTERNS:
            greedy = mean_of(rows, size, pattern.value, "greedy_s")
            best = mean_of(rows, size, pattern.value, "best_s")
            table.add_row(
                f"{size[0]:,}", f"{size[1]:,}", pattern.value, f"{PAPER_SECONDS[size]:g}",
                f"{greedy:.4f}", f"{best:.4f}",
            )  # fmt: skip
    output_console().print(table)


def _print_users(rows: Sequence[UserRun]) -> None:
    table = _table(
        "per hour; delay and messages with consistent hashing -> with the better mapping",
        ("system", "rate", "broker changes", "control messages", "handovers", "max load / mean",
         "delay, hops", "messages"),
        1,
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row.system,
            f"{row.rate:g}",
            f"{row.subscription_changes:,.1f}",
            f"{row.management_messages:,.0f}",
            f"{row.handovers:,.0f}",
            f"{row.most_loaded_over_mean:.2f}",
            f"{row.delay_hops:.2f} -> {row.mapped_delay_hops:.2f}",
            f"{row.messages_per_publication:.1f} -> {row.mapped_messages_per_publication:.1f}",
        )
    output_console().print(table)
    for static, placed in zip(rows[::2], rows[1::2], strict=True):
        changes = 1 - placed.subscription_changes / max(1.0, static.subscription_changes)
        messages = 1 - placed.management_messages / max(1.0, static.management_messages)
        click.echo(
            f"rate {static.rate:g}: {changes:.1%} fewer changes of brokers' subscriptions (the "
            f"paper: 80%), {messages:.1%} less management overhead (the paper: over 40%)"
        )
    click.echo("TCO and Figure 7d are missing: they need protocols that are not here")


def _by_size(name: str, words: str, show: Callable[[Sequence[Saving]], None]) -> click.Command:
    """Both algorithms on all sizes, of which one figure shows the savings, another the times."""

    @click.command(name, help=f"{words}\n\n\b\nExample:\n  pubweave reproduce {name}")
    @_out
    @_seeds
    @_seed
    @json_option
    def command(out: Path | None, seeds: int, seed: int, as_json: bool) -> None:
        rows = _measured_savings(seeds, seed, shown=not as_json)
        _finish(name, rows, out, as_json)
        if not as_json:
            show(rows)

    return command


figure_10 = _by_size(
    "dynatops-fig10",
    "DYNATOPS Figure 10: what mappings save against consistent hashing, by size.",
    _print_savings,
)
table_1 = _by_size(
    "dynatops-table1", "DYNATOPS Table 1: how long Algorithm 3 takes, by size.", _print_times
)

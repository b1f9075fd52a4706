"""``pubweave reproduce dynatops-fig10|table1``: what mappings save and how long they take.

Figures 6 to 9, which compare systems, are in `reproduce_dynatops_systems`.
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
    from pubweave.experiments.dynatops.mapping import Saving
    from pubweave.experiments.dynatops.rows import SystemRun

out_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the picture and the numbers. [default: runs/<name>]",
)
seed_option = click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
seeds_option = click.option("--seeds", default=3, show_default=True, type=click.IntRange(1, 100))


def _measured_savings(seeds: int, seed: int, *, shown: bool) -> list[Saving]:
    from pubweave.experiments.dynatops.mapping import PATTERNS, SIZES, measure

    rows: list[Saving] = []
    with progress_bar("mappings", len(SIZES) * len(PATTERNS) * seeds, shown=shown) as bar:
        for row in measure(SIZES, range(seed, seed + seeds), time.perf_counter):
            rows.append(row)
            bar.to(len(rows))
    return rows


def finish(
    name: str,
    rows: Sequence[Saving] | Sequence[SystemRun],
    out: Path | None,
    as_json: bool,
    draw: Callable[[str, Sequence[Any], Path], None],
    **more: Any,
) -> None:
    """Picture and numbers into a folder, and the numbers to whoever asked for JSON."""
    folder = out or Path("runs") / name
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{name}.png"
    draw(name, rows, picture)
    documents = [row.as_json() for row in rows]
    body = ",\n".join(json.dumps(document) for document in documents)
    (folder / f"{name}.json").write_text(f"[\n{body}\n]\n")
    if as_json:
        print_json({"runs": documents, "picture": str(picture), **more})
    else:
        remark(f"wrote {picture} and {name}.json beside it")


def table_of(title: str, headings: Sequence[str], left: int) -> Any:
    from rich.table import Table

    table = Table(title=title)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left else "right")
    return table


def _print_savings(rows: Sequence[Saving]) -> None:
    from pubweave.experiments.dynatops.mapping import PATTERNS, SIZES, mean_of

    table = table_of(
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
    from pubweave.experiments.dynatops.mapping import PAPER_SECONDS, PATTERNS, SIZES, mean_of

    table = table_of(
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


def _by_size(name: str, words: str, show: Callable[[Sequence[Saving]], None]) -> click.Command:
    """Both algorithms on all sizes, of which one figure shows the savings, another the times."""

    @click.command(name, help=f"{words}\n\n\b\nExample:\n  pubweave reproduce {name}")
    @out_option
    @seeds_option
    @seed_option
    @json_option
    def command(out: Path | None, seeds: int, seed: int, as_json: bool) -> None:
        from pubweave.experiments.dynatops.plots_mapping import draw

        rows = _measured_savings(seeds, seed, shown=not as_json)
        finish(name, rows, out, as_json, draw)
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

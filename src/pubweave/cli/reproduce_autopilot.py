"""``pubweave reproduce autopilot-day``: a day of drifting traffic under each policy."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pubweave.cli.errors import FAILED
from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark

if TYPE_CHECKING:
    from pubweave.experiments.autopilot.days import Bar, Day

NAME = "autopilot-day"


@click.command(NAME)
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(min=1),
              help="How many days.")  # fmt: skip
@click.option("--first-seed", default=1, show_default=True, type=click.IntRange(min=0))
@click.option("--hours", default=24.0, show_default=True, type=click.FloatRange(min=1.0))
@click.option("--period", default=300.0, show_default=True, type=click.FloatRange(min=60.0),
              help="Seconds between two looks.")  # fmt: skip
@click.option("--free-period", default=900.0, show_default=True, type=click.FloatRange(min=0.0),
              help="Seconds between two changes, at least.")  # fmt: skip
@click.option("--jobs", default=os.cpu_count() or 1, show_default="processors",
              type=click.IntRange(min=1), help="Days at the same time.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Directory for the numbers. [default: runs/autopilot-day]")  # fmt: skip
@json_option
@click.pass_context
def autopilot_day(
    ctx: click.Context,
    seeds: int,
    first_seed: int,
    hours: float,
    period: float,
    free_period: float,
    jobs: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """A virtual day of drifting traffic: autopilot, static, and always following the best tree.

    The loop, its gate and its records are those of 'pubweave autopilot'; traffic is at flow
    level. What changes cost is counted. A day takes some minutes. Exit code 1 if a bar is missed.

    \b
    Example:
      pubweave reproduce autopilot-day --seeds 5 --first-seed 100
    """
    from pubweave.experiments.autopilot.days import bars, day_settings, measure_days
    from pubweave.sim.autopilot_world import DaySetting

    settings = day_settings(period, free_period)
    wanted = range(first_seed, first_seed + seeds)
    days: list[Day] = []
    with progress_bar("days", seeds, shown=not as_json) as bar:
        for day in measure_days(wanted, DaySetting(hours=hours), settings, jobs):
            days.append(day)
            bar.to(len(days))
    days.sort(key=lambda day: day.seed)
    judged = bars(days, settings)
    folder = out or Path("runs") / NAME
    folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(day.as_json()) for day in days)
    (folder / f"{NAME}.json").write_text(f"[\n{lines}\n]\n")
    if as_json:
        rows = [{"wanted": b.wanted, "found": b.found, "met": b.is_met} for b in judged]
        print_json({"bars": rows, "days": [day.as_json() for day in days]})
    else:
        _print(days, judged)
        remark(f"wrote {folder / NAME}.json")
    ctx.exit(0 if all(each.is_met for each in judged) else FAILED)


def _print(days: Sequence[Day], judged: Sequence[Bar]) -> None:
    from rich.table import Table

    from pubweave.sim.autopilot_day import Policy

    table = Table(title="cost of a day in millions of ms, of which for changes; changes made")
    table.add_column("seed", justify="right")
    for policy in Policy:
        table.add_column(policy.value, justify="right")
    for title in ("below static", "below once", "below follow", "prediction off by"):
        table.add_column(title, justify="right")
    for day in days:
        cells = [
            f"{each.total_ms / 1e6:,.1f}, {each.change_ms / 1e6:,.1f}; {each.changes}"
            for each in (day.by_policy[policy] for policy in Policy)
        ]
        shares = [f"{day.below(p):.1%}" for p in (Policy.STATIC, Policy.ONCE, Policy.FOLLOW)]
        table.add_row(str(day.seed), *cells, *shares, f"{day.prediction_error:.1%}")
    output_console().print(table)
    for each in judged:
        click.echo(f"{'met   ' if each.is_met else 'MISSED'}  {each.wanted}: {each.found}")

"""``pubweave reproduce ci-real``: the local heuristics on measured latencies and demands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.errors import blaming
from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark

if TYPE_CHECKING:
    from pubweave.experiments.ci.figures import Mean

WORLDS = ("planetlab", "seattle", "caida", "sndlib")
VARIANTS = ("ci", "ci-damped", "ci-sides", "lmst", "lmit", "best")
TICKS = 25_000


@click.command("ci-real")
@click.option(
    "--data",
    required=True,
    envvar="PUBWEAVE_DATA",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="The folder with latency/ and topology/. [or PUBWEAVE_DATA]",
)
@click.option("--seeds", default=4, show_default=True, type=click.IntRange(2, 100))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
@click.option("--ticks", default=TICKS, show_default=True, type=click.IntRange(min=2_500))
@click.option(
    "--out",
    default="runs/ci-real",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the picture and the numbers.",
)
@json_option
def figure(data: Path, seeds: int, seed: int, ticks: int, out: Path, as_json: bool) -> None:
    """CI, lMST and lMIT where the paper had no data: PlanetLab, Seattle, CAIDA, SNDlib.

    \b
    Example:
      pubweave reproduce ci-real --data ../shared/data
    """
    out.mkdir(parents=True, exist_ok=True)
    costs: dict[str, dict[str, list[float]]] = {}
    with progress_bar("worlds", len(WORLDS) * seeds, shown=not as_json) as bar:
        for place, world in enumerate(WORLDS):
            costs[world] = {name: [] for name in ("static", *VARIANTS)}
            for number in range(seeds):
                with blaming("--data"):
                    _play(costs[world], world, seed + number, data, ticks)
                bar.to(place * seeds + number + 1)
    (out / "ci-real.json").write_text(json.dumps(costs, indent=1) + "\n")
    shares = _shares(costs)
    _draw(shares, out / "ci-real.png")
    if as_json:
        print_json({"costs": costs, "picture": str(out / "ci-real.png")})
        return
    _print(shares, seeds)
    remark(f"wrote {out / 'ci-real'}.png and .json")


def _play(costs: dict[str, list[float]], world: str, seed: int, data: Path, ticks: int) -> None:
    from pubweave.experiments.ci.real import make_real_world
    from pubweave.experiments.ci.run import run_variant
    from pubweave.experiments.ci.setting import Setting

    made = make_real_world(world, seed, data, Setting(ticks=ticks))
    for name in costs:
        costs[name].append(float(run_variant(made, name, seed=seed).total.sum()))


def _shares(costs: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, Mean]]:
    """What each costs against the static tree, seed by seed."""
    from pubweave.experiments.ci.figures import mean

    return {
        world: {
            name: mean([one / static - 1 for one, static in zip(paid, by["static"], strict=True)])
            for name, paid in by.items()
            if name != "static"
        }
        for world, by in costs.items()
    }


def _draw(shares: dict[str, dict[str, Mean]], output: Path) -> None:
    from pubweave.experiments.ci.plots import COLOURS, LABELS
    from pubweave.experiments.plotting import headless_pyplot, tidy

    pyplot = headless_pyplot()
    sheet, axes = pyplot.subplots(figsize=(10, 5))
    width = 0.8 / len(VARIANTS)
    for place, name in enumerate(VARIANTS):
        means = [shares[world][name] for world in WORLDS]
        axes.bar(
            [spot + (place - len(VARIANTS) / 2 + 0.5) * width for spot in range(len(WORLDS))],
            [100 * mean.value for mean in means],
            width,
            yerr=[100 * mean.half for mean in means],
            color=COLOURS[name],
            label=LABELS[name],
            capsize=2,
        )
    axes.set_xticks(range(len(WORLDS)), WORLDS)
    axes.set_ylabel("cost against the static tree, %")
    axes.set_title("CI and its relatives on real prices and demands, 95% intervals", loc="left")
    tidy(axes)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    sheet.tight_layout()
    sheet.savefig(output, dpi=110)
    pyplot.close(sheet)


def _print(shares: dict[str, dict[str, Any]], seeds: int) -> None:
    from rich.table import Table

    from pubweave.experiments.ci.plots import LABELS
    from pubweave.experiments.ci.statements import percent

    table = Table(title=f"cost against the static tree, {seeds} seeds, 95% intervals")
    table.add_column("")
    for world in WORLDS:
        table.add_column(world, justify="right")
    for name in VARIANTS:
        table.add_row(LABELS[name], *(percent(shares[world][name]) for world in WORLDS))
    output_console().print(table)

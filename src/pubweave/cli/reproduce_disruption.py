"""``pubweave reproduce ipitt-fig6``: what a transformation costs, in the paper's setting.

Everything is simulated in virtual time; how long that takes depends on the machine, what comes of
it does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark

if TYPE_CHECKING:
    from pubweave.experiments.ipitt.disruption import Case, Disruption, Mean, Point
    from pubweave.experiments.ipitt.disruption_targets import Bar

TOPOLOGIES, FULL_TOPOLOGIES = 2, 12
WORKLOADS, FULL_WORKLOADS = 1, 2


@click.command("ipitt-fig6")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the picture and the numbers. [default: runs/ipitt-fig6]",
)
@click.option("--full", is_flag=True, help="The paper's 12 topologies, 2 workloads; takes hours.")
@click.option("-n", "--brokers", type=click.IntRange(min=6), default=60, show_default=True)
@click.option("--sizes", metavar="N,N,...", help="Overlay sizes. [default: 20,40,60]")
@click.option("--ratios", metavar="R,R,...", help="Change ratios. [default: 0.1,0.2,0.3]")
@click.option("--subscribers", metavar="N,N,...", help="[default: 200,600,1000]")
@click.option("--topologies", type=click.IntRange(1, 12), help="How many of the paper's 12.")
@click.option("--workloads", type=click.IntRange(1, 100), help="How many sets of clients.")
@click.option(
    "--store-ms",
    type=click.FloatRange(min=0.01),
    default=2.0,
    show_default=True,
    help="One way to the store, from half to one and a half of this.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
@json_option
def figure_6(
    out: Path | None,
    full: bool,
    brokers: int,
    sizes: str | None,
    ratios: str | None,
    subscribers: str | None,
    topologies: int | None,
    workloads: int | None,
    store_ms: float,
    jobs: int,
    seed: int,
    as_json: bool,
) -> None:
    """IPITT Figure 6: latency, execution time and queues while a plan is carried out.

    Small by default (some minutes); at 60 brokers, 1000 subscribers and 20% every way of
    execution is measured, and the bars are judged there.

    \b
    Example:
      pubweave reproduce ipitt-fig6 --topologies 1 --sizes 20,60 --jobs 4
    """
    from pubweave.experiments.ipitt import disruption as experiment
    from pubweave.experiments.ipitt.disruption_targets import bars
    from pubweave.experiments.ipitt.plots_disruption import draw_figure_6

    counts = _whole("--subscribers", subscribers, 1) or (
        experiment.FULL_SUBSCRIBER_COUNTS if full else experiment.SUBSCRIBER_COUNTS
    )
    base = experiment.Point(brokers, experiment.RATIO, max(counts))
    where = experiment.points(
        _whole("--sizes", sizes, 6) or (experiment.FULL_SIZES if full else experiment.SIZES),
        _ratios(ratios) or (experiment.FULL_RATIOS if full else experiment.RATIOS),
        counts,
        base,
    )
    way = experiment.Way
    cases = experiment.cases(
        where,
        base=base,
        ways=(way.PARALLEL, way.SERIAL, way.BFS) if full else (way.PARALLEL, way.SERIAL),
        seed=seed,
        topologies=topologies or (FULL_TOPOLOGIES if full else TOPOLOGIES),
        workloads=workloads or (FULL_WORKLOADS if full else WORKLOADS),
        store_s=(store_ms / 2000, 1.5 * store_ms / 1000),
    )
    runs = _run(cases, jobs, shown=not as_json)
    means = experiment.means(runs)
    judged = bars(runs, means, base)
    folder = out or Path("runs") / "ipitt-fig6"
    folder.mkdir(parents=True, exist_ok=True)
    draw_figure_6(means, base, folder / "ipitt-fig6.png")
    (folder / "ipitt-fig6.json").write_text(_lines(runs))
    if as_json:
        print_json(
            {
                "runs": [run.as_json() for run in runs],
                "bars": [_bar_json(bar) for bar in judged],
                "picture": str(folder / "ipitt-fig6.png"),
            }
        )
        return
    _print(means, judged, base)
    remark(f"wrote {folder / 'ipitt-fig6.png'} and {folder / 'ipitt-fig6.json'}")


def _run(cases: Sequence[Case], jobs: int, *, shown: bool) -> list[Disruption]:
    """All runs in the order of the cases, however many at once."""
    found: dict[int, list[Disruption]] = {place: [] for place in range(len(cases))}
    done = 0
    with progress_bar("transforming", sum(len(case.ways) for case in cases), shown=shown) as bar:
        for place, run in _one_by_one(cases) if jobs == 1 else _side_by_side(cases, jobs):
            found[place].append(run)
            done += 1
            bar.to(done)
    return [run for place in sorted(found) for run in found[place]]


def _one_by_one(cases: Sequence[Case]) -> Iterator[tuple[int, Disruption]]:
    from pubweave.experiments.ipitt.disruption import measure

    for place, case in enumerate(cases):
        for run in measure(case):
            yield place, run


def _side_by_side(cases: Sequence[Case], jobs: int) -> Iterator[tuple[int, Disruption]]:
    with ProcessPoolExecutor(jobs) as pool:
        places = {pool.submit(_measured, case): place for place, case in enumerate(cases)}
        for future in as_completed(places):
            for run in future.result():
                yield places[future], run


def _measured(case: Case) -> list[Disruption]:
    from pubweave.experiments.ipitt.disruption import measure

    return list(measure(case))


def _whole(option: str, text: str | None, least: int) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"{option} {text}: expected whole numbers with commas between") from None
    if min(values) < least or max(values) > 100_000:
        raise BadInput(f"{option} {text}: numbers from {least} to 100000")
    return values


def _ratios(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"--ratios {text}: expected numbers with commas between") from None
    if not all(0 < value <= 0.5 for value in values):
        raise BadInput(f"--ratios {text}: shares of the links, above 0 and at most 0.5")
    return values


def _lines(runs: Sequence[Disruption]) -> str:
    body = ",\n".join(json.dumps(run.as_json()) for run in runs)
    return f"[\n{body}\n]\n"


def _bar_json(bar: Bar) -> dict[str, Any]:
    return {"name": bar.name, "wanted": bar.wanted, "found": bar.found, "met": bar.is_met}


# --- tables --------------------------------------------------------------------------------------


def _print(means: Sequence[Mean], judged: Sequence[Bar], base: Point) -> None:
    from rich.table import Table

    from pubweave.experiments.ipitt.disruption_targets import PANELS, ours

    console = output_console()
    console.print(_means_table(means))
    words = Table(title="Figure 6: the paper's words (VI-C, PADRES on a cluster) and ours")
    for heading in ("", "the paper", "here"):
        words.add_column(heading)
    for panel in PANELS:
        words.add_row(panel.letter, panel.paper, ours(means, panel, base))
    console.print(words)
    table = Table(
        title=f"bars, at {base.brokers} brokers, {base.subscribers:,} subscribers, {base.ratio:.0%}"
    )
    for heading in ("what", "wanted", "found", ""):
        table.add_column(heading)
    for bar in judged:
        verdict = "[green]met[/green]" if bar.is_met else "[red]missed[/red]"
        table.add_row(bar.name, bar.wanted, bar.found, verdict)
    console.print(table)


def _means_table(means: Sequence[Mean]) -> Any:
    from rich.table import Table

    table = Table(title="means over the runs; latencies at the 99th percentile, in ms")
    columns = (
        ("affected", "affected_ms", ".0f"),
        ("unaffected", "unaffected_ms", ".0f"),
        ("in transit", "in_transit_ms", ".0f"),
        ("quiet", "quiet_ms", ".0f"),
        ("plan, s", "plan_s", ".2f"),
        ("queue", "queue_growth", ".0f"),
        ("reserve, ms", "reserve_ms", ".0f"),
        ("hold, ms", "hold_ms", ".0f"),
        ("close, ms", "close_ms", ".0f"),
    )
    for heading in ("brokers", "changed", "subscribers"):
        table.add_column(heading, justify="right")
    table.add_column("way")
    for heading in ("runs", "steps", "actions", *(column[0] for column in columns)):
        table.add_column(heading, justify="right")
    for mean in means:
        point = mean.point
        table.add_row(
            str(point.brokers),
            f"{point.ratio:.0%}",
            f"{point.subscribers:,}",
            mean.way.value,
            str(mean.runs),
            f"{mean.steps:.1f}",
            f"{mean.actions:.1f}",
            *(format(mean.cost[name], form) for _, name, form in columns),
        )
    return table

"""Shadows' Figures 2 to 8, and overlays of real subscriptions, as experiments."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pubweave.experiments.experiment import (
    Experiment,
    Report,
    ResultTable,
    Verdicts,
    data_folder,
    figures,
    option,
)
from pubweave.experiments.shadows import figures as shadow_figures
from pubweave.experiments.shadows import plots
from pubweave.experiments.shadows.figures import Row, ShadowsTask, chosen, mean_of, statements
from pubweave.experiments.shadows.real import FILES, described, run_real
from pubweave.generate.workloads.churn_rounds import Popularity

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
COLUMNS = ("backups", "primaries", "average_degree", "max_degree", "repair_ms", "build_ms")


@dataclass(frozen=True, kw_only=True)
class ShadowsOptions:
    """The nodes, topics and rounds are the paper's by default."""

    full: bool = option(False, "Three distributions and five seeds; minutes.")
    popularities: tuple[str, ...] = option(
        (),
        "Of topics; repeatable. [default: uniform, with --full all]",
        flags=("--popularity",),
        choices=POPULARITIES,
    )
    seeds: int | None = option(None, "How many. [default: 1, --full: 5]", low=1)
    seed: int = option(1, low=0)
    nodes: int = option(2_000, low=10)
    topics: int = option(200, low=1)
    rounds: int = option(1_000, low=4)
    low_oda_every: int | None = option(
        None,
        "How many rounds lie between two builds by Low-ODA. [default: 25, --full: 10]",
        low=1,
        metavar="ROUNDS",
    )


def _tasks(figure: str, options: ShadowsOptions) -> list[ShadowsTask]:
    count = options.seeds or (FULL_SEEDS if options.full else 1)
    every = options.low_oda_every or (10 if options.full else 25)
    names = options.popularities or (POPULARITIES if options.full else POPULARITIES[:1])
    return shadow_figures.tasks(
        figure,
        seeds=range(options.seed, options.seed + count),
        popularities=[Popularity(name) for name in names],
        sizes={
            "nodes": options.nodes,
            "topics": options.topics,
            "rounds": options.rounds,
            "low_oda_every": min(every, options.rounds),
        },
    )


def _run(task: ShadowsTask) -> list[Row]:
    return shadow_figures.run_task(task, time.perf_counter)


def _report(figure: str, options: ShadowsOptions, rows: Sequence[Row]) -> Report:
    columns = [name for name in COLUMNS if any(name in row for row in rows)]
    cells = []
    for popularity in dict.fromkeys(row["popularity"] for row in rows):
        for variant in dict.fromkeys(row["variant"] for row in rows):
            own = chosen(rows, popularity=popularity, variant=variant)
            means = (f"{mean_of(own, name):.3f}" if name in own[0] else "" for name in columns)
            cells.append((popularity, variant, *means))
    headings = ("topics", "variant", *(name.replace("_", " ") for name in columns))
    table = ResultTable(f"{figure}: means over nodes or rounds", headings, cells, left=2)
    return Report({"rows": len(rows)}, [table], [Verdicts(statements(figure, rows))])


_figure = figures(
    ShadowsOptions, tasks=_tasks, run=_run, report=_report, draw=plots.draw, unit="instances",
    path_field="folder", tells_folder=True,
)  # fmt: skip


# --- real subscriptions --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ShadowsRealOptions:
    data: Path = field(metadata=data_folder("The folder with subscriptions/."))
    kinds: tuple[str, ...] = option((), "[default: all]", flags=("--kind",), choices=tuple(FILES))
    rounds: int = option(400, low=2)
    seed: int = option(1, low=0)


def _real_tasks(options: ShadowsRealOptions) -> list[tuple[str, ShadowsRealOptions]]:
    return [(kind, options) for kind in options.kinds or FILES]


def _run_real(task: tuple[str, ShadowsRealOptions]) -> list[dict[str, Any]]:
    kind, options = task
    run = run_real(kind, options.data, options.rounds, options.seed, time.perf_counter)
    return [described(run)]


REAL_COLUMNS = {
    "overlay": "{[name]}", "links": "{[links]:,}", "average": "{[average_degree]:.2f}",
    "maximum": "{[max_degree]}", "connected": "{[connected]}", "s": "{[seconds]}",
}  # fmt: skip


def _real_report(options: ShadowsRealOptions, documents: Sequence[dict[str, Any]]) -> Report:
    return Report(
        {"data": documents},
        [_real_table(document) for document in documents],
        notes=[note for document in documents for note in _churn_notes(document)],
    )


def _real_table(document: dict[str, Any]) -> ResultTable:
    rows = [(f"{mode}, from scratch", built) for mode, built in document["built"].items()]
    for variant, after in document["churn"].items():
        rows.append((f"{variant}, after churn", after["kept"]))
        rows.append(("  low-oda on the same nodes", after["low-oda"]))
    title = (
        f"{document['kind']}: {document['nodes']:,} nodes, {document['topics']:,} topics, "
        f"{document['subscriptions']:,} subscriptions"
    )
    shown = [
        {**row, "name": name, "connected": "yes" if row["is_connected"] else "NO"}
        for name, row in rows
    ]
    return ResultTable.of(title, shown, REAL_COLUMNS)


def _churn_notes(document: dict[str, Any]) -> list[str]:
    return [
        f"{document['kind']}, {variant}, {kind}: {means['changed']:.1f} links changed, repair "
        f"{means['repair_ms']:.2f} ms, backups {means['backups_ms']:.2f} ms, tidying "
        f"{means['tidy_ms']:.2f} ms"
        for variant, after in document["churn"].items()
        for kind, means in (("join", after["join"]), ("leave", after["leave"]))
    ]


EXPERIMENTS: tuple[Experiment[Any, Any, Any], ...] = (
    *(
        _figure(
            name,
            f"Shadows Figure {name.removeprefix('shadows-fig')}: {about}",
            "--popularity zipf --seeds 3",
        )
        for name, about in ABOUT.items()
    ),
    Experiment(
        "shadows-real",
        "Overlays from scratch and under churn for subscriptions of real people.",
        ShadowsRealOptions,
        tasks=_real_tasks,
        run=_run_real,
        report=_real_report,
        example="--data ../shared/data --kind lastfm",
        unit="data sets",
        path_field="output",
        tells_folder=True,
    ),
)

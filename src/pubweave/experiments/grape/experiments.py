"""POP's and GRAPE's Figures 5 and 6 as experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pubweave.experiments.experiment import (
    Report,
    ResultTable,
    Verdicts,
    data_folder,
    figures,
    option,
)
from pubweave.experiments.grape import plots, setting
from pubweave.experiments.grape.figures import headlines, mean_of, run_task, statements, tasks
from pubweave.experiments.grape.run import GrapeTask, RunOutcome

COLUMNS = (
    ("messages/s", "message_rate", 1, ".2f"),
    ("input, %", "input_utilization", 100, ".2f"),
    ("delay, ms", "delay_ms", 1, ".0f"),
    ("hops", "hops", 1, ".2f"),
    ("overhead, %", "overhead", 100, ".1f"),
    ("memory, B", "memory_bytes", 1, ",.0f"),
    ("moves", "moves", 1, ".0f"),
    ("selection, s", "selection_s", 1, ".2f"),
)


@dataclass(frozen=True, kw_only=True)
class GrapeOptions:
    data: Path | None = field(
        default=None,
        metadata=data_folder(
            "The folder with stocks/ and latency/; without it both are generated."
        ),
    )
    full: bool = option(
        False, "The paper's 18 minutes, 40 publishers, more points: over an hour on a core."
    )
    publishers: int | None = option(None, "[default: 10, full: 40]", low=1, high=100)
    brokers: int | None = option(None, "[default: 63]", flags=("-n", "--brokers"), low=3, high=490)
    seeds: int = option(1, low=1, high=100)
    seed: int = option(1, low=0)
    jobs: int = option(1, low=1)


def _tasks(figure: str, options: GrapeOptions) -> list[GrapeTask]:
    used = setting.FULL if options.full else setting.GrapeSetting()
    used = replace(
        used,
        publishers=options.publishers or used.publishers,
        brokers=options.brokers or used.brokers,
    )
    return tasks(
        figure,
        seed=options.seed,
        seeds=options.seeds,
        full=options.full,
        data=options.data,
        setting=used,
    )


def _run(task: GrapeTask) -> list[RunOutcome]:
    return [run_task(task)]


def _report(figure: str, options: GrapeOptions, outcomes: Sequence[RunOutcome]) -> Report:
    verdicts = [Verdicts(statements(figure, outcomes))]
    told = headlines(outcomes) if figure == "grape-fig5" else []
    fields = {"what": "about", "paper": "wanted", "ours": "found"}
    title = "the paper's figures and ours (PlanetLab latencies, simulated)"
    beside = Verdicts(told, "headlines", fields, title)
    groups: dict[tuple[str, str, int, int], list[RunOutcome]] = {}
    for each in outcomes:
        key = (each.distribution, each.variant, each.spread, each.threshold)
        groups.setdefault(key, []).append(each)
    table = ResultTable(
        f"{figure}: averages over brokers or deliveries at the end of the run",
        ("workload", "variant", "at", "traced", *(column[0] for column in COLUMNS)),
        [
            (
                *map(str, key),
                *(format(by * mean_of(group, name), form) for _, name, by, form in COLUMNS),
            )
            for key, group in groups.items()
        ],
        left=2,
    )
    return Report({"runs": list(outcomes)}, [table], [beside, *verdicts])


_figure = figures(GrapeOptions, tasks=_tasks, run=_run, report=_report, draw=plots.draw)

EXPERIMENTS = (
    _figure(
        "grape-fig5",
        "POP/GRAPE Figure 5: load, delay, hops, memory and overhead by subscriber distribution.",
        "--data ../shared/data --jobs 2",
    ),
    _figure(
        "grape-fig6",
        "POP/GRAPE Figure 6: selection time, publishers' waits, and the sampling triggers.",
        "--data ../shared/data",
    ),
)

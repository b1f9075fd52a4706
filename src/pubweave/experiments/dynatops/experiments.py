"""DYNATOPS' Figures 6 to 10 and Table 1 as experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from pubweave.experiments.dynatops import mapping, plots, statements, sweep
from pubweave.experiments.dynatops.mapping import Saving
from pubweave.experiments.dynatops.sweep import SweepScale, Task
from pubweave.experiments.dynatops.systems import SystemRun
from pubweave.experiments.experiment import (
    Experiment,
    Report,
    ResultTable,
    Statement,
    Verdicts,
    data_folder,
    option,
)

LARGE = 24
"""From this many runs on Spark is used, unless the user says otherwise."""
PATTERNS = ("uniform", "zipf", "multimodal")
ALL_PATTERNS = "all"

# --- Figures 6 to 9: systems beside each other ---------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SystemsOptions:
    """What all figures of systems have in common."""

    full: bool = option(False, "The paper's 100 hours, and all check-ins (83 days).")
    seeds: int = option(1, low=1, high=100)
    seed: int = option(1, low=0)
    spark: bool | None = option(
        None, f"Runs side by side. [default: from {LARGE} on]", flags=("--spark/--no-spark",)
    )
    master: str = option("local[*]", "--spark: master URL.")

    @property
    def scale(self) -> SweepScale:
        """How large the runs are: of the options, those that say it."""
        given = {each.name: getattr(self, each.name, None) for each in fields(SweepScale)}
        if self.full:
            given["hours"] = given["hours"] or 100
            given["days"] = given["days"] or sweep.MOST_DAYS
        data = given.pop("data")
        sizes = {name: value for name, value in given.items() if value is not None}
        return SweepScale(data=None if data is None else str(data.absolute()), **sizes)

    @property
    def all_seeds(self) -> range:
        return range(self.seed, self.seed + self.seeds)


@dataclass(frozen=True, kw_only=True)
class LocationOptions(SystemsOptions):
    data: Path | None = field(
        default=None,
        metadata=data_folder("The folder with checkins/; without it, travels are drawn."),
    )
    days: int | None = option(None, "[default: 20, with --full 83]", low=2, high=83)


@dataclass(frozen=True, kw_only=True)
class PoissonOptions(SystemsOptions):
    users: int = option(50_000, low=10)
    brokers: int = option(100, low=2)
    topics: int = option(1_000, low=10)
    hours: int | None = option(None, "[default: 10, with --full 100]", low=1)


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(PoissonOptions):
    one_topic: bool = option(False, "A change is one topic of a user, not all five.")

    @property
    def whole(self) -> bool:
        return not self.one_topic


@dataclass(frozen=True, kw_only=True)
class PatternOptions(ChangeOptions):
    pattern: str = option("multimodal", choices=(*PATTERNS, ALL_PATTERNS))
    no_tco: bool = option(False, "Leave TCO out, which takes most of the time.")


@dataclass(frozen=True, kw_only=True)
class BothOptions(LocationOptions, PoissonOptions):
    pass


def _figure_7_tasks(options: PatternOptions) -> list[Task]:
    patterns = PATTERNS if options.pattern == ALL_PATTERNS else (options.pattern,)
    systems = [name for name in sweep.FIGURE_7_SYSTEMS if not (options.no_tco and name == "tco")]
    return sweep.figure_7(options.scale, options.all_seeds, patterns, systems=systems)


def _tasks(
    of: Callable[[SweepScale, Sequence[int]], list[Task]], options: SystemsOptions
) -> list[Task]:
    return of(options.scale, options.all_seeds)


def _master(options: SystemsOptions, count: int) -> str | None:
    is_wanted = count >= LARGE if options.spark is None else options.spark
    return options.master if is_wanted else None


COLUMNS = {
    "model": "{.model}", "system": "{.system}", "pattern": "{.pattern}", "rate": "{.rate:g}",
    "c": "{.cluster_size}", "w_l": "{.load_weight:g}", "T_free": "{.free_period_h}",
    "broker changes": "{.subscription_changes:,.1f}", "control": "{.management_messages:,.0f}",
    "handovers": "{.handovers:,.2f}", "max load": "{.highest_load_over_mean:.2f}",
    "delay": "{.delay:.2f}", "from root": "{.tree_delay:.2f}",
    "messages": "{.messages_per_publication:.1f}", "reconf.": "{.reconfigurations}",
    "Eq. 7": "{.reconfiguration_cost:,.0f}", "counted": "{.reconfiguration_messages:,.0f}",
}  # fmt: skip


def _systems_report(
    judge: Callable[[Sequence[SystemRun]], list[Statement]],
    options: SystemsOptions,
    rows: Sequence[SystemRun],
) -> Report:
    table = ResultTable.of("per hour, or per publication; delay in hops (Poisson) or ms (location)",
                     rows, COLUMNS, left=3)  # fmt: skip
    return Report({"runs": list(rows)}, [table], [Verdicts(judge(rows), fields=statements.FIELDS)])


def _systems(
    name: str,
    about: str,
    example: str,
    options: Any,
    tasks: Callable[[Any], list[Task]],
    judge: Callable[[Sequence[SystemRun]], list[Statement]],
) -> Experiment[Any, Task, SystemRun]:
    return Experiment(
        name,
        about,
        options,
        tasks=tasks,
        run=sweep.run_task,
        report=partial(_systems_report, judge),
        plot=lambda _, rows, path: plots.draw_systems(name, rows, path),
        example=example,
        spark=_master,
    )


# --- Figure 10 and Table 1: mappings -------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MappingOptions:
    seeds: int = option(3, low=1, high=100)
    seed: int = option(1, low=0)


def _mapping_tasks(options: MappingOptions) -> list[mapping.Task]:
    return mapping.tasks(mapping.SIZES, range(options.seed, options.seed + options.seeds))


def _mapping_table(
    title: str, headings: Sequence[str], cells: Callable[[tuple[int, int], str], list[str]]
) -> ResultTable:
    rows = [
        (f"{size[0]:,}", f"{size[1]:,}", pattern.value, *cells(size, pattern.value))
        for size in mapping.SIZES
        for pattern in mapping.PATTERNS
    ]
    return ResultTable(title, ("brokers", "topics", "pattern", *headings), rows, left=3)


def _savings_report(options: MappingOptions, rows: Sequence[Saving]) -> Report:
    names = ("greedy_overhead_saved", "greedy_delay_saved", "greedy_saved", "best_saved",
             "most_saved")  # fmt: skip
    table = _mapping_table(
        "saved against consistent hashing, means over seeds",
        ("overhead", "delay", "cost", "best", "at most"),
        lambda size, pattern: [f"{mapping.mean_of(rows, size, pattern, n):.1%}" for n in names],
    )
    notes = (
        "overhead, delay and cost are Algorithm 3's; best starts from the least delay; at most: no "
        "mapping saves more",
        "the paper (Figure 10, in words): always better than consistent hashing, more so where "
        "subscriptions are skewed",
    )
    return Report({"runs": list(rows)}, [table], notes=notes)


def _times_report(options: MappingOptions, rows: Sequence[Saving]) -> Report:
    table = _mapping_table(
        "seconds (the paper: a 2 GHz workstation of 2013)",
        ("the paper", "greedy, ours", "best, ours"),
        lambda size, pattern: [
            f"{mapping.PAPER_SECONDS[size]:g}",
            *(f"{mapping.mean_of(rows, size, pattern, n):.4f}" for n in ("greedy_s", "best_s")),
        ],
    )
    return Report({"runs": list(rows)}, [table])


EXPERIMENTS: tuple[Experiment[Any, Any, Any], ...] = (
    _systems(
        "dynatops-fig6",
        "DYNATOPS Figure 6: users who travel (check-ins), all systems and sizes of clusters.",
        "--data ../shared/data --days 30",
        LocationOptions,
        partial(_tasks, sweep.figure_6),
        statements.figure_6,
    ),
    _systems(
        "dynatops-fig7",
        """DYNATOPS Figure 7: users' changing subscriptions, by how fast they change.

        'dynatops' has the paper's rules; 'dynatops-wide' its rule for users in clusters of 100
        that are told through one broker; 'dynatops-plus' ours in the same clusters.""",
        "--pattern all --no-tco",
        PatternOptions,
        _figure_7_tasks,
        statements.figure_7,
    ),
    _systems(
        "dynatops-fig8",
        "DYNATOPS Figure 8: delay and messages of all systems, by pattern of subscriptions.",
        "--hours 20 --seeds 3 --spark",
        ChangeOptions,
        partial(_tasks, sweep.figure_8),
        statements.figure_8,
    ),
    _systems(
        "dynatops-fig9",
        "DYNATOPS Figure 9: longer and shorter free periods between reconfigurations.",
        "--data ../shared/data",
        BothOptions,
        partial(_tasks, sweep.figure_9),
        statements.figure_9,
    ),
    Experiment(
        "dynatops-fig10",
        "DYNATOPS Figure 10: what mappings save against consistent hashing, by size.",
        MappingOptions,
        tasks=_mapping_tasks,
        run=mapping.run_task,
        report=_savings_report,
        plot=lambda _, rows, path: plots.draw_savings(rows, path, is_time=False),
        unit="mappings",
    ),
    Experiment(
        "dynatops-table1",
        "DYNATOPS Table 1: how long Algorithm 3 takes, by size.",
        MappingOptions,
        tasks=_mapping_tasks,
        run=mapping.run_task,
        report=_times_report,
        plot=lambda _, rows, path: plots.draw_savings(rows, path, is_time=True),
        unit="mappings",
    ),
)

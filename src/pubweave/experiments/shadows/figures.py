"""Shadows' Figures 2 to 8: what each needs to be run, and its numbers.

A task is one instance of a figure. It returns rows: one for each node (Figures 2, 3), or for each
round of each variant (4 to 8), with Low-ODA's where the figure has them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pubweave.experiments.shadows.setting import ShadowsSetting, ShadowsWorld, make_world, rebuilt
from pubweave.generate.workloads.churn_rounds import Popularity

FIGURES = tuple(f"shadows-fig{number}" for number in range(2, 9))
LOW_ODA = "low-oda"
VARIANTS_OF = {
    "shadows-fig4": ("shadow, greedy backups", "shadow"),
    "shadows-fig5": ("lambda 1", "lambda 2", "lambda 3", "lambda 4"),
    "shadows-fig6": ("lean", "shadow", "shadow, maximum over shadows", "naive"),
    "shadows-fig7": ("lean", "shadow", "naive"),
    "shadows-fig8": ("lean", "shadow"),
}
WITH_LOW_ODA = ("shadows-fig6", "shadows-fig7", "shadows-fig8")
TIMED, TIMED_VERIFY_EVERY = "shadows-fig7", 100
BACKUPS_OF = {"shadows-fig2": "shadow, greedy backups", "shadows-fig3": "shadow"}

Row = dict[str, Any]


@dataclass(frozen=True)
class ShadowsTask:
    """One instance of a figure."""

    figure: str
    setting: ShadowsSetting


def tasks(
    figure: str,
    *,
    seeds: Sequence[int],
    popularities: Iterable[Popularity],
    sizes: dict[str, int],
) -> list[ShadowsTask]:
    """Every seed of every distribution; ``sizes`` are fields of `ShadowsSetting`."""
    return [
        ShadowsTask(figure, ShadowsSetting(popularity, seed, **sizes))
        for popularity in popularities
        for seed in seeds
    ]


def run_task(task: ShadowsTask, clock: Callable[[], float]) -> list[Row]:
    """All rows of one instance."""
    world = make_world(task.setting)
    known = {"popularity": task.setting.popularity.value, "seed": task.setting.seed}
    if task.figure in BACKUPS_OF:
        rows = _backup_rows(world, BACKUPS_OF[task.figure])
    else:
        rows = []
        for variant in VARIANTS_OF[task.figure]:
            every = TIMED_VERIFY_EVERY if task.figure == TIMED else 1
            found = world.play(variant, clock, verify_every=every)
            rows += [{"variant": variant, **record.as_json()} for record in found]
        if task.figure in WITH_LOW_ODA:
            rows += [{"variant": LOW_ODA, **asdict(each)} for each in rebuilt(world, clock)]
    return [{**known, **row} for row in rows]


def _backup_rows(world: ShadowsWorld, variant: str) -> list[Row]:
    """How many backups and primaries each node has, before any churn."""
    state = world.maintained(variant).state
    return [
        {
            "variant": variant,
            "nodes": world.wanted.node_count,
            "topics": int(world.wanted.sizes[node]),
            "backups": int(state.backups.sizes[node]),
            "primaries": int(state.primaries.sizes[node]),
        }
        for node in range(world.wanted.node_count)
    ]


def chosen(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def mean_of(rows: Sequence[Row], name: str) -> float:
    return statistics.fmean(row[name] for row in rows) if rows else float("nan")


def gaps(rows: Sequence[Row], variant: str, name: str) -> list[float]:
    """How far a variant is above Low-ODA after the rounds at which that was run."""
    own = {
        (row["popularity"], row["seed"], row["number"]): row
        for row in chosen(rows, variant=variant)
    }
    found = []
    for row in chosen(rows, variant=LOW_ODA):
        key = (row["popularity"], row["seed"], row["number"])
        found.append(own[key][name] - row[name])
    return found


def quantile(values: Sequence[float], share: float) -> float:
    return float(np.quantile(np.array(values), share))

"""Which runs DYNATOPS' Figures 6 to 9 are made of: a list of small documents, run anywhere.

A task is plain data, so that Spark can send it to any worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pubweave.experiments.dynatops import location, poisson
from pubweave.experiments.dynatops.location import run_location
from pubweave.experiments.dynatops.systems import SystemRun
from pubweave.generate.workloads.dynatops import Pattern, Travels, drawn_travels, read_travels

CHECKINS = "checkins/gowalla_nyc_checkins.csv.gz"
FRIENDSHIPS = "checkins/gowalla_nyc_friends.csv.gz"
SINCE = datetime(2010, 8, 1, tzinfo=UTC)
"""The paper's three months; the data ends on October 23."""
MOST_DAYS = 83

DRAWN_USERS, DRAWN_SIDE = 1_500, 24
FIGURE_8_SYSTEMS = ("bayeux", "bayeux-16", "tco", "dynatops-bnr", "dynatops-up", "dynatops",
                    "dynatops-plus")  # fmt: skip
FIGURE_7_SYSTEMS = (*FIGURE_8_SYSTEMS[:-1], "dynatops-wide", "dynatops-plus")
FIGURE_9_RATE, FIGURE_9_CLUSTER = 0.025, 5

Task = dict[str, Any]


@dataclass(frozen=True)
class SweepScale:
    """How large runs are; the paper's Poisson model has 50,000 users and 100 hours."""

    users: int = 50_000
    brokers: int = 100
    topics: int = 1_000
    hours: int = 10
    whole: bool = True
    data: str | None = None
    """The folder with checkins/; without it, travels are drawn."""
    days: int = 20

    @property
    def poisson(self) -> Task:
        return {
            "model": "poisson", "users": self.users, "brokers": self.brokers,
            "topics": self.topics, "hours": self.hours, "whole": self.whole,
        }  # fmt: skip

    @property
    def location(self) -> Task:
        return {"model": "location", "data": self.data, "days": self.days}


def figure_6(scale: SweepScale, seeds: Iterable[int]) -> list[Task]:
    """All systems; clusters of all sizes, loads that weigh nothing, little or much."""
    tasks = []
    for seed in seeds:
        common = {**scale.location, "seed": seed}
        tasks.append({**common, "systems": (*location.FIXED_SYSTEMS, location.LASTING_SYSTEM)})
        for size in location.CLUSTER_SIZES:
            for weight in location.LOAD_WEIGHTS:
                is_usual = weight == location.LOAD_WEIGHT
                systems = location.PLACED_SYSTEMS if is_usual else ("dynatops-up",)
                tasks.append(
                    {**common, "systems": systems, "cluster_size": size, "load_weight": weight}
                )
    return tasks


def figure_7(
    scale: SweepScale,
    seeds: Iterable[int],
    patterns: Sequence[str],
    rates: Sequence[float] = poisson.RATES,
    systems: Sequence[str] = FIGURE_7_SYSTEMS,
) -> list[Task]:
    """Rates of change, by some patterns."""
    return [
        {**scale.poisson, "seed": seed, "pattern": pattern, "rate": rate, "systems": tuple(systems)}
        for pattern in patterns
        for seed in seeds
        for rate in rates
    ]


def figure_8(scale: SweepScale, seeds: Iterable[int]) -> list[Task]:
    """All patterns at 0.1 changes per user and hour, T_free = 10 hours."""
    patterns = [each.value for each in Pattern]
    return figure_7(scale, tuple(seeds), patterns, rates=(0.1,), systems=FIGURE_8_SYSTEMS)


def figure_9(scale: SweepScale, seeds: Iterable[int]) -> list[Task]:
    """Free periods in both models."""
    tasks = []
    for seed in seeds:
        for period in poisson.FREE_PERIODS_H:
            if period <= scale.hours:
                tasks.append({
                    **scale.poisson, "seed": seed, "rate": FIGURE_9_RATE,
                    "cluster_size": FIGURE_9_CLUSTER, "free_period_h": period,
                    "systems": ("dynatops-up", "dynatops", "dynatops-plus"),
                })  # fmt: skip
        for period in location.FREE_PERIODS_H:
            if period < 24 * scale.days:
                tasks.append({
                    **scale.location, "seed": seed, "free_period_h": period,
                    "systems": ("dynatops-up", "dynatops", "dynatops-plus"),
                })  # fmt: skip
    return tasks


def run_task(task: Task) -> list[SystemRun]:
    """The rows of one run."""
    given = dict(task)
    systems = tuple(given.pop("systems"))
    if given.pop("model") == "poisson":
        given["pattern"] = Pattern(given.get("pattern", Pattern.MULTIMODAL.value))
        return list(poisson.run_poisson(poisson.PoissonSetting(systems=systems, **given)))
    travels = travels_of(given.pop("data"), given.pop("days"), given["seed"])
    return list(run_location(travels, location.LocationSetting(systems=systems, **given)))


@lru_cache(maxsize=2)
def travels_of(data: str | None, days: int, seed: int) -> Travels:
    """Real check-ins from August 2010 on, or drawn ones."""
    rng = np.random.default_rng([seed, 3])
    if data is None:
        return drawn_travels(DRAWN_USERS, DRAWN_SIDE, 24 * days, rng)
    folder = Path(data)
    return read_travels(
        folder / CHECKINS, folder / FRIENDSHIPS, rng, since=SINCE,
        until=SINCE + timedelta(days=days),
    )  # fmt: skip

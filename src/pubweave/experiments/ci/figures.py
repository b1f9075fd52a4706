"""CI's Figures 4, 5 and 6: which runs they need, and what to make of them.

A task is one underlay with all the runs of a figure, so tasks share nothing and may run anywhere.
Statements compare heuristics underlay by underlay: the interval of a difference is far narrower
than the difference of two intervals.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pubweave.experiments.ci.run import ALL, STATIC, Series, run_variant
from pubweave.experiments.ci.setting import CiSetting, make_world

FIGURES = ("ci-fig4", "ci-fig5", "ci-fig6")
SEEDS, FULL_SEEDS = 4, 25
ETAS = (2, 3, 4, 5, 6, 7, 8)
ALPHAS, FULL_ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0), tuple(round(0.1 * k, 1) for k in range(11))
GAMMA = 20.0
SWEEP_TICKS = 25_000
MEASURED_TICKS = 1_000
SMALL = CiSetting(domains=20, routers_per_domain=51)
"""The paper's brokers, clients and times on an underlay of a tenth of the routers."""

# Two-sided 95% quantiles of Student's t by degrees of freedom; beyond, the normal one will do.
_T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
      2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064)  # fmt: skip


@dataclass(frozen=True)
class CiTask:
    """One underlay of a figure."""

    figure: str
    seed: int
    setting: CiSetting
    points: tuple[float, ...] = ()


@dataclass(frozen=True)
class Run:
    """One heuristic on one underlay; ``point`` is eta or alpha where the figure has them."""

    figure: str
    seed: int
    variant: str
    point: float | None
    notifications: float
    broadcasts: float
    reconfigurations: float
    exchanges: int
    curve: tuple[float, ...] = ()
    """Figure 4: the cost of every 1,000 ticks."""

    @property
    def total(self) -> float:
        return self.notifications + self.broadcasts + self.reconfigurations

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"total": self.total}


@dataclass(frozen=True)
class Mean:
    """A mean over underlays with the half width of its 95% confidence interval."""

    value: float
    half: float

    @property
    def is_below_zero(self) -> bool:
        return self.value + self.half < 0

    @property
    def is_above_zero(self) -> bool:
        return self.value - self.half > 0


def tasks(figure: str, *, seed: int, count: int, full: bool) -> list[CiTask]:
    """The underlays of a figure, each with its own seed."""
    setting = CiSetting() if full else SMALL
    if figure != "ci-fig4":
        setting = replace(setting, ticks=SWEEP_TICKS)
    etas = tuple(float(eta) for eta in ETAS)
    points = {"ci-fig4": (), "ci-fig5": etas, "ci-fig6": FULL_ALPHAS if full else ALPHAS}[figure]
    return [CiTask(figure, seed + number, setting, points) for number in range(count)]


def run_task(task: CiTask) -> list[Run]:
    """All runs of one underlay."""
    world = make_world(task.seed, task.setting)
    if task.figure == "ci-fig4":
        return [_run(task, None, run_variant(world, name, seed=task.seed)) for name in ALL]
    if task.figure == "ci-fig5":
        static = run_variant(world, STATIC)
        runs = [_run(task, None, static)]
        for name in ("ci", "ci-sides"):
            for eta in task.points:
                found = run_variant(world, name, eta=int(eta), seed=task.seed)
                runs.append(_run(task, eta, found))
        return runs
    runs = []
    for alpha in task.points:
        scaled = world.scaled((1 - alpha) * GAMMA, alpha * GAMMA)
        for name in (STATIC, "ci", "ci-damped", "ci-sides", "lmst", "lmit"):
            runs.append(_run(task, alpha, run_variant(scaled, name, seed=task.seed)))
    return runs


def _run(task: CiTask, point: float | None, series: Series) -> Run:
    curve: tuple[float, ...] = ()
    if task.figure == "ci-fig4":
        size = MEASURED_TICKS // task.setting.interval_ticks
        total = series.total
        curve = tuple(
            float(total[first : first + size].sum()) for first in range(0, len(total), size)
        )
    return Run(
        task.figure,
        task.seed,
        series.variant,
        point,
        sum(series.notifications),
        sum(series.broadcasts),
        sum(series.reconfigurations),
        series.exchanges,
        curve,
    )


def mean(values: Sequence[float]) -> Mean:
    """A mean with its 95% confidence interval; of a single value nothing is known."""
    value = statistics.fmean(values)
    if len(values) < 2:
        return Mean(value, float("inf"))
    quantile = _T[len(values) - 2] if len(values) - 2 < len(_T) else 1.96
    return Mean(value, quantile * statistics.stdev(values) / len(values) ** 0.5)


def chosen(runs: Sequence[Run], variant: str, point: float | None = None) -> list[Run]:
    """One variant's runs at a point, by seed."""
    found = [run for run in runs if run.variant == variant and run.point == point]
    return sorted(found, key=lambda run: run.seed)


def ratio(
    runs: Sequence[Run],
    one: tuple[str, float | None],
    other: tuple[str, float | None],
) -> Mean:
    """How much dearer one is than the other, as a share, underlay by underlay."""
    pairs = zip(chosen(runs, *one), chosen(runs, *other), strict=True)
    return mean([mine.total / theirs.total - 1 for mine, theirs in pairs])

"""CI's Figures 4, 5 and 6: which runs they need, what the paper says of them, whether it holds.

A task is one underlay with all the runs of a figure, so tasks share nothing and may run anywhere.
Statements compare heuristics underlay by underlay: the interval of a difference is far narrower
than the difference of two intervals.

"Less" is met only if the whole 95% interval says so: a tie is not met. "No worse" and "tied" allow
for one: the other side's advantage is not significant.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from pubweave.experiments.ci.run import ALL, BEST, STATIC, VARIANTS, Series, run_variant
from pubweave.experiments.ci.setting import CiSetting, make_world
from pubweave.experiments.experiment import Statement

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
    runs: Sequence[Run], one: tuple[str, float | None], other: tuple[str, float | None]
) -> Mean:
    """How much dearer one is than the other, as a share, underlay by underlay."""
    pairs = zip(chosen(runs, *one), chosen(runs, *other), strict=True)
    return mean([mine.total / theirs.total - 1 for mine, theirs in pairs])


RECONFIGURATION_SHARE_MAX = 0.03
PAPER_ETA = 4.0
OURS = {"ci": "CI as printed", "ci-damped": "CI, damped,", "ci-sides": "CI by sides"}


def statements(figure: str, runs: Sequence[Run]) -> list[Statement]:
    """All that is said of a figure."""
    return {"ci-fig4": _figure_4, "ci-fig5": _figure_5, "ci-fig6": _figure_6}[figure](runs)


def percent(share: Mean) -> str:
    """A share with its interval.

    >>> percent(Mean(-0.25, 0.03))
    '-25.0% ± 3.0'
    """
    return f"{100 * share.value:+.1f}% ± {100 * share.half:.1f}"


def _figure_4(runs: Sequence[Run]) -> list[Statement]:
    found = []
    for name, title in OURS.items():
        for other in ("lmst", "lmit", STATIC):
            gain = ratio(runs, (name, None), (other, None))
            words = f"{title} costs less than {other}"
            found.append(Statement(words, percent(gain), gain.is_below_zero))
    for name in VARIANTS:
        gain = ratio(runs, (name, None), (STATIC, None))
        words = f"{name} lowers the cost of the static tree"
        found.append(Statement(words, percent(gain), gain.is_below_zero))
    found.extend(_recoveries(runs))
    for name, title in OURS.items():
        share = _reconfiguration_share(chosen(runs, name))
        words = f"{title} spends less than 3% of the adapted network's cost on reconfigurations"
        is_met = share.value + share.half < RECONFIGURATION_SHARE_MAX
        found.append(Statement(words, percent(share), is_met))
    for name, words in (
        ("ci-sides", "counting relayed notifications (sides) beats phi, significantly"),
        ("ci-conjunction", "the conjunction of Bloom filters beats phi, significantly"),
        ("ci-damped", "the damping rule beats the original, significantly"),
    ):
        gain = ratio(runs, (name, None), ("ci", None))
        found.append(Statement(words, percent(gain), gain.is_below_zero))
        above = ratio(runs, (name, None), (BEST, None))
        words = f"{name} lies between the static tree and the best of a global search"
        found.append(Statement(words, f"{percent(above)} above the best", above.is_above_zero))
    return found


def _recoveries(runs: Sequence[Run]) -> list[Statement]:
    """After a change: the first 1,000 ticks against the last 5,000 before the next change."""
    setting = CiSetting()
    changes = (setting.links_change_at, setting.brokers_change_at, setting.ticks)
    found = []
    for (begin, end), what in zip(pairwise(changes), ("links", "brokers"), strict=True):
        first, last = begin // MEASURED_TICKS, end // MEASURED_TICKS
        for name, title in OURS.items():
            shares = [
                mean(run.curve[last - 5 : last]).value / run.curve[first] - 1
                for run in chosen(runs, name)
                if len(run.curve) >= last
            ]
            if shares:
                fall = mean(shares)
                words = f"{title} recovers after all costs of {what} change"
                found.append(Statement(words, percent(fall), fall.is_below_zero))
    return found


def _figure_5(runs: Sequence[Run]) -> list[Statement]:
    found = []
    for name in ("ci", "ci-sides"):
        found.extend(_neighborhoods(runs, name))
    return found


def _neighborhoods(runs: Sequence[Run], name: str) -> list[Statement]:
    """What is said of eta, for one of ours."""
    title = OURS[name]
    etas = sorted({run.point for run in runs if run.point is not None})
    means = {eta: mean([run.total for run in chosen(runs, name, eta)]).value for eta in etas}
    best = min(means, key=means.__getitem__)
    behind = ratio(runs, (name, PAPER_ETA), (name, best))
    broadcasts = [mean([run.broadcasts for run in chosen(runs, name, eta)]).value for eta in etas]
    shares = {eta: _reconfiguration_share(chosen(runs, name, eta)) for eta in etas}
    worst = max(shares.values(), key=lambda share: share.value)
    found = [
        Statement(
            f"{title}: eta = 4 is best, or tied with the best",
            f"best at {best:.0f}; eta = 4 is {percent(behind)} above it",
            not behind.is_above_zero,
        ),
        Statement(
            f"{title}: broadcasts cost more with every hop of the neighborhood",
            f"{broadcasts[0]:,.0f} at {etas[0]:.0f} hops, {broadcasts[-1]:,.0f} at {etas[-1]:.0f}",
            all(less < more for less, more in pairwise(broadcasts)),
        ),
        Statement(
            f"{title}: reconfigurations cost less than 3% of the adapted network, at every eta",
            f"at most {percent(worst)}",
            worst.value < RECONFIGURATION_SHARE_MAX,
        ),
    ]
    if chosen(runs, STATIC):
        gain = ratio(runs, (name, PAPER_ETA), (STATIC, None))
        words = f"{title}: the adapted network costs less than the static one"
        found.append(Statement(words, percent(gain), gain.is_below_zero))
    return found


def _figure_6(runs: Sequence[Run]) -> list[Statement]:
    alphas = sorted({run.point for run in runs if run.point is not None})
    found = []
    for name, title in OURS.items():
        for other in ("lmst", "lmit"):
            gains = {alpha: ratio(runs, (name, alpha), (other, alpha)) for alpha in alphas}
            worst = max(gains, key=lambda alpha: gains[alpha].value)
            found.append(
                Statement(
                    f"at every alpha {title} is no worse than {other}",
                    f"closest at alpha = {worst:g}: {percent(gains[worst])}",
                    not any(gain.is_above_zero for gain in gains.values()),
                )
            )
    first, last = (
        ratio(runs, ("lmst", alpha), (STATIC, alpha)) for alpha in (alphas[0], alphas[-1])
    )
    found.append(
        Statement(
            "lMST gets worse the more processing counts",
            f"{percent(first)} against static at alpha = {alphas[0]:g}, {percent(last)} at "
            f"{alphas[-1]:g}",
            first.value < last.value,
        )
    )
    return found


def _reconfiguration_share(runs: Sequence[Run]) -> Mean:
    return mean([run.reconfigurations / run.total for run in runs])

"""CI's Figures 4, 5 and 6: which runs they need, what the paper says of them, whether it holds.

A task is one underlay with all the runs of a figure, so tasks share nothing and may run anywhere.
Statements compare heuristics underlay by underlay: the interval of a difference is far narrower
than the difference of two intervals.

A statement is met, or not met, only if the whole 95% interval says so; else it is undecided, and
more underlays are needed.
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
SEEDS, FULL_SEEDS = 8, 25
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
    asking: float
    reconfigurations: float
    exchanges: int
    curve: tuple[float, ...] = ()
    """Figure 4: the cost of every 1,000 ticks."""

    @property
    def total(self) -> float:
        return self.notifications + self.broadcasts + self.asking + self.reconfigurations

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"total": self.total}


@dataclass(frozen=True)
class Mean:
    """A mean over underlays with the half width of its 95% confidence interval."""

    value: float
    half: float

    def is_below(self, bound: float = 0.0) -> bool | None:
        """None if the interval crosses the bound."""
        if self.value - self.half < bound <= self.value + self.half:
            return None
        return self.value < bound


def judged(words: str, found: str, is_met: bool | None) -> Statement:
    return Statement(words, found, is_met, only="undecided" if is_met is None else "")


def less(words: str, share: Mean, bound: float = 0.0) -> Statement:
    """That a share is below a bound."""
    return judged(words, percent(share), share.is_below(bound))


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
        for name in (STATIC, "ci", "ci-sides", "lmst", "lmit"):
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
        sum(series.asking),
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


_SHARE_MAX = 0.03
PAPER_ETA = 4.0
LMIT_FLAT = 0.1
OURS = {"ci": "CI as printed", "ci-sides": "CI by sides"}


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
    def against(name: str, other: str) -> Mean:
        return ratio(runs, (name, None), (other, None))

    found = []
    for name, title in OURS.items():
        for other in ("lmst", "lmit", STATIC):
            found.append(less(f"{title} costs less than {other}", against(name, other)))
    for name in VARIANTS:
        found.append(less(f"{name} lowers the cost of the static tree", against(name, STATIC)))
    found.extend(_recoveries(runs))
    for name, title in OURS.items():
        words = f"{title} spends less than 3% of the adapted network's cost on reconfigurations"
        found.append(less(words, _reconfiguration_share(chosen(runs, name)), _SHARE_MAX))
    for name, other, words in (
        ("ci", "ci-once", "CI as printed beats itself with one exchange per broker and interval"),
        ("ci-sides", "ci-sides-once", "by sides, too, any number of exchanges beats one"),
        ("ci-sides", "ci", "counting relayed notifications (sides) beats phi"),
        ("ci-conjunction", "ci", "the conjunction of Bloom filters beats phi"),
        ("ci-damped", "ci", "the damping rule beats the original"),
    ):
        found.append(less(words, against(name, other)))
    for name in VARIANTS:
        above = against(name, BEST)
        words = f"{name} lies above the best of a global search"
        is_below = above.is_below()
        found.append(judged(words, percent(above), None if is_below is None else not is_below))
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
                found.append(less(f"{title} recovers after all costs of {what} change", fall))
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
    best = min((eta for eta in etas if eta != PAPER_ETA), key=means.__getitem__)
    behind = ratio(runs, (name, PAPER_ETA), (name, best))
    broadcasts = [mean([run.broadcasts for run in chosen(runs, name, eta)]).value for eta in etas]
    shares = [_reconfiguration_share(chosen(runs, name, eta)) for eta in etas]
    found = [
        judged(
            f"{title}: eta = 4 costs least",
            f"{percent(behind)} against eta = {best:.0f}, the best of the others",
            behind.is_below(),
        ),
        Statement(
            f"{title}: broadcasts cost more with every hop of the neighborhood",
            f"{broadcasts[0]:,.0f} at {etas[0]:.0f} hops, {broadcasts[-1]:,.0f} at {etas[-1]:.0f}",
            broadcasts == sorted(broadcasts),
        ),
        less(
            f"{title}: reconfigurations cost less than 3% of the adapted network, at every eta",
            max(shares, key=lambda share: share.value + share.half),
            _SHARE_MAX,
        ),
    ]
    if chosen(runs, STATIC):
        words = f"{title}: the adapted network costs less than the static one"
        found.append(less(words, ratio(runs, (name, PAPER_ETA), (STATIC, None))))
    return found


def _figure_6(runs: Sequence[Run]) -> list[Statement]:
    alphas = sorted({run.point for run in runs if run.point is not None})
    found = []
    for name, title in OURS.items():
        for other in ("lmst", "lmit"):
            for alpha in alphas:
                words = f"at alpha = {alpha:g} {title} costs less than {other}"
                found.append(less(words, ratio(runs, (name, alpha), (other, alpha))))

    def change(name: str) -> Mean:
        """How its share of the static tree's cost differs between the two ends."""
        ends = [
            zip(chosen(runs, name, alpha), chosen(runs, STATIC, alpha), strict=True)
            for alpha in (alphas[0], alphas[-1])
        ]
        first, last = ([mine.total / static.total for mine, static in pairs] for pairs in ends)
        return mean([before - after for before, after in zip(first, last, strict=True)])

    found.append(less("lMST gains less the more processing counts", change("lmst")))
    flat = change("lmit")
    magnitude = Mean(abs(flat.value), flat.half)
    words = "what lMIT gains does not change with alpha: by less than 10 points"
    found.append(judged(words, percent(flat), magnitude.is_below(LMIT_FLAT)))
    return found


def _reconfiguration_share(runs: Sequence[Run]) -> Mean:
    return mean([run.reconfigurations / run.total for run in runs])

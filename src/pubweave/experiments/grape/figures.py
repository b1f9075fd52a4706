"""POP's and GRAPE's Figures 5 and 6: which runs they need, and what to make of them.

A task is one run: a variant in one world. Worlds of a seed are the same for all variants, so
reductions are computed world by world.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from pubweave.experiments.grape.run import (
    BASELINE,
    POP,
    WITH_SUBSCRIBERS,
    GrapeTask,
    RunOutcome,
    StockRun,
)
from pubweave.experiments.grape.setting import FULL, GrapeSetting, make_stock_world, read_data
from pubweave.generate.workloads.stocks import Distribution

FIGURES = ("grape-fig5", "grape-fig6")
VARIANTS = (BASELINE, POP, "load100", "delay100")
WEIGHTS = ("load75", "load50", "load25", "load1", "delay75", "delay50", "delay25", "delay1")
FEW_WEIGHTS = ("load50", "load1", "delay50", "delay1")
BOTH = ("load100" + WITH_SUBSCRIBERS, "delay100" + WITH_SUBSCRIBERS)
SPREADS, FULL_SPREADS = (1, 4, 16), (1, 2, 4, 8, 16, 32, 63)
MIDDLE = 16
"""The spread at which weights and thresholds are varied (5.2)."""
THRESHOLDS, FULL_THRESHOLDS = (10, 50, 100), (10, 25, 50, 100, 200)
METRICS = ("message_rate", "input_utilization", "delay_ms", "hops")


Point = tuple[str, Distribution, int, int]
"""A variant, how subscribers are rated, at how many brokers they are, and the threshold."""


def tasks(
    figure: str,
    *,
    seed: int,
    seeds: int,
    full: bool,
    data: Path | None,
    setting: GrapeSetting | None,
) -> list[GrapeTask]:
    """All runs of a figure, world by world."""
    used = setting or (FULL if full else GrapeSetting())
    spreads = tuple(x for x in (FULL_SPREADS if full else SPREADS) if x <= used.brokers)
    middle = min(MIDDLE, used.brokers)
    points = _points_5 if figure == "grape-fig5" else _points_6
    return [
        GrapeTask(used, *point, number, data, with_timeline=figure == "grape-fig6")
        for number in range(seed, seed + seeds)
        for point in points(spreads, middle, full)
    ]


def _points_5(spreads: tuple[int, ...], middle: int, full: bool) -> list[Point]:
    places = [(Distribution.CLUSTERED, spread) for spread in spreads]
    places += [(Distribution.RANDOM, spread) for spread in (spreads if full else (middle,))]
    points = [(variant, *place, 100) for place in places for variant in VARIANTS]
    others = (*(WEIGHTS if full else FEW_WEIGHTS), *BOTH)
    return points + [(variant, Distribution.CLUSTERED, middle, 100) for variant in others]


def _points_6(spreads: tuple[int, ...], middle: int, full: bool) -> list[Point]:
    clustered = Distribution.CLUSTERED
    points: list[Point] = [(BASELINE, clustered, middle, 100)]
    for threshold in FULL_THRESHOLDS if full else THRESHOLDS:
        points += [(variant, clustered, middle, threshold) for variant in ("load100", POP)]
    # Figures 6a and 6b: GRAPE's slowest setting, which needs all ping times.
    points += [("delay1", clustered, spread, 100) for spread in spreads]
    return points + [(POP, clustered, spread, 100) for spread in spreads if spread != middle]


def run_task(task: GrapeTask) -> RunOutcome:
    """One run, in this process."""
    quotes, rtt_ms = read_data(task.data)
    world = make_stock_world(
        task.setting, task.distribution, task.spread, task.seed, quotes, rtt_ms
    )
    return StockRun(world, task).play()


def chosen(
    outcomes: Sequence[RunOutcome],
    variant: str,
    distribution: Distribution,
    spread: int,
    threshold: int = 100,
) -> list[RunOutcome]:
    """One variant's outcomes at a point, by seed."""
    wanted = (variant, distribution.value, spread)
    found = [
        outcome
        for outcome in outcomes
        if (outcome.variant, outcome.distribution, outcome.spread) == wanted
        and (outcome.threshold == threshold or variant == BASELINE)
    ]
    return sorted(found, key=lambda outcome: outcome.seed)


def mean_of(outcomes: Sequence[RunOutcome], metric: str) -> float:
    """The mean of a figure of `Figures`, or of an outcome itself."""
    return statistics.fmean(
        getattr(o.end, metric) if metric in METRICS else getattr(o, metric) for o in outcomes
    )


def reduction(
    outcomes: Sequence[RunOutcome],
    variant: str,
    metric: str,
    distribution: Distribution,
    spread: int,
    against: str = BASELINE,
) -> float | None:
    """By what share a variant lowers a figure, world by world; None where it was not run."""
    pairs = list(
        zip(
            chosen(outcomes, variant, distribution, spread),
            chosen(outcomes, against, distribution, spread),
            strict=False,
        )
    )
    if not pairs:
        return None
    shares = [1 - getattr(ours.end, metric) / getattr(base.end, metric) for ours, base in pairs]
    return statistics.fmean(shares)


def best_reduction(
    outcomes: Sequence[RunOutcome], variant: str, metric: str, distribution: Distribution
) -> tuple[float, int] | None:
    """The largest reduction over all spreads, as the paper's headlines are, and where it is."""
    spreads = sorted({o.spread for o in outcomes if o.distribution == distribution.value})
    found = [
        (share, spread)
        for spread in spreads
        if (share := reduction(outcomes, variant, metric, distribution, spread)) is not None
    ]
    return max(found, default=None)


def waits_by_hops(outcomes: Sequence[RunOutcome]) -> dict[int, float]:
    """Mean wait of a migrating publisher in seconds, by the length of its way (Figure 6c)."""
    by_hops: dict[int, list[float]] = {}
    for outcome in outcomes:
        if not outcome.variant.endswith(WITH_SUBSCRIBERS):
            for hops, wait_s in outcome.waits:
                by_hops.setdefault(hops, []).append(wait_s)
    return {hops: statistics.fmean(waits) for hops, waits in sorted(by_hops.items())}

"""POP's and GRAPE's Figures 5 and 6: which runs they need, what the paper says, what we found.

A task is one run: a variant in one world. Worlds of a seed are the same for all variants, so
reductions are computed world by world.

The headlines are the largest reductions over all spreads. Our latencies are PlanetLab's, but
rates, client numbers and brokers are not the paper's: a statement is about order and direction, a
headline is set beside ours without a verdict.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from pubweave.experiments.experiment import Statement
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


CLUSTERED, RANDOM = Distribution.CLUSTERED, Distribution.RANDOM


# The paper's abstract, introduction and conclusions.
_PAPER = (
    ("load100", "input_utilization", "average input load", "68%"),
    ("load100", "message_rate", "average message rate", "84-85%"),
    ("delay100", "delay_ms", "average delivery delay", "68%"),
    (POP, "input_utilization", "average input load", "64%"),
    (POP, "message_rate", "average message rate", "85%"),
    (POP, "delay_ms", "average delivery delay", "63%"),
)


def headlines(outcomes: Sequence[RunOutcome]) -> list[Statement]:
    """The paper's reductions beside ours."""
    found = []
    for variant, metric, words, paper in _PAPER:
        best = best_reduction(outcomes, variant, metric, CLUSTERED)
        if best is not None:
            share, spread = best
            found.append(
                _beside(f"{variant}: {words}", paper, f"{share:.0%} (subscribers at {spread})")
            )
    found += _overheads(outcomes)
    return found


def _beside(about: str, paper: str, ours: str) -> Statement:
    """What the paper names and what we found, without a verdict."""
    return Statement(paper, ours, about=about)


def _overheads(outcomes: Sequence[RunOutcome]) -> list[Statement]:
    found = []
    for distribution, paper in ((CLUSTERED, "32% and 16%"), (RANDOM, "5% (GRAPE)")):
        of_both = {
            variant: [
                o.overhead
                for o in outcomes
                if o.variant == variant and o.distribution == distribution.value
            ]
            for variant in (POP, "load100")
        }
        if all(of_both.values()) and min(of_both[POP]) > 0:
            pop, grape = max(of_both[POP]), max(of_both["load100"])
            words = f"most message overhead, {distribution.value}: POP and GRAPE"
            found.append(_beside(words, paper, f"{pop:.0%} and {grape:.0%}"))
            share = 1 - min(g / p for g, p in zip(of_both["load100"], of_both[POP], strict=True))
            words = f"GRAPE's overhead below POP's, {distribution.value}, at most"
            found.append(_beside(words, "91%", f"{share:.0%}"))
            words = f"the same of trace messages alone, {distribution.value}"
            found.append(_beside(words, "", f"{_traced_less(outcomes, distribution):.0%}"))
    return found


def _traced_less(outcomes: Sequence[RunOutcome], distribution: Distribution) -> float:
    """By how much fewer messages GRAPE traces than POP, at most: for each publication."""
    by_variant = {
        variant: {
            (o.spread, o.seed): o.trace_messages / o.publications
            for o in outcomes
            if o.variant == variant and o.distribution == distribution.value
        }
        for variant in (POP, "load100")
    }
    both = by_variant[POP].keys() & by_variant["load100"].keys()
    return 1 - min(by_variant["load100"][key] / by_variant[POP][key] for key in both)


def statements(figure: str, outcomes: Sequence[RunOutcome]) -> list[Statement]:
    """All that is said of a figure; what cannot be said of these runs is left out."""
    return {"grape-fig5": _figure_5, "grape-fig6": _figure_6}[figure](outcomes)


def _figure_5(outcomes: Sequence[RunOutcome]) -> list[Statement]:
    spreads = sorted({o.spread for o in outcomes if o.distribution == CLUSTERED.value})
    found = [_whole(outcomes)]
    for spread in spreads:
        found += _order(outcomes, spread)
    for spread in sorted({o.spread for o in outcomes if o.distribution == RANDOM.value}):
        found.append(_random_delay(outcomes, spread))
    for one, other in (("load1", "delay100"), ("delay1", "load100")):
        found += _equivalent(outcomes, one, other, spreads)
    found += _with_subscribers(outcomes, spreads)
    return found


def _whole(outcomes: Sequence[RunOutcome]) -> Statement:
    lost, doubled = sum(o.lost for o in outcomes), sum(o.doubled for o in outcomes)
    moves = sum(o.moves for o in outcomes)
    return Statement(
        "migrations are lossless",
        f"{moves:,} migrations, {lost} deliveries lost, {doubled} doubled",
        lost == 0 and doubled == 0,
    )


def _order(outcomes: Sequence[RunOutcome], spread: int) -> list[Statement]:
    """Figures 5a to 5d at one spread."""
    names = (BASELINE, POP, "load100", "delay100")
    groups = {name: chosen(outcomes, name, CLUSTERED, spread) for name in names}
    if not all(groups.values()):
        return []

    def values(metric: str) -> dict[str, float]:
        return {name: mean_of(group, metric) for name, group in groups.items()}

    rate, delay = values("message_rate"), values("delay_ms")
    if spread == 1:
        same = abs(rate[POP] / rate["load100"] - 1) < 0.02
        words = "subscribers at 1: POP and GRAPE make the same decision"
        return [Statement(words, _shown(rate, "messages/s"), same)]
    least = min(rate, key=rate.__getitem__)
    soonest = min((name for name in names if name != POP), key=delay.__getitem__)
    return [
        Statement(
            f"subscribers at {spread}: load100 has the lowest message rate",
            _shown(rate, "messages/s"),
            least == "load100",
        ),
        Statement(
            f"subscribers at {spread}: delay100 has less delay than load100 and the baseline",
            _shown(delay, "ms"),
            soonest == "delay100",
        ),
    ]


def _random_delay(outcomes: Sequence[RunOutcome], spread: int) -> Statement:
    names = (BASELINE, POP, "load100", "delay100")
    delay = {n: mean_of(chosen(outcomes, n, RANDOM, spread), "delay_ms") for n in names}
    words = f"random, subscribers at {spread}: POP has less delay than delay100"
    return Statement(words, _shown(delay, "ms"), delay[POP] < delay["delay100"])


def _equivalent(
    outcomes: Sequence[RunOutcome], one: str, other: str, spreads: Sequence[int]
) -> list[Statement]:
    found = []
    for spread in spreads:
        groups = [chosen(outcomes, name, CLUSTERED, spread) for name in (one, other)]
        if all(groups):
            rates = [mean_of(group, "message_rate") for group in groups]
            delays = [mean_of(group, "delay_ms") for group in groups]
            apart = max(abs(a / b - 1) for a, b in (rates, delays))
            shown = f"rate {rates[0]:.2f} and {rates[1]:.2f}, delay {delays[0]:.0f} and "
            words = f"{one} is virtually {other} (within 10%)"
            found.append(Statement(words, f"{shown}{delays[1]:.0f} ms", apart < 0.1))
    return found


def _with_subscribers(outcomes: Sequence[RunOutcome], spreads: Sequence[int]) -> list[Statement]:
    """The paper's future work, against GRAPE alone."""
    found = []
    for name in BOTH:
        alone = name.removesuffix(WITH_SUBSCRIBERS)
        for spread in spreads:
            rate = reduction(outcomes, name, "message_rate", CLUSTERED, spread, alone)
            delay = reduction(outcomes, name, "delay_ms", CLUSTERED, spread, alone)
            if rate is not None and delay is not None:
                words = f"subscribers at {spread} that move, too, save more than {alone} alone"
                shown = f"message rate {-rate:+.0%}, delay {-delay:+.0%} against it"
                found.append(Statement(words, shown, rate > 0 and delay > 0))
    return found


def _figure_6(outcomes: Sequence[RunOutcome]) -> list[Statement]:
    found = [_whole(outcomes)]
    waits = waits_by_hops(outcomes)
    if len(waits) > 1:
        first, last = min(waits), max(waits)
        found.append(
            Statement(
                "a publisher waits in proportion to its migration path",
                f"{waits[first]:.2f} s over {first} hops, {waits[last]:.2f} s over {last}; "
                f"{_slope(waits):.2f} s more with each hop",
                _slope(waits) > 0,
            )
        )
    for variant, grows in (("load100", False), (POP, True)):
        by_threshold = {
            o.threshold: o.overhead for o in outcomes if o.variant == variant and o.spread > 4
        }
        if len(by_threshold) > 1:
            least, most = min(by_threshold), max(by_threshold)
            shown = f"{by_threshold[least]:.0%} at {least}, {by_threshold[most]:.0%} at {most}"
            more = "more" if grows else "less"
            name = "POP" if variant == POP else "GRAPE"
            is_met = (by_threshold[most] > by_threshold[least]) == grows
            found.append(Statement(f"{name}: a higher threshold costs {more}", shown, is_met))
    slow = [o.selection_s for o in outcomes if o.variant == "delay1"]
    quick = [o.selection_s for o in outcomes if o.variant == POP and o.threshold == 100]
    if slow and quick:
        found.append(
            Statement(
                "GRAPE takes longer to select than POP (up to 17 times, at most 5 s without pings)",
                f"at most {max(slow):.2f} s with pings, POP {max(quick):.2f} s",
                max(slow) > max(quick),
            )
        )
    return found


def _slope(points: dict[int, float]) -> float:
    """Least squares."""
    centre = sum(points) / len(points)
    spread = sum((x - centre) ** 2 for x in points)
    return sum((x - centre) * y for x, y in points.items()) / spread


def _shown(values: dict[str, float], unit: str) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in values.items()) + f" {unit}"

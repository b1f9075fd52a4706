"""What POP's and GRAPE's paper says of its Figures 5 and 6, and what was found in our runs.

The headlines are the largest reductions over all spreads. Our latencies are PlanetLab's, but
rates, client numbers and brokers are not the paper's: a statement is about order and direction, a
headline is set beside ours without a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from pubweave.experiments.experiment import Statement
from pubweave.experiments.grape.figures import (
    BOTH,
    best_reduction,
    chosen,
    mean_of,
    reduction,
    waits_by_hops,
)
from pubweave.experiments.grape.run import BASELINE, POP, WITH_SUBSCRIBERS, RunOutcome
from pubweave.generate.workloads.stocks import Distribution

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

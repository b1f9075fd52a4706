"""Figure 6 panel by panel: what IPITT says of each, what we found, and the bars we must meet.

The paper's figures carry no data; its words are from VI-C. Ours are made from `PointMeans` and
`Disruption` records alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pubweave.experiments.experiment import Statement
from pubweave.experiments.ipitt.disruption import (
    Disruption,
    MeasuringPoint,
    PlanVariant,
    PointMeans,
)

EXCESS_MS_MAX = 300.0
SAVING_MIN = 0.55


@dataclass(frozen=True)
class Panel:
    """One panel of Figure 6: ``value`` of `Cost` against ``variable`` of `MeasuringPoint`."""

    letter: str
    variable: str
    value: str
    paper: str


PANELS = (
    Panel("6a", "brokers", "affected_ms", "up to 2 s above the unaffected; more brokers, more"),
    Panel("6b", "brokers", "plan_s", "up to 55% shorter than BFS"),
    Panel("6d", "brokers", "queue_growth", "overlay size does not matter"),
    Panel("6e", "ratio", "affected_ms", "rises by up to 2.2 s"),
    Panel("6f", "ratio", "plan_s", "up to 60% shorter than BFS"),
    Panel("6g", "ratio", "queue_growth", "change ratio does not matter"),
    Panel("6h", "subscribers", "affected_ms", "grows sublinearly"),
    Panel("6i", "subscribers", "plan_s", "grows sublinearly"),
    Panel("6j", "subscribers", "queue_growth", "up to +110% for 5 times the subscribers"),
)


def line(
    means: Sequence[PointMeans], panel: Panel, way: PlanVariant, base: MeasuringPoint
) -> list[PointMeans]:
    """The means of one line of a panel, from left to right."""
    here = [
        mean
        for mean in means
        if mean.way is way
        and replace(base, **{panel.variable: getattr(mean.point, panel.variable)}) == mean.point
    ]
    return sorted(here, key=lambda mean: float(getattr(mean.point, panel.variable)))


def ours(means: Sequence[PointMeans], panel: Panel, base: MeasuringPoint) -> str:
    """What we found, to stand beside the paper's words."""
    found = line(means, panel, PlanVariant.PARALLEL, base)
    if not found:
        return "not measured"
    if panel.value == "affected_ms":
        worst = max(mean.cost["affected_ms"] - mean.cost["unaffected_ms"] for mean in found)
        text = f"up to {worst:.0f} ms above the unaffected"
    elif panel.value == "plan_s":
        text = _saved(means, panel, base)
    else:
        values = [mean.cost["queue_growth"] for mean in found]
        text = f"{min(values):.0f} to {max(values):.0f} publications"
    if panel.variable == "subscribers" and len(found) > 1:
        text += f"; {_growth(found, panel.value)}"
    return text


def _saved(means: Sequence[PointMeans], panel: Panel, base: MeasuringPoint) -> str:
    """How much shorter than one by one, and than BFS where that was measured everywhere."""
    texts = []
    for way, name in ((PlanVariant.SERIAL, "one by one"), (PlanVariant.BFS, "BFS")):
        pairs = list(
            zip(
                line(means, panel, PlanVariant.PARALLEL, base),
                line(means, panel, way, base),
                strict=False,
            )
        )
        savings = [
            1 - fast.cost["plan_s"] / slow.cost["plan_s"]
            for fast, slow in pairs
            if fast.point == slow.point
        ]
        if savings and len(savings) == len(line(means, panel, PlanVariant.PARALLEL, base)):
            least, most = f"{min(savings):.0%}", f"{max(savings):.0%}"
            span = least if least == most else f"{least} to {most}"
            texts.append(f"{span} shorter than {name}")
    return "; ".join(texts) or "alone"


def _growth(found: Sequence[PointMeans], value: str) -> str:
    first, last = found[0], found[-1]
    times = last.point.subscribers / first.point.subscribers
    before, after = first.cost[value], last.cost[value]
    return f"{after / before - 1:+.0%} for {times:g}x" if before else "from nothing"


def exponent(first: tuple[float, float], last: tuple[float, float]) -> float:
    """b of y = a x^b through two points; below 1 is sublinear.

    >>> exponent((1.0, 3.0), (4.0, 6.0))
    0.5
    """
    (x0, y0), (x1, y1) = first, last
    return math.log(y1 / y0) / math.log(x1 / x0)


def bars(
    runs: Sequence[Disruption], means: Sequence[PointMeans], base: MeasuringPoint
) -> list[Statement]:
    """Everything the issue asks of an execution, judged."""
    at_base = {way: [r for r in runs if r.point == base and r.way is way] for way in PlanVariant}
    found = []
    parallel = at_base[PlanVariant.PARALLEL]
    if parallel:
        found += _latency_bars(parallel)
    found += _growth_bars(means, base)
    for name, fast, slow in (
        ("same plan, actions of a step share no broker", PlanVariant.PARALLEL, PlanVariant.SERIAL),
        (
            "the same for plans of fewest steps, which share brokers",
            PlanVariant.FEWEST,
            PlanVariant.FEWEST_SERIAL,
        ),
    ):
        if at_base[fast] and len(at_base[fast]) == len(at_base[slow]):
            found.append(_saving_bar(f"execution time, {name}", at_base[fast], at_base[slow]))
    violated = sum(bool(run.cost.violations) for run in runs)
    deliveries = sum(run.cost.deliveries for run in runs)
    found.append(
        Statement(
            "no run with a violation",
            f"{violated} of {len(runs)} runs, {deliveries:,} deliveries",
            not violated,
            "nothing lost, doubled or out of order",
        )
    )
    return found


def _latency_bars(parallel: Sequence[Disruption]) -> list[Statement]:
    readings: tuple[tuple[str, Callable[[Disruption], float]], ...] = (
        (
            "p99 latency, held on their way against not held meanwhile",
            lambda run: run.cost.affected_ms - run.cost.unaffected_ms,
        ),
        (
            "p99 latency, in transit meanwhile against before and after (the paper's metric)",
            lambda run: run.cost.in_transit_ms - run.cost.quiet_ms,
        ),
    )
    wanted = f"at most {EXCESS_MS_MAX:.0f} ms more"
    return [
        _judged(name, wanted, [of(run) for run in parallel], " ms", lambda v: v <= EXCESS_MS_MAX)
        for name, of in readings
    ]


def _judged(
    name: str, wanted: str, values: Sequence[float], unit: str, is_met: Callable[[float], bool]
) -> Statement:
    """By the mean over the runs, as the paper reports; the range is told."""
    mean = statistics.fmean(values)
    text = f"{mean:.0f}{unit}"
    if len(values) > 1:
        text += f" ({min(values):.0f} to {max(values):.0f} over {len(values)} runs)"
    return Statement(wanted, text, is_met(mean), name)


def _saving_bar(name: str, fast: Sequence[Disruption], slow: Sequence[Disruption]) -> Statement:
    savings = [
        100 * (1 - one.cost.plan_s / other.cost.plan_s)
        for one, other in zip(fast, slow, strict=True)
    ]
    bar = _judged(name, f"at least {SAVING_MIN:.0%} less", savings, "%", _is_saved)
    means = [statistics.fmean(run.cost.plan_s for run in group) for group in (fast, slow)]
    return replace(bar, found=f"{bar.found}; {means[0]:.1f} s against {means[1]:.1f} s")


def _is_saved(percent: float) -> bool:
    return percent >= 100 * SAVING_MIN


def _growth_bars(means: Sequence[PointMeans], base: MeasuringPoint) -> list[Statement]:
    found = []
    for panel in PANELS:
        points = line(means, panel, PlanVariant.PARALLEL, base)
        if panel.variable != "subscribers" or len(points) < 2:
            continue
        ends = [
            (mean.point.subscribers, mean.cost[panel.value]) for mean in (points[0], points[-1])
        ]
        if not all(value > 0 for _, value in ends):
            continue
        power = exponent(*ends)
        name = {
            "affected_ms": "latency of affected",
            "plan_s": "execution time",
            "queue_growth": "queue growth",
        }[panel.value]
        (few, low), (many, high) = ends
        found.append(
            Statement(
                "sublinear",
                f"subscribers^{power:.2f}: {low:.4g} at {few:,}, {high:.4g} at {many:,}",
                power < 1,
                f"{name} with subscribers",
            )
        )
    return found

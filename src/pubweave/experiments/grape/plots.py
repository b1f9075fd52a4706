"""The pictures of POP's and GRAPE's Figures 5 and 6, in the paper's form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pubweave.experiments.grape.figures import chosen, mean_of, waits_by_hops
from pubweave.experiments.grape.run import BASELINE, POP, TIMELINE_S, RunOutcome
from pubweave.experiments.plotting import sheet, tidy
from pubweave.generate.workloads.stocks import Distribution

COLOURS = {BASELINE: "#7b8794", POP: "#e09f3e", "load100": "#2a9d5c", "delay100": "#1b4965"}
LABELS = {
    BASELINE: "baseline",
    POP: "POP",
    "load100": "GRAPE load100",
    "delay100": "GRAPE delay100",
}
PANELS = (
    ("message_rate", "messages per s and broker", 1.0),
    ("input_utilization", "input utilisation, %", 100.0),
    ("delay_ms", "delivery delay, ms", 1.0),
    ("hops", "hop count", 1.0),
    ("memory_bytes", "memory of traces per broker, bytes", 1.0),
    ("overhead", "message overhead, %", 100.0),
)


def draw(figure: str, outcomes: Sequence[RunOutcome], output: Path) -> None:
    """One picture into a file."""
    with sheet(output, 2, 4, dpi=100, figsize=(18, 8)) as (_, grid):
        places = list(grid.flat)
        {"grape-fig5": _figure_5, "grape-fig6": _figure_6}[figure](places, outcomes)
        for letter, axes in zip("abcdefgh", places, strict=True):
            tidy(axes)
            axes.set_ylim(bottom=0)
            title = axes.get_title()
            axes.set_title("")
            axes.set_title(f"({letter}) {title}", loc="left", fontsize=10)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(frameon=False, fontsize=8)


def _figure_5(places: list[Any], outcomes: Sequence[RunOutcome]) -> None:
    for axes, (metric, label, factor) in zip(places, PANELS, strict=False):
        _by_spread(axes, outcomes, metric, factor, Distribution.CLUSTERED)
        axes.set(ylabel=label, title="clustered")
    _by_spread(places[6], outcomes, "delay_ms", 1.0, Distribution.RANDOM)
    places[6].set(ylabel="delivery delay, ms", title="random")
    _by_weight(places[7], outcomes)


def _by_spread(
    axes: Any, outcomes: Sequence[RunOutcome], metric: str, factor: float, workload: Distribution
) -> None:
    spreads = sorted({o.spread for o in outcomes if o.distribution == workload.value})
    for variant, colour in COLOURS.items():
        points = [
            (spread, factor * mean_of(group, metric))
            for spread in spreads
            if (group := chosen(outcomes, variant, workload, spread))
        ]
        if points:
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, color=colour, label=LABELS[variant], marker="o")
    axes.set_xscale("log", base=2)
    axes.set_xticks(spreads, [str(spread) for spread in spreads])
    axes.set_xlabel("brokers with subscribers")


def _by_weight(axes: Any, outcomes: Sequence[RunOutcome]) -> None:
    """Delay against message rate of all weights, and with subscribers that move."""
    middle = max((o.spread for o in outcomes if o.variant == "load1"), default=0)
    together: dict[tuple[float, float], list[str]] = {}
    for name in dict.fromkeys(o.variant for o in outcomes):
        group = chosen(outcomes, name, Distribution.CLUSTERED, middle)
        if group:
            x, y = mean_of(group, "message_rate"), mean_of(group, "delay_ms")
            axes.plot(x, y, "o", color=COLOURS.get(name, "#7b2cbf"))
            # Weights that make the same choices lie on one point: one label for all of them.
            together.setdefault((round(x, 1), round(y, -1)), []).append(name)
    for (x, y), names in together.items():
        label = ",\n".join(names)
        axes.annotate(label, (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
    axes.set_xlim(left=0)
    axes.set_xlabel("messages per s and broker")
    axes.set(ylabel="delivery delay, ms", title=f"weights, subscribers at {middle} brokers")


def _figure_6(places: list[Any], outcomes: Sequence[RunOutcome]) -> None:
    for axes, variant, title in (
        (places[0], POP, "POP selection time"),
        (places[1], "delay1", "GRAPE selection time (delay1, with pings)"),
    ):
        group = sorted(
            (o.spread, o.selection_s)
            for o in outcomes
            if o.variant == variant and o.threshold == 100
        )
        if group:
            axes.plot(*zip(*group, strict=True), marker="o", color=COLOURS[POP])
        axes.set(xlabel="brokers with subscribers", ylabel="s", title=title)
    waits = waits_by_hops(outcomes)
    places[2].plot(list(waits), list(waits.values()), "o-", color=COLOURS["delay100"])
    places[2].set(xlabel="hops of the migration path", ylabel="s", title="publisher wait time")
    for axes, metric, title in (
        (places[3], "delay_ms", "GRAPE delivery delay, ms"),
        (places[4], "hops", "GRAPE hop count"),
        (places[5], "message_rate", "GRAPE messages per s and broker"),
    ):
        _over_time(axes, outcomes, metric)
        axes.set_title(title)
    for axes, variant, title in (
        (places[6], "load100", "GRAPE message overhead, %"),
        (places[7], POP, "POP message overhead, %"),
    ):
        _by_threshold(axes, outcomes, variant)
        axes.set_title(title)


def _over_time(axes: Any, outcomes: Sequence[RunOutcome], metric: str) -> None:
    seed = min(o.seed for o in outcomes)
    shades = iter(("#95d5b2", "#52b788", "#2d6a4f", "#1b4332", "#081c15"))
    for outcome in outcomes:
        if outcome.seed == seed and outcome.variant in (BASELINE, "load100"):
            is_baseline = outcome.variant == BASELINE
            values = [getattr(figures, metric) for figures in outcome.timeline]
            axes.plot(
                [TIMELINE_S * (place + 1) for place in range(len(values))],
                values,
                color=COLOURS[BASELINE] if is_baseline else next(shades),
                label="baseline" if is_baseline else f"threshold {outcome.threshold}",
            )
    axes.set_xlabel("s")


def _by_threshold(axes: Any, outcomes: Sequence[RunOutcome], variant: str) -> None:
    middle = max((o.spread for o in outcomes if o.variant == "load100"), default=0)
    points = sorted(
        (o.threshold, 100 * o.overhead)
        for o in outcomes
        if o.variant == variant and o.spread == middle
    )
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", color=COLOURS[variant])
    axes.set_xlabel("threshold, publications")

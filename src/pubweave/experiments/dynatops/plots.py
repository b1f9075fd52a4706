"""The pictures of DYNATOPS' Figures 6 to 10 and of its Table 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pubweave.design.dynatops.placement import LastingRule
from pubweave.experiments.dynatops import mapping
from pubweave.experiments.dynatops.location import LASTING_WEIGHT, LOAD_WEIGHT
from pubweave.experiments.dynatops.mapping import Saving
from pubweave.experiments.dynatops.poisson import PoissonSetting
from pubweave.experiments.dynatops.systems import SystemRun, mean_over_seeds
from pubweave.experiments.plotting import sheet, tidy

COLOURS = {"uniform": "#1b4965", "multimodal": "#2a9d5c"}
USUAL_WEIGHTS = (LOAD_WEIGHT, LASTING_WEIGHT, PoissonSetting.load_weight, LastingRule.load_weight)
PANELS = {
    "dynatops-fig6": (
        ("management_messages", "control messages per hour"),
        ("load_deviation", "deviation of load / mean"),
        ("handovers", "handovers per hour"),
        ("delay", "delay, ms"),
        ("messages_per_publication", "messages per publication"),
    ),
    "dynatops-fig7": (
        ("subscription_changes", "changes of brokers' topics per hour"),
        ("management_messages", "control messages per hour"),
        ("highest_load_over_mean", "most load / mean"),
        ("delay", "delay, hops"),
        ("messages_per_publication", "messages per publication"),
        ("reconfiguration_messages", "reconfiguration messages per hour"),
    ),
    "dynatops-fig8": (
        ("delay", "delay, hops"),
        ("messages_per_publication", "messages per publication"),
    ),
    "dynatops-fig9": (
        ("delay", "delay / that of the shortest"),
        ("messages_per_publication", "messages / those of the shortest"),
        ("reconfiguration_messages", "reconfiguration messages per hour"),
    ),
}
AXES = {
    "dynatops-fig6": ("cluster_size", "brokers in a cluster"),
    "dynatops-fig7": ("rate", "changes per user and hour"),
    "dynatops-fig8": ("pattern", "pattern"),
    "dynatops-fig9": ("free_period_h", "T_free, hours"),
}


def draw_systems(name: str, rows: Sequence[SystemRun], output: Path) -> None:
    """Figures 6 to 9: a panel for each of the paper's, by system."""
    panels, (axis, words) = PANELS[name], AXES[name]
    by_pattern = name == "dynatops-fig7"
    patterns = list(dict.fromkeys(row.pattern for row in rows)) if by_pattern else [""]
    size = (4.5 * len(panels), 4 * len(patterns))
    with sheet(output, len(patterns), len(panels), dpi=100, figsize=size, squeeze=False) as (
        _,
        places,
    ):
        for pattern, row_of_places in zip(patterns, places, strict=True):
            chosen = [row for row in rows if pattern in ("", row.pattern)]
            for axes, (metric, label) in zip(row_of_places, panels, strict=True):
                _panel(axes, chosen, axis, metric, is_relative=label.endswith("of the shortest"))
                if axis == "free_period_h":
                    axes.set_xscale("log")  # hours for one model, weeks for the other
                axes.set(xlabel=words, ylabel=label, title=pattern)
                tidy(axes)
        places[0][0].legend(frameon=False, fontsize=7)


def _panel(
    axes: Any, rows: Sequence[SystemRun], axis: str, metric: str, *, is_relative: bool
) -> None:
    """A line for each system of each model; level where a system does not depend on the axis."""
    every = list(dict.fromkeys(getattr(row, axis) for row in rows))
    every = every if axis == "pattern" else sorted(every)
    for model, system in dict.fromkeys((row.model, row.system) for row in rows):
        chosen = [
            row
            for row in rows
            if (row.model, row.system) == (model, system) and row.load_weight in USUAL_WEIGHTS
        ]
        xs = [x for x in every if mean_over_seeds(chosen, metric, **{axis: x}) is not None]
        ys = [mean_over_seeds(chosen, metric, **{axis: x}) or 0.0 for x in xs]
        if is_relative and ys and ys[0]:
            ys = [y / ys[0] for y in ys]
        if axis == "cluster_size" and len(xs) == 1:
            xs, ys = every, ys * len(every)
        is_ours = system.startswith("dynatops")
        shown = [str(x) for x in xs] if axis == "pattern" else xs
        label = system if len({row.model for row in rows}) == 1 else f"{system}, {model}"
        axes.plot(shown, ys, "o-" if is_ours else "s--", label=label, markersize=4)
    if not is_relative:
        axes.set_ylim(bottom=0)


def draw_savings(rows: Sequence[Saving], output: Path, *, is_time: bool) -> None:
    """Figure 10, or Table 1: by number of brokers, and by number of topics."""
    with sheet(output, 1, 2, dpi=100, figsize=(10, 4)) as (_, places):
        _sizes(places, rows, is_time=is_time)
        for axes in places:
            tidy(axes)
            axes.legend(frameon=False, fontsize=8)


def _sizes(places: Sequence[Any], rows: Sequence[Saving], *, is_time: bool) -> None:
    names = ("greedy_s", "best_s") if is_time else ("greedy_saved", "best_saved")
    for axes, sizes, which in (
        (places[0], mapping.SIZES[:3], 0),
        (places[1], mapping.SIZES[3:], 1),
    ):
        xs = [size[which] for size in sizes]
        for pattern in mapping.PATTERNS:
            for name, style in zip(names, ("o-", "s--"), strict=True):
                ys = [mapping.mean_of(rows, size, pattern.value, name) for size in sizes]
                label = f"{name.partition('_')[0]}, {pattern.value}"
                shown = ys if is_time else [100 * y for y in ys]
                axes.plot(xs, shown, style, color=COLOURS[pattern.value], label=label)
        if is_time:
            axes.plot(xs, [mapping.PAPER_SECONDS[size] for size in sizes], "k:", label="the paper")
            axes.set_yscale("log")
        axes.set_xscale("log")
        axes.set_xlabel("topics, 100 brokers" if which else "brokers, 100 topics")
        axes.set_ylabel("s" if is_time else "notification cost saved, %")

"""The pictures of ``pubweave reproduce``: the papers' figures, drawn from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pubweave.experiments.ipitt.planning import RATIO, Averages, ModelSize
from pubweave.experiments.ipitt.reported import TABLE_1, TIME_CLAIMS
from pubweave.experiments.plotting import shared_legend, sheet, tidy

COLOURS = {
    "auto": "#2a9d5c",
    "fast": "#8fc93a",
    "ip-each-path": "#3d7ea6",
    "ip-all-paths": "#7b5ea7",
    "ip-naive": "#d1495b",
    "bfs": "#e09f3e",
    "bfs-parallel": "#f2cc8f",
}
NAMES = {
    "auto": "ours",
    "fast": "ours, fast",
    "ip-each-path": "each-path (HiGHS)",
    "ip-all-paths": "all-paths (HiGHS)",
    "ip-naive": "naive (HiGHS)",
    "bfs": "BFS",
    "bfs-parallel": "BFS, side by side",
}
MARKERS = {
    "auto": "o",
    "fast": "^",
    "ip-each-path": "s",
    "ip-all-paths": "D",
    "ip-naive": "P",
    "bfs": "X",
    "bfs-parallel": "v",
}
_MARK, _ASIDE = 6, 0.022
_METRICS = (("seconds", "planning time, s"), ("actions", "actions"), ("steps", "steps"))


def draw_figure_5(means: Sequence[Averages], ratio_size: int, output: Path) -> None:
    """Six panels as in the paper: time, actions, steps against overlay size and change ratio."""
    layout = {"rect": (0, 0.05, 1, 1)}
    with sheet(output, 2, 3, layout=layout, figsize=(13, 7.6)) as (figure, grid):
        for panels, by_size in zip(grid, (True, False), strict=True):
            for axes, (metric, label) in zip(panels, _METRICS, strict=True):
                _draw_metric(axes, means, metric, label, ratio_size, by_size=by_size)
        shared_legend(figure, (grid[0][0], grid[0][2], grid[1][0]), ncols=8, fontsize=8)


def _draw_metric(
    axes: Any, means: Sequence[Averages], metric: str, label: str, ratio_size: int, *, by_size: bool
) -> None:
    """One panel: every method, against overlay size or change ratio."""
    measured = _measured_at(means, by_size, ratio_size)
    spread = max(measured, default=0) - min(measured, default=0)
    for method in COLOURS if metric == "steps" else list(COLOURS)[:-1]:
        here = [
            mean
            for mean in means
            if mean.method == method
            and getattr(mean, metric) is not None
            and (mean.ratio == RATIO if by_size else mean.brokers == ratio_size)
        ]
        _draw_line(axes, method, metric, here, by_size, spread)
    if metric == "seconds":
        axes.set_yscale("log")
        _mark_claims(axes, by_size, ratio_size)
    else:
        axes.yaxis.get_major_locator().set_params(integer=True)
    where = "20% of the links changed" if by_size else f"{ratio_size} brokers"
    axes.set_xlabel("brokers" if by_size else "links changed, %")
    axes.set_xticks(measured)
    axes.set_title(f"{label} ({where})", fontsize=9)
    tidy(axes)


def _measured_at(means: Sequence[Averages], by_size: bool, ratio_size: int) -> list[float]:
    """The sizes, or the change ratios in percent, of one row of panels."""
    if by_size:
        return sorted({mean.brokers for mean in means if mean.ratio == RATIO})
    return sorted({100 * mean.ratio for mean in means if mean.brokers == ratio_size})


def _draw_line(
    axes: Any,
    method: str,
    metric: str,
    means: Sequence[Averages],
    by_size: bool,
    spread: float,
) -> None:
    """A line over the points; hollow where the method failed on some of the topologies.

    Methods often have equal plans, so their marks stand side by side."""
    if not means:
        return
    place = list(COLOURS).index(method)
    aside = 0.0 if metric == "seconds" else (place - 3) * _ASIDE * spread
    ordered = sorted(means, key=lambda mean: (mean.brokers, mean.ratio))
    xs = [aside + (mean.brokers if by_size else 100 * mean.ratio) for mean in ordered]
    ys = [getattr(mean, metric) for mean in ordered]
    colour = COLOURS[method]
    axes.plot(
        xs,
        ys,
        color=colour,
        linewidth=1.5,
        marker=MARKERS[method],
        markersize=_MARK,
        markeredgecolor="white",
        markeredgewidth=0.5,
        label=NAMES[method],
    )
    partial = [place for place, mean in enumerate(ordered) if mean.found < mean.tried]
    axes.plot(
        [xs[place] for place in partial],
        [ys[place] for place in partial],
        linestyle="none",
        marker=MARKERS[method],
        markersize=_MARK,
        markeredgecolor=colour,
        markerfacecolor="white",
    )


def _mark_claims(axes: Any, by_size: bool, ratio_size: int) -> None:
    """The paper's own times, where the axis reaches them."""
    low, high = axes.get_xlim()
    first = True
    for claim in TIME_CLAIMS:
        x = claim.brokers if by_size else 100 * claim.ratio
        elsewhere = claim.ratio != RATIO if by_size else claim.brokers != ratio_size
        if elsewhere or not low <= x <= high:
            continue
        axes.scatter(
            [x],
            [claim.seconds],
            marker="v" if claim.at_most else "D",
            facecolors="none",
            edgecolors=COLOURS[claim.method],
            s=55,
            label="paper (v: at most)" if first else None,
        )
        first = False


def draw_table_1(sizes: Sequence[ModelSize], brokers: int, output: Path) -> None:
    """Bars of actions, variables and constraints: the paper's row beside our median."""
    rows = [row for row in TABLE_1 if row.actions is not None]
    with sheet(output, 1, 3, figsize=(12, 4.2)) as (figure, grid):
        for axes, metric in zip(grid, ("actions", "variables", "constraints"), strict=True):
            for place, row in enumerate(rows):
                ours = [getattr(size, metric) for size in sizes if size.method == row.method]
                theirs = axes.bar(place - 0.2, getattr(row, metric), 0.38, color="#b8bcc2")
                axes.bar(place + 0.2, median(ours), 0.38, color=COLOURS[row.method])
                axes.vlines(place + 0.2, min(ours), max(ours), color="#1f2933", linewidth=1)
                axes.bar_label(theirs, fmt="{:,.0f}", fontsize=6.5, padding=2)
                above = (place + 0.2, max(ours)), (0, 3)
                axes.annotate(
                    f"{median(ours):,.0f}",
                    *above,
                    textcoords="offset points",
                    ha="center",
                    fontsize=6.5,
                )
            axes.set_yscale("log")
            axes.set_xticks(range(len(rows)), [row.method.removeprefix("ip-") for row in rows])
            axes.set_title(metric, fontsize=10)
            axes.margins(y=0.12)
            tidy(axes)
        figure.suptitle(
            f"Model size: Table I (60 brokers, grey) and ours ({brokers} brokers; median, and "
            "range over the topologies)",
            fontsize=10,
        )

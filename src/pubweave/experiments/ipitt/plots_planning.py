"""The pictures of ``pubweave reproduce``: the papers' figures, drawn from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pubweave.experiments.ipitt.disruption import (
    EXCESS_MS_MAX,
    PANELS,
    MeasuringPoint,
    Panel,
    PlanVariant,
    PointMeans,
    line,
    ours,
)
from pubweave.experiments.ipitt.planning import RATIO, TABLE_1, TIME_CLAIMS, Averages, ModelSize
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
    axes: Any, method: str, metric: str, means: Sequence[Averages], by_size: bool, spread: float
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


# The picture of ``pubweave reproduce ipitt-fig6``: nine panels, the paper's words above each.


WAY_COLOURS = {
    PlanVariant.BFS: "#e09f3e",
    PlanVariant.SERIAL: "#d1495b",
    PlanVariant.PARALLEL: "#2a9d5c",
}
"""Drawn in this order: ours on top, where lines meet."""
WAY_MARKERS = {PlanVariant.PARALLEL: "o", PlanVariant.SERIAL: "s", PlanVariant.BFS: "X"}
QUIET = "#7b8794"
VALUES = {
    "affected_ms": "latency of affected, p99 in ms",
    "plan_s": "plan execution time, s",
    "queue_growth": "queue growth per shift, p99",
}
VARIABLES = {"brokers": "brokers", "ratio": "links changed, %", "subscribers": "subscribers"}


def draw_figure_6(means: Sequence[PointMeans], base: MeasuringPoint, output: Path) -> None:
    """A row for each variable, a column for each metric, as in the paper."""
    layout = {"rect": (0, 0.03, 1, 0.99), "h_pad": 2.2, "w_pad": 2.0}
    with sheet(output, 3, 3, layout=layout, figsize=(14, 12.4)) as (figure, grid):
        for panel, axes in zip(PANELS, grid.flat, strict=True):
            _draw_panel(axes, panel, means, base)
        shared_legend(figure, grid.flat, fontsize=9)
        figure.suptitle(
            f"IPITT Figure 6 in simulation: {base.brokers} brokers, {base.ratio:.0%} of the links "
            f"changed, {base.subscribers:,} subscribers, where not on the axis",
            fontsize=12,
            x=0.01,
            ha="left",
        )


def _draw_panel(axes: Any, panel: Panel, means: Sequence[PointMeans], base: MeasuringPoint) -> None:
    for way in WAY_COLOURS:
        found = line(means, panel, way, base)
        # One point is no line: ways that were measured at the base alone are in the table.
        if len(found) > 1 or way is PlanVariant.PARALLEL:
            _draw_way(axes, panel, found, way)
    parallel = line(means, panel, PlanVariant.PARALLEL, base)
    if panel.value == "affected_ms" and parallel:
        xs = [_x(panel, mean) for mean in parallel]
        low = [mean.cost["unaffected_ms"] for mean in parallel]
        axes.plot(xs, low, color=QUIET, marker="o", markersize=5, label="unaffected")
        axes.plot(
            xs,
            [value + EXCESS_MS_MAX for value in low],
            color=QUIET,
            linestyle=":",
            label=f"our bar: unaffected + {EXCESS_MS_MAX:.0f} ms",
        )
    axes.set_xlabel(VARIABLES[panel.variable], fontsize=9)
    axes.set_ylabel(VALUES[panel.value], fontsize=9)
    axes.set_ylim(0, 1.12 * axes.get_ylim()[1])
    axes.set_xticks([_x(panel, mean) for mean in parallel])
    axes.tick_params(labelsize=8)
    axes.set_title(panel.letter, fontsize=12, fontweight="bold", loc="left", pad=34)
    for height, colour, words in (
        (1.09, QUIET, f"paper: {panel.paper}"),
        (1.02, WAY_COLOURS[PlanVariant.PARALLEL], f"ours: {ours(means, panel, base)}"),
    ):
        axes.text(
            0, height, words, transform=axes.transAxes, fontsize=8.5, color=colour, in_layout=False
        )
    tidy(axes)


def _draw_way(axes: Any, panel: Panel, found: Sequence[PointMeans], way: PlanVariant) -> None:
    axes.plot(
        [_x(panel, mean) for mean in found],
        [mean.cost[panel.value] for mean in found],
        color=WAY_COLOURS[way],
        marker=WAY_MARKERS[way],
        markersize=6 if way is PlanVariant.PARALLEL else 7.5,
        linewidth=1.7,
        linestyle="-" if way is PlanVariant.PARALLEL else "--",
        markeredgecolor="white",
        markeredgewidth=0.5,
        label=way.value,
    )


def _x(panel: Panel, mean: PointMeans) -> float:
    value = float(getattr(mean.point, panel.variable))
    return 100 * value if panel.variable == "ratio" else value

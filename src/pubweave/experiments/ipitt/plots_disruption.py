"""The picture of ``pubweave reproduce ipitt-fig6``: nine panels, the paper's words above each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pubweave.experiments.ipitt.disruption import MeasuringPoint, PlanVariant, PointMeans
from pubweave.experiments.ipitt.disruption_targets import EXCESS_MS_MAX, PANELS, Panel, line, ours
from pubweave.experiments.plotting import shared_legend, sheet, tidy

COLOURS = {
    PlanVariant.BFS: "#e09f3e",
    PlanVariant.SERIAL: "#d1495b",
    PlanVariant.PARALLEL: "#2a9d5c",
}
"""Drawn in this order: ours on top, where lines meet."""
MARKERS = {PlanVariant.PARALLEL: "o", PlanVariant.SERIAL: "s", PlanVariant.BFS: "X"}
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
    for way in COLOURS:
        found = line(means, panel, way, base)
        # One point is no line: ways that were measured at the base alone are in the table.
        if len(found) > 1 or way is PlanVariant.PARALLEL:
            _draw_line(axes, panel, found, way)
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
        (1.02, COLOURS[PlanVariant.PARALLEL], f"ours: {ours(means, panel, base)}"),
    ):
        axes.text(
            0, height, words, transform=axes.transAxes, fontsize=8.5, color=colour, in_layout=False
        )
    tidy(axes)


def _draw_line(axes: Any, panel: Panel, found: Sequence[PointMeans], way: PlanVariant) -> None:
    axes.plot(
        [_x(panel, mean) for mean in found],
        [mean.cost[panel.value] for mean in found],
        color=COLOURS[way],
        marker=MARKERS[way],
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

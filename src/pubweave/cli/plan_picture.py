"""A plan as a picture: one small tree per step, with what the step changes in colour.

Brokers keep their places from step to step, so that only links move. Each tree shows the topology
before its step; the last one shows where the plan ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pubweave.cli.errors import BadInput, blaming
from pubweave.cli.tree_layout import Positions, radial_layout
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Append, Detach, Plan, Shift, Step
from pubweave.model.topology import Topology, validate_tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REMOVED, ADDED, PIVOT, STAYS = "#d1495b", "#2a9d5c", "#3d7ea6", "#b8bcc2"
BROKER, IDLE = "#1f2933", "#8a9099"
_PANEL_INCHES = 3.4
_LABEL_ALL_UP_TO = 30
_PANELS_MAX = 64


def draw_plan(source: Topology, plan: Plan, output: Path) -> None:
    """Write the picture to a .png or .svg file."""
    if output.suffix.lower() not in {".png", ".svg"}:
        raise BadInput(f"{output}: a picture ends in .png or .svg")
    if plan.step_count + 1 > _PANELS_MAX:
        raise BadInput(
            f"{output}: a plan of {plan.step_count} steps is too long for a picture "
            f"(at most {_PANELS_MAX - 1})"
        )
    validate_tree(source)
    with blaming("the plan"):
        states = _states(source, plan)
    import matplotlib

    matplotlib.use("Agg")
    # Texts stay texts in an SVG, and its ids do not change from run to run.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "pubweave"})
    from matplotlib import pyplot

    columns = min(len(states), max(1, math.ceil(math.sqrt(len(states) * 1.4))))
    rows = math.ceil(len(states) / columns)
    figure, grid = pyplot.subplots(
        rows,
        columns,
        figsize=(columns * _PANEL_INCHES, rows * (_PANEL_INCHES + 0.3) + 0.5),
        squeeze=False,
    )
    positions = _positions(states)
    panels = [axes for row in grid for axes in row]
    for number, (axes, state) in enumerate(zip(panels, states, strict=False)):
        step = plan.steps[number] if number < plan.step_count else ()
        title = f"step {number + 1}: {_counted(step)}" if step else _last_title(plan)
        _draw_panel(axes, state, step, positions, title)
    for axes in panels[len(states) :]:
        axes.axis("off")
    _draw_legend(figure)
    figure.tight_layout(rect=(0, 0.4 / figure.get_figheight(), 1, 1))
    # No date in the file: the same plan gives the same bytes.
    metadata: dict[str, Any] = {"Date": None} if output.suffix.lower() == ".svg" else {}
    try:
        figure.savefig(output, dpi=110, metadata=metadata)
    except OSError as error:
        raise BadInput(f"{output}: {error.strerror or error}") from error
    finally:
        pyplot.close(figure)


def changes(step: Step) -> tuple[set[Link], set[Link], set[Link]]:
    """The links that a step removes, adds and slides along."""
    removed: set[Link] = set()
    added: set[Link] = set()
    pivots: set[Link] = set()
    for action in step:
        if isinstance(action, Append):
            added.add(Link.between(*action.brokers))
        elif isinstance(action, Detach):
            removed.add(Link.between(*action.brokers))
        else:
            removed.add(action.removed_link)
            added.add(action.added_link)
            if isinstance(action, Shift):
                pivots.add(action.pivot_link)
    return removed, added, pivots


def _states(source: Topology, plan: Plan) -> list[Topology]:
    """The topology before each step and at the end; the plan is taken at its word."""
    states = [source]
    for number, step in enumerate(plan.steps, 1):
        removed, added, _ = changes(step)
        before = states[-1]
        lost = sorted(removed - before.links)
        if lost:
            raise BadInput(
                f"the plan does not fit the source: step {number} removes {lost[0]}, which is not "
                "there (pubweave plan validate says more)"
            )
        brokers = set(before.brokers)
        brokers |= {action.broker for action in step if isinstance(action, Append)}
        brokers -= {action.broker for action in step if isinstance(action, Detach)}
        after = (before.links - removed) | added
        states.append(replace(before, brokers=frozenset(brokers), links=frozenset(after)))
    return states


def _positions(states: Iterable[Topology]) -> Positions:
    """Places by the first topology; brokers that come later sit beside their first neighbor."""
    positions: Positions = {}
    for state in states:
        if not positions:
            positions = radial_layout(state)
        for broker in sorted(state.brokers - positions.keys()):
            x, y = positions[next(end for end in state.neighbors[broker] if end in positions)]
            away = math.hypot(x, y) or 1.0
            positions[broker] = (x + 0.28 * x / away, y + 0.28 * y / away + 0.08)
    return positions


def _draw_panel(axes: Axes, state: Topology, step: Step, positions: Positions, title: str) -> None:
    removed, added, pivots = changes(step)
    shown: set[BrokerId] = {broker for action in step for broker in action.brokers}
    for links, colour, width, dashes in (
        (state.links - removed - pivots, STAYS, 1.0, "-"),
        (pivots - removed, PIVOT, 2.2, "-"),
        (removed, REMOVED, 1.8, (0, (4, 2))),
        (added, ADDED, 2.2, "-"),
    ):
        for link in sorted(links):
            (x1, y1), (x2, y2) = positions[link.a], positions[link.b]
            axes.plot([x1, x2], [y1, y2], color=colour, linewidth=width, linestyle=dashes, zorder=1)
    label_all = len(state.brokers) <= _LABEL_ALL_UP_TO
    for broker in sorted(state.brokers | shown):
        x, y = positions[broker]
        active = broker in shown
        size = 150 if label_all else 26 if active else 9
        face = "white" if label_all else BROKER if active else IDLE
        axes.scatter([x], [y], s=size, color=face, edgecolors=BROKER if active else IDLE, zorder=2)
        if label_all:
            axes.text(x, y, broker, fontsize=6.5, ha="center", va="center", zorder=3)
        elif active:
            axes.annotate(broker, (x, y), (3, 3), textcoords="offset points", fontsize=6, zorder=3)
    axes.set_title(title, fontsize=9, color=BROKER)
    axes.set_aspect("equal")
    axes.margins(0.1)
    axes.axis("off")


def _counted(step: Step) -> str:
    return f"{len(step)} action" + ("" if len(step) == 1 else "s")


def _last_title(plan: Plan) -> str:
    if not plan.step_count:
        return "nothing changes"
    return f"after {plan.step_count} step" + ("" if plan.step_count == 1 else "s")


def _draw_legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    entries = [
        Line2D([], [], color=REMOVED, linewidth=1.8, linestyle=(0, (4, 2)), label="removed"),
        Line2D([], [], color=ADDED, linewidth=2.2, label="added"),
        Line2D([], [], color=PIVOT, linewidth=2.2, label="slid along (pivot)"),
        Line2D([], [], color=STAYS, linewidth=1.0, label="stays"),
    ]
    figure.legend(handles=entries, loc="lower center", ncols=4, frameon=False, fontsize=8)

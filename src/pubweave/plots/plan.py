"""A plan as a picture: one small tree per step, with what the step changes in colour.

Brokers keep their places from step to step, so that only links move; the places suit the first
topology and the last one alike. Each tree shows the topology before its step, an arrow on a pivot
the way in which a link slides along it; the last tree shows where the plan ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Append, Detach, Plan, Shift, Step
from pubweave.model.topology import Topology, validate_tree
from pubweave.plots.tree_layout import Positions, settled_layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes


REMOVED, ADDED, PIVOT, STAYS = "#d1495b", "#2a9d5c", "#3d7ea6", "#b8bcc2"
BROKER, IDLE, SETTLED = "#1f2933", "#8a9099", "#6b7280"
_PANEL_INCHES, _LARGE_PANEL_INCHES = 3.4, 4.6
_LABEL_ALL_UP_TO = 30
_PANELS_MAX = 64
_ROW_MIN = 4

_Dashes = tuple[int, tuple[int, ...]]


class PictureError(ValueError):
    """A plan that cannot be drawn, or not there; the message says why."""


def draw_plan(source: Topology, plan: Plan, output: Path) -> None:
    """Write the picture to a .png or .svg file."""
    if output.suffix.lower() not in {".png", ".svg"}:
        raise PictureError(f"{output}: a picture ends in .png or .svg")
    if plan.step_count + 1 > _PANELS_MAX:
        raise PictureError(
            f"{output}: a plan of {plan.step_count} steps is too long for a picture "
            f"(at most {_PANELS_MAX - 1})"
        )
    validate_tree(source)
    try:
        states = _states(source, plan)
    except PictureError:
        raise
    except ValueError as error:
        raise PictureError(f"the plan: {error}") from error
    import matplotlib

    matplotlib.use("Agg")
    # Texts stay texts in an SVG, and its ids do not change from run to run.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "pubweave"})
    from matplotlib import pyplot

    columns = min(len(states), max(_ROW_MIN, math.ceil(math.sqrt(len(states) * 1.4))))
    rows = math.ceil(len(states) / columns)
    columns = math.ceil(len(states) / rows)
    side = _PANEL_INCHES if len(source.brokers) <= _LABEL_ALL_UP_TO else _LARGE_PANEL_INCHES
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(columns * side, rows * (side + 0.3) + 0.5), squeeze=False
    )
    drawing = _Panels(states)
    panels = [axes for row in grid for axes in row]
    for number, (axes, state) in enumerate(zip(panels, states, strict=False)):
        step = plan.steps[number] if number < plan.step_count else ()
        title = f"step {number + 1}: {_counted(step)}" if step else _last_title(plan)
        drawing.draw(axes, state, step, title)
    for axes in panels[len(states) :]:
        axes.axis("off")
    _draw_legend(figure)
    figure.tight_layout(rect=(0, 0.4 / figure.get_figheight(), 1, 1))
    # No date in the file: the same plan gives the same bytes.
    metadata: dict[str, Any] = {"Date": None} if output.suffix.lower() == ".svg" else {}
    try:
        figure.savefig(output, dpi=110, metadata=metadata)
    except OSError as error:
        raise PictureError(f"{output}: {error.strerror or error}") from error
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


def slides(step: Step) -> list[tuple[BrokerId, BrokerId]]:
    """From which broker to which links slide in a step, each way once."""
    shifts = (action for action in step if isinstance(action, Shift))
    return sorted({(shift.old_peer, shift.new_peer) for shift in shifts})


def _states(source: Topology, plan: Plan) -> list[Topology]:
    """The topology before each step and at the end; the plan is taken at its word."""
    states = [source]
    for number, step in enumerate(plan.steps, 1):
        removed, added, _ = changes(step)
        before = states[-1]
        lost = sorted(removed - before.links)
        if lost:
            raise PictureError(
                f"the plan does not fit the source: step {number} removes {lost[0]}, which is not "
                "there (pubweave plan validate says more)"
            )
        brokers = set(before.brokers)
        brokers |= {action.broker for action in step if isinstance(action, Append)}
        brokers -= {action.broker for action in step if isinstance(action, Detach)}
        after = (before.links - removed) | added
        states.append(replace(before, brokers=frozenset(brokers), links=frozenset(after)))
    return states


def _positions(states: Sequence[Topology]) -> Positions:
    """Places for the first and the last topology, and for whoever is in neither."""
    known = states[0].brokers | states[-1].brokers
    between = [state for state in states[1:-1] if state.brokers - known]
    return settled_layout([states[0], states[-1], *between])


class _Panels:
    """Draws the trees of one plan, all with the same places and curves."""

    def __init__(self, states: Sequence[Topology]) -> None:
        self._positions = _positions(states)
        self._label_all = len(self._positions) <= _LABEL_ALL_UP_TO
        self._radius = 0.075 if self._label_all else 0.03
        self._curves = LinkCurves(self._positions, clearance=1.5 * self._radius)

    def draw(self, axes: Axes, state: Topology, step: Step, title: str) -> None:
        removed, added, pivots = changes(step)
        for links, colour, width, dashes in (
            (state.links - removed - pivots, STAYS if step else SETTLED, 1.0, "-"),
            (pivots - removed, PIVOT, 2.0, "-"),
            (removed, REMOVED, 1.8, (0, (4, 2))),
            (added, ADDED, 2.0, "-"),
        ):
            for link in sorted(links):
                self._draw_link(axes, link, colour, width, dashes)
        for j, k in slides(step):
            self._draw_arrow(axes, j, k)
        self._draw_brokers(axes, state, step)
        axes.set_title(title, fontsize=9, color=BROKER)
        axes.set_aspect("equal")
        # The same for every panel and every tree, also for a chain that is all height.
        axes.set_xlim(-1.14, 1.14)
        axes.set_ylim(-1.14, 1.14)
        axes.axis("off")

    def _draw_link(
        self, axes: Axes, link: Link, colour: str, width: float, dashes: str | _Dashes
    ) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path as Outline

        ends = self._positions[link.a], self._positions[link.b]
        outline = Outline(
            [ends[0], self._curves.control(link), ends[1]],
            [Outline.MOVETO, Outline.CURVE3, Outline.CURVE3],
        )
        axes.add_patch(
            PathPatch(
                outline,
                facecolor="none",
                edgecolor=colour,
                linewidth=width,
                linestyle=dashes,
                zorder=1,
            )
        )

    def _draw_arrow(self, axes: Axes, j: BrokerId, k: BrokerId) -> None:
        """A small head on the pivot, on its far half so that two of them do not meet."""
        link = Link.between(j, k)
        tail, head = (0.5, 0.62) if link.a == j else (0.5, 0.38)
        axes.annotate(
            "",
            self._curves.at(link, head),
            self._curves.at(link, tail),
            arrowprops={
                "arrowstyle": "-|>",
                "color": PIVOT,
                "linewidth": 1.0,
                "mutation_scale": 9,
                "shrinkA": 0,
                "shrinkB": 0,
            },
            zorder=1.5,
        )

    def _draw_brokers(self, axes: Axes, state: Topology, step: Step) -> None:
        from matplotlib.patheffects import withStroke

        shown: set[BrokerId] = {broker for action in step for broker in action.brokers}
        halo = [withStroke(linewidth=2.0, foreground="white")]
        for broker in sorted(state.brokers | shown):
            x, y = self._positions[broker]
            active = broker in shown
            size = 165 if self._label_all else 26 if active else 9
            face = "white" if self._label_all else BROKER if active else IDLE
            edge = BROKER if active else IDLE
            axes.scatter([x], [y], s=size, color=face, edgecolors=edge, zorder=2)
            if self._label_all:
                axes.text(x, y, broker, fontsize=6.5, ha="center", va="center", zorder=3)
            elif active:
                axes.annotate(
                    broker,
                    (x, y),
                    (3, 3),
                    textcoords="offset points",
                    fontsize=6,
                    zorder=3,
                    path_effects=halo,
                )


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


# How a link runs in a picture: straight, or bowed where it would pass over a broker.
#
# Links that lie on one line would hide each other; since such a link passes over the broker at
# the other's end, keeping clear of brokers keeps them apart too.


Point = tuple[float, float]
_Floats = npt.NDArray[np.float64]

_BOWS = (0.0, 0.12, -0.12, 0.22, -0.22, 0.34, -0.34, 0.48, -0.48)
"""How far the middle of a link lies off its straight line, in link lengths."""
_SAMPLES = np.linspace(0.06, 0.94, 23)
_BOWED_UP_TO = 250


class LinkCurves:
    """Curves between the brokers of one picture, each the same wherever it is asked for."""

    def __init__(self, positions: Positions, clearance: float) -> None:
        self._positions = positions
        self._places = np.array(list(positions.values()), dtype=np.float64)
        self._index = {broker: row for row, broker in enumerate(positions)}
        self._clearance = clearance
        self._known: dict[Link, Point] = {}

    def control(self, link: Link) -> Point:
        """The control point of the link's quadratic curve; in its middle where it is straight."""
        if link not in self._known:
            self._known[link] = self._control(link)
        return self._known[link]

    def at(self, link: Link, share: float) -> Point:
        """The point at a share of the way from the link's first end to its second."""
        (point,) = self._sampled(link, self.control(link), np.array([share]))
        return float(point[0]), float(point[1])

    def _control(self, link: Link) -> Point:
        bows: Sequence[float] = _BOWS if len(self._places) <= _BOWED_UP_TO else _BOWS[:1]
        best, least = (0.0, 0.0), float("inf")
        others = np.ones(len(self._places), dtype=np.bool_)
        others[[self._index[link.a], self._index[link.b]]] = False
        for bow in bows:
            control = self._bowed(link, bow)
            price = abs(bow) + self._trespass(link, control, self._places[others])
            if price < least - 1e-9:
                best, least = control, price
        return best

    def _bowed(self, link: Link, bow: float) -> Point:
        (x1, y1), (x2, y2) = self._positions[link.a], self._positions[link.b]
        # The curve's middle is half as far out as its control point.
        dx, dy = -(y2 - y1) * 2 * bow, (x2 - x1) * 2 * bow
        return (x1 + x2) / 2 + dx, (y1 + y2) / 2 + dy

    def _trespass(self, link: Link, control: Point, others: _Floats) -> float:
        """How deep the curve runs into the surroundings of brokers that are not its own."""
        if not len(others):
            return 0.0
        points = self._sampled(link, control, _SAMPLES)
        distance = np.linalg.norm(points[:, None] - others[None, :], axis=2).min(axis=0)
        return float(np.clip(1 - distance / self._clearance, 0, None).sum()) * 4

    def _sampled(self, link: Link, control: Point, shares: _Floats) -> _Floats:
        start, end = (np.array(self._positions[broker]) for broker in link)
        s = shares[:, None]
        curve: _Floats = (1 - s) ** 2 * start + 2 * s * (1 - s) * np.array(control) + s**2 * end
        return curve

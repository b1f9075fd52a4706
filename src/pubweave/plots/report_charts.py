"""The pictures of ``pubweave report``, each an SVG text drawn from a profile's tables.

Large overlays are cut to what can be read: the busiest topics, brokers, links and trees. Every
picture says what it left out.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pubweave.model.files.profile import WorkloadProfile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]
TOPICS_SHOWN = 8
BROKERS_SHOWN = 40
LINKS_NAMED = 5
TREES_SHOWN = 3
LABELS_UP_TO = 14
BINS_MAX = 600
INK, QUIET, GRID = "#1f2933", "#8a9099", "#e4e7eb"
COLOURS = ("#3d7ea6", "#d1495b", "#2a9d5c", "#e09f3e", "#7b5ea7", "#8fc93a", "#5c677d", "#c77dff")
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pubweave",
    "font.size": 9,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.axisbelow": True,
}


def drawn(draw: Callable[[WorkloadProfile, Figure], bool], profile: WorkloadProfile) -> str | None:
    """A picture as an ``<svg>`` element; None if there is nothing to draw."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(9.0, 3.6), layout="constrained")
        if not draw(profile, figure):
            return None
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    svg = target.getvalue()
    return re.sub(r"^.*?(?=<svg)", "", svg, flags=re.DOTALL)


def traffic_by_topic(profile: WorkloadProfile, figure: Figure) -> bool:
    """Publication rates over time of the busiest topics, the others together."""
    topics = sorted(profile.rows("topics"), key=lambda row: (-row["publications"], row["topic"]))
    if not topics:
        return False
    shown = [row["topic"] for row in topics[:TOPICS_SHOWN]]
    slots = _slots(profile)
    series: dict[str, list[float]] = {name: [0.0] * len(slots) for name in [*shown, "others"]}
    width = _slots_per_bin(profile)
    for row in profile.rows("topic_rates"):
        name = row["topic"] if row["topic"] in shown else "others"
        series[name][row["slot"] // width] += row["rate_per_s"] / width
    if len(topics) <= TOPICS_SHOWN:
        del series["others"]
    axes = figure.subplots()
    colours = [*COLOURS[: len(series)], GRID][: len(series)]
    if "others" in series:
        colours[-1] = "#c9ced6"
    labels = [_short(name) for name in series]
    axes.stackplot(_stepped(slots), *(_held(v) for v in series.values()), labels=labels,
                   colors=colours, linewidth=0)  # fmt: skip
    axes.set_ylabel("publications/s")
    _time_axis(axes, slots)
    figure.legend(loc="outside right upper", frameon=False, reverse=True)
    return True


def interest_heat_map(profile: WorkloadProfile, figure: Figure) -> bool:
    """What brokers share, as a share of the smaller one's own interest."""
    own = {row["broker"]: row["notifications"] for row in profile.rows("broker_interest")}
    brokers = sorted(own, key=lambda broker: (-own[broker], broker))[:BROKERS_SHOWN]
    brokers = sorted(brokers, key=_by_number)
    if len(brokers) < 2:
        return False
    place = {broker: index for index, broker in enumerate(brokers)}
    shares = [[float("nan")] * len(brokers) for _ in brokers]
    for row in profile.rows("common_interest"):
        a, b = row["broker_a"], row["broker_b"]
        if a in place and b in place:
            share = row["notifications"] / max(1, min(own[a], own[b]))
            shares[place[a]][place[b]] = shares[place[b]][place[a]] = share
    figure.set_size_inches(9.0, 5.4)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="YlGnBu", vmin=0, vmax=1)
    size = 8 if len(brokers) <= 25 else 6
    axes.set_xticks(range(len(brokers)), brokers, rotation=90, fontsize=size)
    axes.set_yticks(range(len(brokers)), brokers, fontsize=size)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label("shared, of the smaller interest")
    return True


def latency_over_time(profile: WorkloadProfile, figure: Figure) -> bool:
    """Percentiles by slot; transformations shaded, affected publications as crosses."""
    rows = profile.rows("latency")
    if not rows:
        return False
    slots = _slots(profile)
    axes = figure.subplots()
    plain = [row for row in rows if not row["affected"]]
    for percent, colour in ((99, COLOURS[1]), (95, COLOURS[3]), (50, COLOURS[0])):
        at = [row["slot_started_at"] - slots[0] for row in plain]
        axes.plot(at, [row[f"latency_ms_p{percent}"] for row in plain], color=colour,
                  marker="o", markersize=3, label=f"p{percent}")  # fmt: skip
        hit = [row for row in rows if row["affected"]]
        if hit:
            axes.plot([row["slot_started_at"] - slots[0] for row in hit],
                      [row[f"latency_ms_p{percent}"] for row in hit], "x", color=colour,
                      label=f"p{percent} affected")  # fmt: skip
    for row in profile.rows("transformations"):
        axes.axvspan(row["started_at"] - slots[0], row["ended_at"] - slots[0], color=GRID)
    axes.set_ylabel("delivery latency, ms")
    axes.set_ylim(bottom=0)
    _time_axis(axes, slots)
    figure.legend(loc="outside right upper", frameon=False)
    return True


def load_per_broker(profile: WorkloadProfile, figure: Figure) -> bool:
    """Messages in and out of the busiest brokers."""
    rows = sorted(profile.rows("broker_loads"), key=lambda row: -row["messages_in_per_s"])
    if not rows:
        return False
    rows = sorted(rows[:BROKERS_SHOWN], key=lambda row: _by_number(row["broker"]))
    axes = figure.subplots()
    places = range(len(rows))
    axes.bar([p - 0.2 for p in places], [r["messages_in_per_s"] for r in rows], 0.4,
             color=COLOURS[0], label="in")  # fmt: skip
    axes.bar([p + 0.2 for p in places], [r["messages_out_per_s"] for r in rows], 0.4,
             color=COLOURS[3], label="out")  # fmt: skip
    axes.set_xticks(list(places), [row["broker"] for row in rows],
                    rotation=90 if len(rows) > 15 else 0)  # fmt: skip
    axes.set_ylabel("messages/s")
    axes.grid(axis="y", color=GRID)
    figure.legend(loc="outside right upper", frameon=False)
    return True


def links_by_cost_and_traffic(profile: WorkloadProfile, figure: Figure) -> bool:
    """Each link: what a crossing costs against how much crosses; top right is where it hurts."""
    rows = [row for row in profile.rows("links") if row["cost_ms"] is not None]
    if not rows:
        return False
    axes = figure.subplots()
    present = [row for row in rows if row["is_present"]]
    gone = [row for row in rows if not row["is_present"]]
    for some, colour, label in ((present, COLOURS[0], "present"), (gone, QUIET, "removed")):
        if some:
            axes.scatter([r["cost_ms"] for r in some], [r["messages_per_s"] for r in some],
                         color=colour, s=28, label=label)  # fmt: skip
    worst = sorted(rows, key=lambda row: -row["cost_ms"] * row["messages_per_s"])[:LINKS_NAMED]
    for place, row in enumerate(worst):
        axes.annotate(f"{row['broker_a']} - {row['broker_b']}",
                      (row["cost_ms"], row["messages_per_s"]), xytext=(5, (4, -10)[place % 2]),
                      textcoords="offset points", fontsize=8, color=INK)  # fmt: skip
    axes.set_xlabel("cost of a crossing, ms (half the median round trip)")
    axes.set_ylabel("messages/s")
    axes.set_xlim(0, 1.12 * max(row["cost_ms"] for row in rows))
    axes.set_ylim(0, 1.12 * max(row["messages_per_s"] for row in rows) or 1.0)
    axes.grid(color=GRID)
    if gone:
        figure.legend(loc="outside right upper", frameon=False)
    return True


def worst_delivery_trees(profile: WorkloadProfile, figure: Figure) -> bool:
    """The trees that cost most over the window: root on top, relays hollow."""
    trees = sorted(profile.rows("delivery_trees"), key=lambda row: -row["weight"] * row["cost_ms"])
    trees = [row for row in trees if row["links"]][:TREES_SHOWN]
    if not trees:
        return False
    wanted = {row["tree"] for row in trees}
    links: dict[int, list[Row]] = defaultdict(list)
    for row in profile.rows("tree_links"):
        if row["tree"] in wanted:
            links[row["tree"]].append(row)
    receivers = {(row["tree"], row["broker"]) for row in profile.rows("tree_receivers")}
    for axes, tree in zip(figure.subplots(1, len(trees), squeeze=False)[0], trees, strict=True):
        _draw_tree(axes, tree, links[tree["tree"]], receivers)
    return True


def _draw_tree(axes: Axes, tree: Row, links: list[Row], receivers: set[tuple[int, str]]) -> None:
    children: dict[str, list[str]] = defaultdict(list)
    for link in links:
        children[link["from_broker"]].append(link["to_broker"])
    places: dict[str, tuple[float, int]] = {}

    def put(broker: str, depth: int, left: float) -> float:
        below = sorted((c for c in children[broker] if c not in places), key=_by_number)
        right = left
        for child in below:
            right = put(child, depth + 1, right)
        right = max(right, left + 1)
        places[broker] = ((left + right) / 2, -depth)
        return right

    put(tree["broker"], 0, 0.0)
    for link in links:
        ends = [places.get(link["from_broker"]), places.get(link["to_broker"])]
        if None not in ends:
            axes.plot([p[0] for p in ends if p], [p[1] for p in ends if p], color=QUIET, zorder=1)
    size = 90 if len(places) <= LABELS_UP_TO else 30
    for broker, (x, y) in places.items():
        takes = (tree["tree"], broker) in receivers
        edge = COLOURS[1] if broker == tree["broker"] else COLOURS[0]
        axes.scatter([x], [y], s=size, facecolor=edge if takes else "white", edgecolor=edge,
                     linewidth=1.6, zorder=2)  # fmt: skip
        if len(places) <= LABELS_UP_TO or broker == tree["broker"]:
            axes.annotate(broker, (x, y), xytext=(7, 3), textcoords="offset points", fontsize=8)
    axes.set_title(
        f"{_short(tree['topic'])}: {tree['publications']:,} publications\n"
        f"{tree['cost_ms']:.1f} ms each, {tree['relays']} relays",
        fontsize=9,
    )
    axes.margins(0.2)
    axes.axis("off")


def _slots(profile: WorkloadProfile) -> list[float]:
    """When each slot of the window began; of a long window, when each bin of slots did."""
    about = profile.description
    width = _slots_per_bin(profile)
    slot_s = float(about.settings["slot_s"] or 1.0) * width
    count = int((about.window_ended_at - about.window_started_at) // slot_s) + 1
    return [about.window_started_at + slot_s * number for number in range(count)]


def _slots_per_bin(profile: WorkloadProfile) -> int:
    about = profile.description
    slot_s = float(about.settings["slot_s"] or 1.0)
    count = int((about.window_ended_at - about.window_started_at) // slot_s) + 1
    return -(-count // BINS_MAX)


def _stepped(slots: list[float]) -> list[float]:
    width = slots[1] - slots[0] if len(slots) > 1 else 1.0
    return [edge for slot in slots for edge in (slot - slots[0], slot - slots[0] + width)]


def _held(values: list[float]) -> list[float]:
    return [value for value in values for _ in range(2)]


def _time_axis(axes: Axes, slots: list[float]) -> None:
    width = slots[1] - slots[0] if len(slots) > 1 else 1.0
    axes.set_xlim(0, slots[-1] - slots[0] + width)
    axes.set_xlabel("seconds since the window's start")
    axes.grid(axis="y", color=GRID)


def _short(name: str, longest: int = 28) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _by_number(broker: str) -> list[tuple[int, str]]:
    """b2 before b10."""
    return [(int(p), "") if p.isdigit() else (0, p) for p in re.split(r"(\d+)", broker) if p]

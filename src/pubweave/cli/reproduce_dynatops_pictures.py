"""The pictures of DYNATOPS's Figures 7 and 10 and of its Table 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pubweave.cli.figures import headless_pyplot, tidy
from pubweave.experiments.dynatops_mapping import PAPER_SECONDS, PATTERNS, SIZES, Saving, mean_of
from pubweave.experiments.dynatops_users import UserRun

BY_BROKERS, BY_TOPICS = SIZES[:3], SIZES[3:]
COLOURS = {"uniform": "#1b4965", "multimodal": "#2a9d5c"}
SYSTEM_COLOURS = {"static": "#7b8794", "placed": "#2a9d5c"}
USER_PANELS = (
    ("subscription_changes", "changes of brokers' topics per hour"),
    ("management_messages", "control messages per hour"),
    ("mapped_delay_hops", "delay, hops (better mapping)"),
    ("mapped_messages_per_publication", "messages per publication (better mapping)"),
)


def draw(name: str, rows: Sequence[Any], output: Path) -> None:
    """One picture into a file."""
    pyplot = headless_pyplot()
    panels = 4 if name == "dynatops-fig7" else 2
    sheet, places = pyplot.subplots(1, panels, figsize=(5 * panels, 4))
    if name == "dynatops-fig7":
        _users(places, rows)
    else:
        _sizes(places, rows, is_time=name == "dynatops-table1")
    for axes in places:
        tidy(axes)
        axes.legend(frameon=False, fontsize=8)
    sheet.tight_layout()
    sheet.savefig(output, dpi=100)
    pyplot.close(sheet)


def _sizes(places: Sequence[Any], rows: Sequence[Saving], *, is_time: bool) -> None:
    names = ("greedy_s", "best_s") if is_time else ("greedy_saved", "best_saved")
    for axes, sizes, which in ((places[0], BY_BROKERS, 0), (places[1], BY_TOPICS, 1)):
        xs = [size[which] for size in sizes]
        for pattern in PATTERNS:
            for name, style in zip(names, ("o-", "s--"), strict=True):
                ys = [mean_of(rows, size, pattern.value, name) for size in sizes]
                label = f"{name.partition('_')[0]}, {pattern.value}"
                shown = ys if is_time else [100 * y for y in ys]
                axes.plot(xs, shown, style, color=COLOURS[pattern.value], label=label)
        if is_time:
            axes.plot(xs, [PAPER_SECONDS[size] for size in sizes], "k:", label="the paper")
            axes.set_yscale("log")
        axes.set_xscale("log")
        axes.set_xlabel("topics, 100 brokers" if which else "brokers, 100 topics")
        axes.set_ylabel("s" if is_time else "notification cost saved, %")


def _users(places: Sequence[Any], rows: Sequence[UserRun]) -> None:
    for axes, (metric, label) in zip(places, USER_PANELS, strict=True):
        for system, colour in SYSTEM_COLOURS.items():
            points = [(row.rate, getattr(row, metric)) for row in rows if row.system == system]
            axes.plot(*zip(*points, strict=True), "o-", color=colour, label=system)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("changes per user and hour")
        axes.set_ylabel(label)

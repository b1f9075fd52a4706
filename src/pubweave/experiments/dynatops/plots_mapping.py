"""The pictures of DYNATOPS's Figure 10 and of its Table 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pubweave.experiments.dynatops.mapping import PAPER_SECONDS, PATTERNS, SIZES, Saving, mean_of
from pubweave.experiments.plotting import headless_pyplot, tidy

BY_BROKERS, BY_TOPICS = SIZES[:3], SIZES[3:]
COLOURS = {"uniform": "#1b4965", "multimodal": "#2a9d5c"}


def draw(name: str, rows: Sequence[Any], output: Path) -> None:
    """One picture into a file."""
    pyplot = headless_pyplot()
    sheet, places = pyplot.subplots(1, 2, figsize=(10, 4))
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

"""What every picture of an experiment begins with, looks like and ends with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def sheet(
    output: Path,
    rows: int = 1,
    columns: int = 1,
    *,
    dpi: int = 110,
    layout: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes, as ``subplots`` gives them; laid out and written at the end.

    It needs no display. matplotlib is slow to import: only pictures pay."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, **options)
    try:
        yield figure, axes
        figure.tight_layout(**(layout or {}))
        figure.savefig(output, dpi=dpi)
    finally:
        pyplot.close(figure)


def tidy(axes: Any) -> None:
    """Horizontal lines behind the data, no box around it."""
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def shared_legend(figure: Any, axes: Any, **options: Any) -> None:
    """One legend below all panels, each label once."""
    entries: dict[str, Any] = {}
    for each in axes:
        handles, labels = each.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    options = {"loc": "lower center", "ncols": len(entries), "frameon": False, **options}
    figure.legend(list(entries.values()), list(entries), **options)

"""What every figure of ``pubweave reproduce`` begins with and looks like."""

from __future__ import annotations

from typing import Any


def headless_pyplot() -> Any:
    """pyplot for files, without a display. matplotlib is slow to import: only figures pay."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def tidy(axes: Any) -> None:
    """Horizontal lines behind the data, no box around it."""
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)

"""The pictures of Shadows' Figures 2 to 8, in the paper's form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pubweave.experiments.plotting import sheet, tidy
from pubweave.experiments.shadows.figures import LOW_ODA, Row, chosen, mean_of

COLOURS = ("#7b2cbf", "#2a9d5c", "#1b4965", "#e09f3e", "#d1495b", "#7b8794")
TITLES = {
    "shadows-fig2": "Figure 2: backups chosen greedily",
    "shadows-fig3": "Figure 3: backups chosen by primal-dual",
    "shadows-fig4": "Figure 4: degrees with greedy and primal-dual backups",
    "shadows-fig5": "Figure 5: maximum degree by lambda",
    "shadows-fig6": "Figure 6: degrees under churn",
    "shadows-fig7": "Figure 7: time of a round against Low-ODA's",
    "shadows-fig8": "Figure 8: links changed in a round, of all links",
}


def draw(figure: str, rows: Sequence[Row], output: Path) -> None:
    """One picture into a file, a panel for each distribution."""
    names = list(dict.fromkeys(row["popularity"] for row in rows))
    size = (4 + 4 * len(names), 4.8)
    with sheet(output, 1, len(names), figsize=size, squeeze=False, sharey=True) as (page, panels):
        for axes, name in zip(panels[0], names, strict=True):
            _panel(figure, axes, chosen(rows, popularity=name))
            axes.set_title(f"{name} topics", loc="left", fontsize=10)
            tidy(axes)
        panels[0][-1].legend(
            frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), markerscale=2
        )
        count = len({row["seed"] for row in rows})
        seeds = "1 seed" if count == 1 else f"{count} seeds"
        page.suptitle(f"Shadows {TITLES[figure]} ({seeds})", x=0.01, ha="left", fontsize=11)


def _panel(figure: str, axes: Any, rows: Sequence[Row]) -> None:
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    if figure in ("shadows-fig2", "shadows-fig3"):
        for name, colour in (("backups", COLOURS[1]), ("primaries", COLOURS[0])):
            _dots(axes, rows, "topics", [row[name] for row in rows], colour, name)
        axes.set_xlabel("topics of the node")
        return
    if figure == "shadows-fig7":
        _times(axes, rows, variants)
        return
    if figure == "shadows-fig8":
        for place, variant in enumerate(variants):
            own = chosen(rows, variant=variant)
            key = "changed" if variant == LOW_ODA else None
            shares = [(row[key] if key else row["added"] + row["removed"]) / row["links"]
                      for row in own]  # fmt: skip
            _dots(axes, own, "topics", [100 * share for share in shares], COLOURS[place], variant)
        axes.set_yscale("log")
        axes.set(xlabel="topics of the node that joins or leaves", ylabel="% of the links")
        return
    names = ("max_degree",) if figure == "shadows-fig5" else ("max_degree", "average_degree")
    for place, variant in enumerate(variants):
        for name, style in zip(names, ("-", "--"), strict=False):
            _line(axes, chosen(rows, variant=variant), name, COLOURS[place], style, variant)
    axes.set_xlabel("churn round")
    has_average = "average_degree" in names
    axes.set_ylabel("degree: maximum (line), average (dashed)" if has_average else "maximum degree")


def _times(axes: Any, rows: Sequence[Row], variants: Sequence[str]) -> None:
    build = mean_of(chosen(rows, variant=LOW_ODA), "build_ms")
    for place, variant in enumerate(name for name in variants if name != LOW_ODA):
        for kind, marker in (("join", "x"), ("leave", "o")):
            own = chosen(rows, variant=variant, kind=kind)
            shares = [100 * row["repair_ms"] / build for row in own]
            _dots(axes, own, "shadow_size", shares, COLOURS[place], f"{variant}, {kind}", marker)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlabel="nodes that links were sought among", ylabel="% of Low-ODA's time")


def _dots(
    axes: Any,
    rows: Sequence[Row],
    x: str,
    y: Sequence[float],
    colour: str,
    label: str,
    marker: str = "o",
) -> None:
    axes.plot(
        [row[x] for row in rows], y, marker, markersize=2, color=colour, alpha=0.4, label=label
    )


def _line(axes: Any, rows: Sequence[Row], name: str, colour: str, style: str, label: str) -> None:
    numbers = sorted({row["number"] for row in rows})
    by_number: dict[int, list[float]] = {number: [] for number in numbers}
    for row in rows:
        by_number[row["number"]].append(row[name])
    means = [sum(by_number[number]) / len(by_number[number]) for number in numbers]
    shown = label if style == "-" else None
    axes.plot(numbers, means, style, color=colour, linewidth=1.4, label=shown)

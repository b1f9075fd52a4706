"""The pictures of CI's Figures 4, 5 and 6, in the paper's form, and of real worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pubweave.experiments.ci.figures import MEASURED_TICKS, Mean, Run, chosen, mean, ratio
from pubweave.experiments.ci.real import REAL_VARIANTS
from pubweave.experiments.ci.run import ALL, STATIC
from pubweave.experiments.plotting import sheet, tidy

COLOURS = {
    "static": "#7b8794",
    "ci": "#2a9d5c",
    "ci-conjunction": "#8ac926",
    "ci-damped": "#1b4965",
    "ci-sides": "#7b2cbf",
    "ci-once": "#74c69d",
    "ci-sides-once": "#c77dff",
    "lmst": "#d1495b",
    "lmit": "#e09f3e",
    "best": "#222222",
}
LABELS = {
    "static": "static",
    "ci": "CI as printed",
    "ci-conjunction": "CI, conjunction",
    "ci-damped": "CI, damped",
    "ci-sides": "CI by sides (ours)",
    "ci-once": "CI, one exchange per interval",
    "ci-sides-once": "CI by sides, one exchange per interval",
    "lmst": "lMST",
    "lmit": "lMIT",
    "best": "best of a global search",
}


def draw(figure: str, runs: Sequence[Run], output: Path) -> None:
    """One picture into a file."""
    with sheet(output, figsize=(11, 5.4)) as (_, axes):
        {"ci-fig4": _figure_4, "ci-fig5": _figure_5, "ci-fig6": _figure_6}[figure](axes, runs)
        underlays = len({run.seed for run in runs})
        title = f"{TITLES[figure]}\n{underlays} underlays, bars: 95% confidence"
        axes.set_title(title, loc="left", fontsize=10)
        _finish(axes)


def draw_real(shares: Mapping[str, Mapping[str, Mean]], output: Path) -> None:
    """Bars of what each heuristic costs against the static tree, by kind of world."""
    width = 0.8 / len(REAL_VARIANTS)
    spots = range(len(shares))
    with sheet(output, figsize=(10, 5)) as (_, axes):
        for place, name in enumerate(REAL_VARIANTS):
            means = [by_name[name] for by_name in shares.values()]
            axes.bar(
                [
                    spot + (place - len(REAL_VARIANTS) / 2 + 0.5) * width
                    for spot in range(len(means))
                ],
                [100 * mean.value for mean in means],
                width,
                yerr=[100 * mean.half for mean in means],
                color=COLOURS[name],
                label=LABELS[name],
                capsize=2,
            )
        axes.set_xticks(spots, list(shares))
        axes.set_ylabel("cost against the static tree, %")
        axes.set_title("CI and its relatives on real prices and demands, 95% intervals", loc="left")
        _finish(axes)


def _finish(axes: Any) -> None:
    tidy(axes)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


TITLES = {
    "ci-fig4": "CI Figure 4: cost with and without the heuristics; links change at 25,000, "
    "brokers at 50,000",
    "ci-fig5": "CI Figure 5: what the neighborhood's size brings and costs in 25,000 ticks",
    "ci-fig6": "CI Figure 6: improvement over the static tree by the weight of processing",
}


def _line(
    axes: Any, variant: str, xs: Sequence[float], points: Sequence[Mean], unit: float, **style: Any
) -> None:
    """A heuristic's means with their intervals, in a unit of the axis."""
    axes.errorbar(
        xs,
        [unit * point.value for point in points],
        yerr=[abs(unit) * point.half for point in points],
        **{"color": COLOURS[variant], "label": LABELS[variant], "capsize": 3, **style},
    )


def _figure_4(axes: Any, runs: Sequence[Run]) -> None:
    for variant in ALL:
        curves = [run.curve for run in chosen(runs, variant)]
        if not curves:
            continue
        points = [mean(column) for column in zip(*curves, strict=True)]
        ticks = [MEASURED_TICKS * (place + 1) / 1000 for place in range(len(points))]
        style = "--" if variant == "best" else "-"
        every = (ALL.index(variant), 10)
        _line(
            axes, variant, ticks, points, 1e-6, linestyle=style, errorevery=every, linewidth=1.5,
            capsize=2,
        )  # fmt: skip
    axes.set(xlabel="time, 1,000 ticks", ylabel="cost of 1,000 ticks, millions")
    axes.set_ylim(bottom=0)


def _figure_5(axes: Any, runs: Sequence[Run]) -> None:
    etas = sorted({run.point for run in runs if run.point is not None})
    static = mean([run.total for run in chosen(runs, STATIC)])
    axes.axhline(static.value / 1e6, color=COLOURS["static"], label="static")
    for variant in ("ci", "ci-sides"):
        for name, label, style in (
            ("total", "everything", "-"),
            ("broadcasts", "of it broadcasts", "--"),
            ("asking", "of it requests", "-."),
            ("reconfigurations", "of it reconfigurations", ":"),
        ):
            groups = [chosen(runs, variant, eta) for eta in etas]
            points = [mean([getattr(run, name) for run in group]) for group in groups]
            words = f"{LABELS[variant]}: {label}"
            _line(axes, variant, etas, points, 1e-6, linestyle=style, label=words, marker="o")
    axes.set(xlabel="eta: size of the neighborhood in hops", ylabel="accumulated cost, millions")
    axes.set_ylim(bottom=0)


def _figure_6(axes: Any, runs: Sequence[Run]) -> None:
    alphas = sorted({run.point for run in runs if run.point is not None})
    for variant in ("ci", "ci-sides", "lmst", "lmit"):
        points = [ratio(runs, (variant, alpha), (STATIC, alpha)) for alpha in alphas]
        _line(axes, variant, alphas, points, -100, marker="o")
    axes.set_xlabel("alpha: weight of processing costs")
    axes.set_ylabel("improvement over the static tree, %")

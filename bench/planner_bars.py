"""The bars of the planner's issue: from runs to `met` or `missed`, with the figure.

Nothing runs here. A bar that has nothing to judge is `not run`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.planner_problems import Run

FASTER = 50


@dataclass(frozen=True)
class Bar:
    """One promise and what was found."""

    part: str
    promise: str
    figure: str
    is_met: bool | None

    @property
    def verdict(self) -> str:
        return "not run" if self.is_met is None else "met" if self.is_met else "missed"


def size_bars(size: int, runs: Sequence[Run]) -> list[Bar]:
    """The bars of one overlay size."""
    judge: dict[int, Callable[[Sequence[Run]], list[Bar]]] = {
        40: _forty,
        60: _sixty,
        100: lambda runs: [_gap("100", "15 s", runs)],
        150: lambda runs: [_gap("150", "60 s", runs)],
        1000: _thousand,
        10000: _ten_thousand,
    }
    return judge[size](runs) if size in judge and runs else []


def _forty(runs: Sequence[Run]) -> list[Bar]:
    proven = sum(run.status == "optimal" for run in runs)
    seconds = statistics.median(
        run.seconds if run.status == "optimal" else math.inf for run in runs
    )
    return [
        Bar(
            "40",
            "steps and then actions proven on all",
            f"{proven} of {len(runs)}",
            proven == len(runs),
        ),
        Bar("40", "median under 5 s", _in_words(seconds), seconds < 5),
    ]


def _sixty(runs: Sequence[Run]) -> list[Bar]:
    proven = [run.steps_proven_s for run in runs if run.steps_proven_s is not None]
    wanted = math.ceil(len(runs) * 11 / 12)
    middle = statistics.median(_or_never(run.steps_proven_s) for run in runs)
    slowest = max(proven, default=math.inf)
    return [
        Bar(
            "60",
            f"steps proven on at least {wanted} of {len(runs)}",
            f"{len(proven)} of {len(runs)}",
            len(proven) >= wanted,
        ),
        Bar("60", "steps proven: median at most 1.5 s", _in_words(middle), middle <= 1.5),
        Bar("60", "steps proven: slowest 20 s", _in_words(slowest), slowest <= 20),
    ]


def _gap(size: str, limit: str, runs: Sequence[Run]) -> Bar:
    gaps = [math.inf if run.steps is None else run.steps - run.steps_at_least for run in runs]
    proven = sum(gap == 0 for gap in gaps)
    figure = f"largest {max(gaps):g}; {proven} of {len(runs)} proven"
    return Bar(size, f"gap at most 1 step in {limit}", figure, max(gaps) <= 1)


def _thousand(runs: Sequence[Run]) -> list[Bar]:
    worst = _worst_ratio(runs)
    return [
        _first_plan("1,000", 0.05, runs),
        Bar("1,000", "balanced: steps at most 1.8 x bound in 10 s", f"{worst:.2f}", worst <= 1.8),
        Bar("1,000", "then push: 1.3 x bound", f"{worst:.2f}", worst <= 1.3),
    ]


def _ten_thousand(runs: Sequence[Run]) -> list[Bar]:
    balanced = [run for run in runs if run.is_balanced]
    most = max((math.inf if run.steps is None else run.steps for run in balanced), default=math.inf)
    bounds = [run.steps_at_least for run in runs]
    worst = _worst_ratio(runs)
    return [
        _first_plan("10,000", 0.5, runs),
        Bar("10,000", "balanced: at most 30 steps in 30 s", f"{most:g} steps", most <= 30),
        Bar(
            "10,000",
            "then push: a bound",
            f"{min(bounds)} to {max(bounds)} steps; balanced {worst:.2f} x bound",
            min(bounds) > 1,
        ),
    ]


def _first_plan(size: str, limit_s: float, runs: Sequence[Run]) -> Bar:
    slowest = max(_or_never(run.first_plan_s) for run in runs)
    return Bar(
        size,
        f"a valid plan in {1000 * limit_s:g} ms",
        f"slowest {1000 * slowest:.0f} ms",
        slowest <= limit_s,
    )


def _worst_ratio(runs: Sequence[Run]) -> float:
    ratios = [
        math.inf if run.steps is None else run.steps / max(1, run.steps_at_least)
        for run in runs
        if run.is_balanced
    ]
    return max(ratios, default=math.inf)


def exactness_bar(agreed: int, impossible: int, tried: int) -> Bar:
    return Bar(
        "exactness",
        "equals brute force (steps, then actions; no plan where there is none)",
        f"{agreed} of {tried}, {impossible} of them impossible",
        agreed == tried,
    )


def action_bar(runs: Sequence[Run], best_known: dict[str, tuple[int, int]]) -> Bar:
    """Ours against the fewest actions that any run here has for as few steps."""
    excess = []
    for run in runs:
        steps, actions = best_known[run.name]
        fits = run.actions is not None and run.steps == steps
        excess.append(run.actions / max(1, actions) - 1 if fits and run.actions else math.inf)
    worst = max(excess)
    late = sum(math.isinf(share) for share in excess)
    return Bar(
        "60",
        "actions at the fewest steps within 5% of the best known, in 60 s",
        f"{late} of {len(runs)} have more steps" if late else f"worst {worst:.1%} above",
        worst <= 0.05,
    )


def rival_bars(ours: Sequence[Run], theirs: Sequence[Run]) -> list[Bar]:
    """Steps never more; and the time to its final plan against ours to one of no more steps."""
    method = theirs[0].method
    own = {run.name: run for run in ours}
    pairs = [(own[run.name], run) for run in theirs]
    more = sum(a.steps is None or (b.steps is not None and a.steps > b.steps) for a, b in pairs)
    ratios = [
        _end_of(rival) / max(1e-4, run.seconds_to(1 << 30 if rival.steps is None else rival.steps))
        for run, rival in pairs
    ]
    part = f"60, {method}"
    return [
        Bar(part, "never more steps", f"more on {more} of {len(pairs)}", more == 0),
        Bar(
            part,
            f"its final plan takes {FASTER} times as long as our first one of no more steps",
            _spread(ratios),
            min(ratios) >= FASTER,
        ),
    ]


def _end_of(rival: Run) -> float:
    """When it had its final plan: the program when it ended, a search when it last got better."""
    if rival.steps is None:
        return rival.limit_s
    return rival.seconds if rival.method.startswith("ip-") else rival.trace[-1][0]


def _or_never(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def _in_words(seconds: float) -> str:
    return "not proven" if math.isinf(seconds) else f"{seconds:.2f} s"


def _spread(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.1f} to {max(ratios):.1f}, median {statistics.median(ratios):.1f}"


def table(bars: Sequence[Bar]) -> str:
    """All bars in one table of plain text."""
    rows = [("part", "bar", "figure", "verdict")]
    rows += [(bar.part, bar.promise, bar.figure, bar.verdict) for bar in bars]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)

"""What the paper says of Figures 6 to 9 in words, and what our rows say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pubweave.experiments.dynatops.location import LOAD_WEIGHT
from pubweave.experiments.dynatops.systems import SystemRun, mean_over_seeds, saved
from pubweave.experiments.experiment import Statement

FIELDS = {
    "words": "about",
    "theirs": "theirs",
    "by_paper": "by_paper",
    "by_plus": "by_plus",
    "holds": "holds",
}
"""Of the JSON output."""


def statement(
    words: str, theirs: float, by_paper: float | None, by_plus: float | None
) -> Statement:
    """A share by which one system is below another; None where there is no row.

    ``by_paper`` is ours with the paper's own rules. ``by_plus`` is ours: in the Poisson model users
    where their topics last, in the location model users who move only if that pays; and the better
    mapping."""
    is_met, is_met_by_plus = (each is not None and each >= theirs for each in (by_paper, by_plus))
    holds = "yes" if is_met else "with our rules" if is_met_by_plus else "no"
    shares = ["-" if share is None else f"{share:.1%}" for share in (by_paper, by_plus)]
    return Statement(
        f"{theirs:.0%}" if theirs else "less",
        f"{shares[0]} by its rules, {shares[1]} by ours",
        holds != "no",
        about=words,
        only="with our rules" if holds == "with our rules" else "",
        numbers={"theirs": theirs, "by_paper": by_paper, "by_plus": by_plus, "holds": holds},
    )


Compare = Callable[[str, str, str, float], Statement]


def _comparing(rows: Sequence[SystemRun], **setting: Any) -> Compare:
    """Statements about DYNATOPS in a setting, against a system that knows no clusters."""
    fixed = {k: v for k, v in setting.items() if k not in ("cluster_size", "load_weight")}

    def compare(words: str, metric: str, other: str, theirs: float) -> Statement:
        against = mean_over_seeds(rows, metric, system=other, **fixed)
        by_paper, by_plus = (
            saved(mean_over_seeds(rows, metric, system=system, **setting), against)
            for system in ("dynatops", "dynatops-plus")
        )
        return statement(words, theirs, by_paper, by_plus)

    return compare


def figure_6(rows: Sequence[SystemRun], cluster_size: int = 10) -> list[Statement]:
    """Location model."""
    compare = _comparing(rows, model="location", cluster_size=cluster_size, load_weight=LOAD_WEIGHT)
    return [
        compare("management overhead below Bayeux (static)", "management_messages",
                "bayeux-static", 0.4),
        compare("management overhead below Bayeux (loc)", "management_messages", "bayeux-loc", 0.4),
        compare("handovers below GeoPS", "handovers", "geops", 0.8),
        compare("delay below Bayeux (static)", "delay", "bayeux-static", 0.6),
        compare("delay below Bayeux (loc+PNS)", "delay", "bayeux-pns", 0.0),
        compare("delay below GeoPS", "delay", "geops", 0.3),
        compare("messages below Bayeux (static)", "messages_per_publication", "bayeux-static", 0.4),
        compare("messages below GeoPS", "messages_per_publication", "geops", 0.2),
        compare("load deviation below Bayeux (loc)", "load_deviation", "bayeux-loc", 0.0),
    ]  # fmt: skip


def figure_7(rows: Sequence[SystemRun]) -> list[Statement]:
    """Poisson model, at the fastest change, for each pattern there is."""
    rate = max((row.rate for row in rows), default=0.0)
    patterns = list(dict.fromkeys(row.pattern for row in rows))
    found = []
    for pattern in patterns:
        compare = _comparing(rows, model="poisson", rate=rate, pattern=pattern)
        before = f"{pattern}: " if len(patterns) > 1 else ""
        found += _figure_7_of(compare, before, f" at {rate:g} changes per user and hour")
    return found


def _figure_7_of(compare: Compare, before: str, at: str) -> list[Statement]:
    return [
        compare(before + "changes of brokers' topics below static users" + at,
                "subscription_changes", "bayeux", 0.8),
        compare(before + "management overhead below static users" + at, "management_messages",
                "bayeux", 0.4),
        compare(before + "delay below Bayeux", "delay", "bayeux", 0.1),
        compare(before + "delay below TCO, publisher to user", "delay", "tco", 0.1),
        compare(before + "delay below TCO, from the rendezvous", "tree_delay", "tco", 0.1),
        compare(before + "messages below Bayeux", "messages_per_publication", "bayeux", 0.5),
        compare(before + "messages below TCO", "messages_per_publication", "tco", 0.5),
        compare(before + "reconfiguration cost (Eq. 7) below TCO" + at, "reconfiguration_cost",
                "tco", 0.8),
        compare(before + "reconfiguration messages (counted) below TCO" + at,
                "reconfiguration_messages", "tco", 0.8),
    ]  # fmt: skip


def figure_8(rows: Sequence[SystemRun]) -> list[Statement]:
    """ "Outperforms other systems under all subscription patterns"."""
    found = []
    for pattern in dict.fromkeys(row.pattern for row in rows):
        compare = _comparing(rows, model="poisson", pattern=pattern)
        for other in ("bayeux", "bayeux-16", "tco"):
            found.append(compare(f"{pattern}: delay below {other}", "delay", other, 0.0))
            found.append(
                compare(f"{pattern}: messages below {other}", "messages_per_publication", other,
                        0.0)
            )  # fmt: skip
        found.append(
            compare(f"{pattern}: delay from the rendezvous below tco", "tree_delay", "tco", 0.0)
        )
    return found


def figure_9(rows: Sequence[SystemRun]) -> list[Statement]:
    """ "A slight degradation": at most a twentieth from the shortest free period to the longest."""
    found = []
    for model in dict.fromkeys(row.model for row in rows):
        periods = sorted({row.free_period_h for row in rows if row.model == model})
        for metric, words in (("delay", "delay"), ("messages_per_publication", "messages")):
            worse = []
            for system in ("dynatops", "dynatops-plus"):
                short, long = (
                    mean_over_seeds(rows, metric, model=model, system=system, free_period_h=period)
                    for period in (periods[0], periods[-1])
                )
                worse.append(saved(short, long))
            kept = [None if each is None else 1 - max(0.0, each) for each in worse]
            words_of = f"{model}: {words} kept from T_free {periods[0]} h to {periods[-1]} h"
            found.append(statement(words_of, 0.95, *kept))
    return found

"""Rounds of churn in words and as JSON: connectivity, degrees, links changed, time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.output import new_table, output_console, warn

if TYPE_CHECKING:
    from pubweave.design.tco.churn import MaintainedOverlay
    from pubweave.design.tco.rounds import RoundRecord

KINDS = ("join", "leave", "change", "batch")


def summary_of(
    maintained: MaintainedOverlay,
    before: tuple[float, int],
    records: Sequence[RoundRecord],
    *,
    compare: bool,
) -> dict[str, Any]:
    """One object for programs; the overlay is verified once more."""
    from pubweave.design.tco.verify import verify

    gaps = [record.gap for record in records if record.gap is not None]
    gaps += verify(*maintained.snapshot()).gaps
    summary: dict[str, Any] = {
        "rounds": len(records),
        "verified_rounds": sum(record.is_verified for record in records),
        "is_connected": not gaps,
        "gap": str(gaps[0]) if gaps else None,
        "nodes": maintained.node_count,
        "links": maintained.link_count,
        "average_degree": [round(before[0], 4), round(maintained.average_degree, 4)],
        "max_degree": [before[1], maintained.max_degree],
        "kinds": {kind: _means(records, kind) for kind in KINDS if _of(records, kind)},
    }
    if compare:
        summary["low_oda"] = _rebuilt(maintained)
    return summary


def _of(records: Sequence[RoundRecord], kind: str) -> list[RoundRecord]:
    return [record for record in records if record.kind == kind]


def _means(records: Sequence[RoundRecord], kind: str) -> dict[str, float]:
    chosen = _of(records, kind)
    names = ("added", "removed", "changed", "shadow_size", "repair_ms", "backups_ms", "tidy_ms")
    means = {name: statistics.fmean(getattr(each, name) for each in chosen) for name in names}
    return {"rounds": len(chosen), **{name: round(value, 4) for name, value in means.items()}}


def _rebuilt(maintained: MaintainedOverlay) -> dict[str, float]:
    import numpy as np

    from pubweave.design.tco.low_oda import build_overlay

    wanted, _ = maintained.snapshot()
    links = build_overlay(wanted)
    degrees = np.bincount(links.ravel(), minlength=wanted.node_count)
    average = 2 * len(links) / wanted.node_count if wanted.node_count else 0.0
    return {"average_degree": round(average, 4), "max_degree": int(degrees.max(initial=0))}


def print_round(record: RoundRecord) -> None:
    """One line, at once."""
    state = "not verified" if not record.is_verified else str(record.gap or "connected")
    click.echo(
        f"{record.number:>6}  {record.kind:6s} +{record.added} -{record.removed} links, "
        f"{record.nodes:,} nodes, degree {record.average_degree:.2f} ≤ {record.max_degree}, "
        f"{record.repair_ms:.2f} ms, {state}"
    )


def print_summary(summary: dict[str, Any]) -> None:
    """What the rounds did, by kind."""
    if summary["kinds"]:
        counts, times = (
            ("rounds", "links added", "removed", "shadow set"),
            ("repair", "backups", "tidying"),
        )
        table = new_table("", *counts, *(f"{name}, ms" for name in times), title="means of a round")
        for kind, means in summary["kinds"].items():
            table.add_row(
                kind,
                f"{means['rounds']:,}",
                *(f"{means[name]:.2f}" for name in ("added", "removed")),
                f"{means['shadow_size']:.1f}",
                *(f"{means[name]:.3f}" for name in ("repair_ms", "backups_ms", "tidy_ms")),
            )
        output_console().print(table)
    (average, average_now), (highest, highest_now) = (
        summary["average_degree"],
        summary["max_degree"],
    )
    click.echo(
        f"{summary['nodes']:,} nodes, {summary['links']:,} links; degree {average:.2f} -> "
        f"{average_now:.2f} on average, {highest} -> {highest_now} at most"
    )
    if "low_oda" in summary:
        new = summary["low_oda"]
        click.echo(
            f"built anew by Low-ODA: {new['average_degree']:.2f} on average, "
            f"{new['max_degree']} at most"
        )
    if summary["is_connected"]:
        click.echo(
            f"connected: every topic, after each of {summary['verified_rounds']:,} verified rounds "
            f"of {summary['rounds']:,} and at the end"
        )
    else:
        warn(f"not topic-connected: {summary['gap']}; please report it")

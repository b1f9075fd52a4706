"""A design in words and as JSON: before and after, which links change and what they carry."""

from __future__ import annotations

from typing import Any

import click

from pubweave.cli.output import new_table, output_console
from pubweave.design.tree.cost import TreeCost, edges_of, total_cost, tree_cost
from pubweave.design.tree.problem import DesignProblem, DesignResult
from pubweave.model.amounts import counted
from pubweave.model.ids import Link
from pubweave.model.topology import Topology

_LINKS_SHOWN = 15
_MEANING = {
    "before": "the topology as it is",
    "ci": "local, by cost and common interest",
    "lmst": "local, by prices of links",
    "lmit": "local, by common interest",
    "mst": "minimum spanning tree",
    "mit": "maximum interest tree",
    "exact": "global search",
}


def design_document(
    problem: DesignProblem,
    result: DesignResult,
    others: dict[str, DesignResult | str],
    target: Topology,
    seconds: float,
) -> dict[str, Any]:
    """One object for programs."""
    before = tree_cost(problem.traffic, problem.prices, problem.source)
    after = tree_cost(problem.traffic, problem.prices, target)
    return {
        "method": result.method,
        "status": result.status.value,
        "seconds": round(seconds, 3),
        "brokers": len(problem.brokers),
        "notifications": problem.traffic.notifications,
        "distinct_sets": problem.traffic.set_count,
        "before": _parts(before),
        "after": _parts(after),
        "saved_share": 1 - after.total / before.total if before.total else 0.0,
        "bound_ms": result.bound,
        "rounds": result.rounds,
        "exchanges": result.exchanges,
        "notes": list(result.notes),
        "removed": _changes(problem, problem.source.links - target.links, before),
        "added": _changes(problem, target.links - problem.source.links, after),
        "compared": _compared(problem, result, others),
    }


def _parts(cost: TreeCost) -> dict[str, float]:
    return {
        "cost_ms": cost.total,
        "processing_ms": cost.processing,
        "communication_ms": cost.communication,
        "cost_per_notification_ms": cost.per_notification,
    }


def _changes(
    problem: DesignProblem, links: frozenset[Link], cost: TreeCost
) -> list[dict[str, Any]]:
    """The changed links with what they carry, the busiest first."""
    loads = sorted(links, key=lambda link: (-cost.link_load[link], link))
    return [
        {
            "link": list(link),
            "latency_ms": problem.prices.of_link(link),
            "notifications": cost.link_load[link],
        }
        for link in loads
    ]


def _compared(
    problem: DesignProblem, result: DesignResult, others: dict[str, DesignResult | str]
) -> list[dict[str, Any]]:
    edges = edges_of(problem.source, problem.brokers)
    cost = total_cost(problem.traffic, problem.prices, edges)
    rows: list[dict[str, Any]] = [{"method": "before", "cost_ms": cost, "changed": 0}]
    for method, other in {result.method: result, **others}.items():
        if isinstance(other, str):
            rows.append({"method": method, "cost_ms": None, "changed": None, "note": other})
            continue
        changed = len(other.links - problem.source.links)
        notes = "; ".join(other.notes)
        rows.append({"method": method, "cost_ms": other.cost, "changed": changed, "note": notes})
    return rows


def print_design(document: dict[str, Any]) -> None:
    """The figures, the comparison and the changed links."""
    before, after = document["before"]["cost_ms"], document["after"]["cost_ms"]
    click.echo(
        f"{document['brokers']:,} brokers, {document['notifications']:,.0f} notifications in "
        f"{document['distinct_sets']:,} distinct sets; {document['method']} took "
        f"{document['seconds']:.1f} s"
    )
    click.echo(
        f"cost {before:,.1f} -> {after:,.1f} ms ({-document['saved_share']:+.1%}); "
        f"{document['before']['cost_per_notification_ms']:,.3f} -> "
        f"{document['after']['cost_per_notification_ms']:,.3f} ms a notification"
    )
    _print_status(document)
    _print_compared(document)
    if not document["added"]:
        click.echo("no link changes")
        return
    _print_links("removed", document["removed"], "carried")
    _print_links("added", document["added"], "will carry")


def _print_status(document: dict[str, Any]) -> None:
    bound, after = document["bound_ms"], document["after"]["cost_ms"]
    if document["status"] == "optimal":
        click.echo("proven: no tree within the limits costs less")
    elif bound:
        click.echo(
            f"the best found; no tree costs less than {bound:,.1f} ms "
            f"(this is {after / bound - 1:.0%} above)"
        )
    for note in document["notes"]:
        click.echo(f"note: {note}")


def _print_compared(document: dict[str, Any]) -> None:
    titles = ("tree", "cost, ms", "", "links changed", "what it is")
    table = new_table(*titles, left=("tree", "what it is"), title="")
    first = document["compared"][0]["cost_ms"]
    for row in document["compared"]:
        name, cost = row["method"], row["cost_ms"]
        note = f" ({row['note']})" if row.get("note") else ""
        share = "" if cost is None or not first else f"{cost / first - 1:+.1%}"
        shown = f"[bold]{name}[/bold]" if name == document["method"] else name
        table.add_row(
            shown,
            "-" if cost is None else f"{cost:,.1f}",
            share,
            "-" if row["changed"] is None else f"{row['changed']:,}",
            _MEANING.get(name, "added by an installed package") + note,
        )
    output_console().print(table)


def _print_links(title: str, rows: list[dict[str, Any]], verb: str) -> None:
    click.echo(f"{title}: {counted(len(rows), 'link')}")
    for row in rows[:_LINKS_SHOWN]:
        name = "-".join(row["link"])
        click.echo(
            f"  {name:20s} {row['latency_ms']:>10,.3f} ms, {verb} {row['notifications']:,.0f}"
        )
    if len(rows) > _LINKS_SHOWN:
        click.echo(f"  ... and {len(rows) - _LINKS_SHOWN:,} more (--json has all)")

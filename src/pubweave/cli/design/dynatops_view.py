"""A mapping in words and as JSON: costs before and after, who moves, and whether that pays."""

from __future__ import annotations

from typing import Any

import click

from pubweave.cli.output import new_table, output_console
from pubweave.design.dynatops.mapping.best import BestMapping
from pubweave.design.dynatops.mapping.inputs import MappingInputs
from pubweave.design.dynatops.mapping.problem import (
    BrokerMapping,
    MappingProblem,
    event_overhead,
    mapping_cost,
)
from pubweave.design.dynatops.mapping.reconfigure import (
    CandidateMapping,
    candidates,
    chosen,
    pareto_front,
)
from pubweave.design.dynatops.mapping.ring import RING_BITS

ROWS_SHOWN = 20


def mapping_document(
    given: MappingInputs, method: str, found: BestMapping, seconds: float, *, with_path: bool
) -> dict[str, Any]:
    """One object for programs; all costs from scratch, not from the search's own sums."""
    problem, last = given.problem, found.path.last
    before, after = _costs(problem, given.mapping), _costs(problem, last)
    among = candidates(problem, found.paths, given.mapping)
    number = next(n for n, path in enumerate(found.paths) if path is found.path)
    final = next(
        each for each in among if each.path == number and each.place == len(found.path) - 1
    )
    cost = before["notification_cost"]
    document = {
        "method": method,
        "is_complete": found.path.is_complete,
        "seconds": round(seconds, 4),
        "brokers": problem.broker_count,
        "topics": problem.wanted.topic_count,
        "subscriptions": problem.wanted.size,
        "publications": float(problem.publications.sum()),
        "delay_weight": problem.delay_weight,
        "ring_bits": RING_BITS,
        "before": before,
        "after": after,
        "saved_share": 1 - after["notification_cost"] / cost if cost else 0.0,
        "bound": found.bound,
        "reconfiguration": _priced(final),
        "choice": {
            **_priced(chosen(among)),
            "mapping": _named(problem, _mapping_of(found, chosen(among))),
        },
        "mapping": _named(problem, last),
        "position_ids": problem.ring.ids.tolist(),
    }
    if with_path:
        document["improvement"] = _rows(problem, found, among)
        document["pareto"] = [_priced(each) for each in pareto_front(among)]
    return document


def _costs(problem: MappingProblem, mapping: BrokerMapping) -> dict[str, float]:
    cost = mapping_cost(problem, mapping)
    return {
        "overhead": cost.relay_overhead,
        "delay": cost.delay,
        "notification_cost": cost.notification_cost,
        "messages": event_overhead(problem, mapping),
    }


def _priced(candidate: CandidateMapping) -> dict[str, Any]:
    return {
        "overhead": candidate.cost.relay_overhead,
        "delay": candidate.cost.delay,
        "notification_cost": candidate.cost.notification_cost,
        "changed": candidate.changed,
        "reconfiguration_cost": candidate.reconfiguration_cost,
        "benefit": candidate.benefit,
        "net": candidate.net,
        "pays": candidate.net > 0,
        "path": candidate.path,
        "place": candidate.place,
    }


def _mapping_of(found: BestMapping, candidate: CandidateMapping) -> BrokerMapping:
    return found.paths[candidate.path].mapping_at(candidate.place)


def _named(problem: MappingProblem, mapping: BrokerMapping) -> dict[str, int]:
    return dict(zip(problem.wanted.nodes, mapping.tolist(), strict=True))


def _rows(
    problem: MappingProblem, found: BestMapping, among: list[CandidateMapping]
) -> list[dict[str, Any]]:
    """All places of all paths, each with the two brokers that changed places for it."""
    names = problem.wanted.nodes
    swaps = [
        swap
        for path in found.paths
        for swap in (None, *([names[a], names[b]] for a, b in path.swaps.tolist()))
    ]
    return [{"swap": swap, **_priced(each)} for swap, each in zip(swaps, among, strict=True)]


def print_mapping(document: dict[str, Any]) -> None:
    """The figures, the price of the change, and who is where."""
    before, after = document["before"], document["after"]
    click.echo(
        f"{document['brokers']:,} brokers, {document['topics']:,} topics, "
        f"{document['subscriptions']:,} subscriptions, {document['publications']:,.0f} "
        f"publications; {document['method']} took {document['seconds']:.2f} s"
    )
    for name, words in (
        ("overhead", "relay overhead"),
        ("delay", "delay, hops"),
        ("notification_cost", "notification cost"),
        ("messages", "messages in all"),
    ):
        old, new = before[name], after[name]
        share = f" ({new / old - 1:+.1%})" if old else ""
        click.echo(f"  {words:18s} {amount(old):>16s} -> {amount(new)}{share}")
    bound, cost = document["bound"], after["notification_cost"]
    if bound:
        click.echo(
            f"no mapping costs less than {amount(bound)} (this is {cost / bound - 1:.0%} above)"
        )
    final, choice = document["reconfiguration"], document["choice"]
    click.echo(
        f"{final['changed']:,} brokers change places: {final['reconfiguration_cost']:,.0f} "
        f"messages for {final['benefit']:,.0f} saved, "
        + ("which pays" if final["pays"] else "which does not pay in one period")
    )
    click.echo(_choice_words(choice))
    if "improvement" in document:
        path = [row for row in document["improvement"] if row["path"] == choice["path"]]
        _print_rows("improvement path, that of the choice", path, with_swap=True)
        _print_rows("Pareto front", document["pareto"], with_swap=False)
    _print_positions(document)


def amount(value: float) -> str:
    """A cost as people read it.

    >>> amount(1234567.0), amount(0.25)
    ('1,234,567', '0.250')
    """
    return f"{value:,.0f}" if value == round(value) else f"{value:,.3f}"


def _choice_words(choice: dict[str, Any]) -> str:
    if not choice["pays"]:
        return "choice (Algorithm 4): stay as it is"
    return (
        f"choice (Algorithm 4): {choice['changed']:,} brokers change places, cost "
        f"{amount(choice['notification_cost'])}, {choice['net']:,.0f} saved after "
        f"{choice['reconfiguration_cost']:,.0f} messages"
    )


def _print_rows(title: str, rows: list[dict[str, Any]], *, with_swap: bool) -> None:
    headings = ["overhead", "delay", "cost", "changed", "reconfiguration", "net"]
    start = ["place", "swap"] if with_swap else []
    table = new_table(*start, *headings, left=["swap"], title=title)
    for row in _some(rows):
        values = (
            amount(row["overhead"]),
            amount(row["delay"]),
            amount(row["notification_cost"]),
            f"{row['changed']:,}",
            f"{row['reconfiguration_cost']:,.0f}",
            f"{row['net']:,.0f}",
        )
        start = [str(row["place"]), " - ".join(row["swap"] or ())] if with_swap else []
        table.add_row(*start, *values)
    output_console().print(table)
    if len(rows) > ROWS_SHOWN:
        click.echo(f"{ROWS_SHOWN} of {len(rows):,} rows, evenly spread; --json has all")


def _some(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All, or so many from the first to the last."""
    if len(rows) <= ROWS_SHOWN:
        return rows
    last = len(rows) - 1
    return [rows[round(k * last / (ROWS_SHOWN - 1))] for k in range(ROWS_SHOWN)]


def _print_positions(document: dict[str, Any]) -> None:
    mapping: dict[str, int] = document["mapping"]
    click.echo("broker -> position:")
    for broker, position in list(mapping.items())[:ROWS_SHOWN]:
        click.echo(f"  {broker:20s} {position}")
    if len(mapping) > ROWS_SHOWN:
        click.echo(f"  ... and {len(mapping) - ROWS_SHOWN:,} more (--json has all, -o writes them)")

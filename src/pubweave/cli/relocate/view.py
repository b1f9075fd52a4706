"""A selection as people and programs read it: all candidates, the choice and why."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from pubweave.cli.output import new_table, output_console, print_json, remark
from pubweave.design.relocation.rules import Selection
from pubweave.model.ids import natural_order
from pubweave.model.records.status import SelectionStatus

SHOWN_AT_MOST = 40


def selection_document(selection: Selection) -> dict[str, Any]:
    """One selection for ``--json``."""
    return {
        "publisher_at": selection.publisher_at,
        "priority": selection.preference.priority.value,
        "weight": selection.preference.weight,
        "choice": selection.choice,
        "moves": selection.moves,
        "reason": selection.reason,
        "candidates": [
            {
                "broker": candidate.broker,
                "delay_ms": candidate.delay_ms,
                "message_rate": candidate.message_rate,
                "normalized": candidate.normalized,
                "kept": candidate.is_kept,
            }
            for candidate in sorted(selection.candidates, key=lambda c: natural_order(c.broker))
        ],
    }


def print_selection(document: dict[str, Any], title: str) -> None:
    """The candidates as a table, the kept ones first, then the choice."""
    prior = f"{document['priority']}, 0 to 100"
    headings = ("broker", "delay, ms", "message rate", prior, "kept", "")
    table = new_table(*headings, left=("broker", ""), title=title, title_justify="left")
    ranked = sorted(document["candidates"], key=lambda row: (not row["kept"], row["normalized"]))
    named = {document["choice"], document["publisher_at"]}
    shown = [
        row for place, row in enumerate(ranked) if place < SHOWN_AT_MOST or row["broker"] in named
    ]
    for row in shown:
        marks = [
            mark
            for mark, broker in (("now", "publisher_at"), ("choice", "choice"))
            if row["broker"] == document[broker]
        ]
        table.add_row(
            row["broker"],
            f"{row['delay_ms']:.3f}",
            f"{row['message_rate']:,}",
            f"{row['normalized']:.1f}",
            "yes" if row["kept"] else "no",
            ", ".join(marks),
        )
    output_console().print(table)
    if len(shown) < len(ranked):
        click.echo(f"{len(ranked) - len(shown)} more candidates: see --json")
    click.echo(document["reason"])


def status_document(
    client: str, broker: str, selection: SelectionStatus | None, role: str = "publisher"
) -> dict[str, Any]:
    """What a broker decided for a client, in the form of `selection_document`. ``role`` says
    whether it is named as a publisher or as a subscriber."""
    if selection is None:
        reason = "it has not published enough since it was asked: wait longer (--wait), or trace"
        return {
            role: client,
            f"{role}_at": broker,
            "choice": None,
            "moves": False,
            "reason": f"{reason} fewer publications (--trace)",
            "candidates": [],
        }
    document: dict[str, Any] = msgspec.to_builtins(selection)
    del document["publisher"], document["publisher_at"]
    named = {role: client, f"{role}_at": broker}
    return {**named, **document, "moves": selection.choice != broker}


def profile_document(client: str, selection: Selection, role: str = "publisher") -> dict[str, Any]:
    """A selection from a profile, in the form of `status_document`."""
    document = selection_document(selection)
    at = document.pop("publisher_at")
    return {
        role: client,
        f"{role}_at": at,
        "rule": str(selection.preference),
        "has_pings": False,
        **document,
    }


def show_clients(documents: list[dict[str, Any]], role: str, as_json: bool) -> None:
    """A line per publisher or subscriber; if there is only one, all its candidates."""
    if as_json:
        for document in documents:
            print_json(document)
        return
    if len(documents) == 1:
        for document in documents:
            _print_in_detail(document, role)
        _remark_on_pings(documents, role)
        return
    words = (role, "now", "choice", "rule", "why")
    headings = (*words[:4], "delay, ms", "message rate", "why")
    table = new_table(*headings, left=words, title=f"{role}s", title_justify="left")
    for document in documents:
        by_broker = {row["broker"]: row for row in document["candidates"]}
        ends = [by_broker.get(document[f"{role}_at"]), by_broker.get(document["choice"])]
        table.add_row(
            document[role],
            document[f"{role}_at"],
            document["choice"] or "?",
            document.get("rule", ""),
            _change(ends, "delay_ms", "{:.2f}"),
            _change(ends, "message_rate", "{:,}"),
            document["reason"],
        )
    output_console().print(table)
    moves = sum(document["moves"] for document in documents)
    click.echo(f"{moves} of {len(documents)} {role}s would move; see --json for candidates")
    _remark_on_pings(documents, role)


def _print_in_detail(document: dict[str, Any], role: str) -> None:
    if not document["candidates"]:
        click.echo(f"{document[role]}: {document['reason']}")
        return
    prior = str(document["rule"]).rstrip("0123456789.")
    named = {**document, "priority": prior, "publisher_at": document[f"{role}_at"]}
    print_selection(named, f"{document[role]}: {document['rule']}")


def _change(ends: list[dict[str, Any] | None], name: str, form: str) -> str:
    now, then = ends
    if now is None or then is None:
        return ""
    if now is then:
        return form.format(now[name])
    return f"{form.format(now[name])} -> {form.format(then[name])}"


def _remark_on_pings(documents: list[dict[str, Any]], role: str) -> None:
    blind = sum(bool(d["candidates"]) and not d["has_pings"] for d in documents)
    if blind:
        remark(f"ping times of {blind} {role}(s) are not known and were taken as 0")

"""What ``up`` and ``status`` tell of an overlay: a document, a line, tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.table import Table

from pubweave.cli.output import new_table
from pubweave.model.amounts import bytes_in_words, seconds_in_words
from pubweave.model.ids import BrokerId
from pubweave.runtime.client.observer import OverlayStatuses, client_count
from pubweave.runtime.observe.pulse import Pulse, link_document

LINES_SHOWN = 25
"""A live view shows at most this many brokers: a taller one cannot be redrawn in place."""

_STYLE: dict[str, Any] = {"title_justify": "left", "box": None, "pad_edge": False}
_ORGANIZE_SUMS = (
    "known_brokers",
    "proposed",
    "declined",
    "busy",
    "agreed",
    "done",
    "failed",
    "bytes_out",
)


def broker_table(
    snapshot: OverlayStatuses,
    addresses: Mapping[BrokerId, str],
    pids: Mapping[BrokerId, int | None],
    shown: int | None = None,
) -> Table:
    """The brokers, one line each, at most ``shown`` of them."""
    words = ("id", "address", "pid", "state")
    numbers = ("uptime", "clients", "subs", "advs", "pubs/s", "deliveries/s", "queue")
    table = new_table(*words, *numbers, left=words, title="brokers", **_STYLE)
    for column in table.columns:
        column.no_wrap = True
    statuses = list(snapshot.statuses.items())
    for broker, status in statuses[:shown]:
        place = (broker, addresses.get(broker, ""), str(pids.get(broker) or "-"))
        if status is None:
            table.add_row(*place, "[red]down[/red]")
            continue
        table.add_row(
            *place,
            "up",
            seconds_in_words(status.uptime_s),
            str(client_count(status)),
            str(status.subscriptions),
            str(status.advertisements),
            f"{status.rates.publications_in_per_s:,.1f}",
            f"{status.rates.deliveries_per_s:,.1f}",
            bytes_in_words(status.queue_bytes),
        )
    if shown is not None and len(statuses) > shown:
        table.add_row(f"... {len(statuses) - shown} more")
    return table


def organize_line(snapshot: OverlayStatuses) -> str:
    """How the overlay organizes itself, in a sentence; empty if it does not."""
    parts = [status.organizing for status in snapshot.up if status.organizing is not None]
    if not parts:
        return ""
    sums = {name: sum(getattr(part, name) for part in parts) for name in _ORGANIZE_SUMS}
    first = parts[0]
    return (
        f"self-organizing ({first.heuristic}, eta {first.eta}, every {first.interval_s:g} s): "
        f"a broker knows {sums['known_brokers'] / len(parts):.1f} others; "
        f"{sums['proposed']} links asked for, {sums['declined']} declined, {sums['busy']} refused "
        f"as busy; {sums['agreed']} exchanges agreed, {sums['done']} done, "
        f"{sums['failed']} failed; {bytes_in_words(sums['bytes_out'])} sent for it"
    )


def journal_line(snapshot: OverlayStatuses) -> str:
    """Whose journals cannot be written, and why; empty if there are no journals."""
    journals = {s.broker: s.journal for s in snapshot.up if s.journal is not None}
    if not journals:
        return ""
    stuck = [
        f"{broker} takes nothing in for {journal.problem_s:.0f} s: {journal.problem}"
        for broker, journal in journals.items()
        if journal.problem
    ]
    size = sum(journal.journal_bytes for journal in journals.values())
    troubles = "; ".join(stuck) if stuck else "all are written"
    return f"journals: {len(journals)}, {bytes_in_words(size)} since snapshots; {troubles}"


def access_line(snapshot: OverlayStatuses) -> str:
    """How the overlay is secured and whom it turned away; empty for an open one at peace."""
    parts = [status.access for status in snapshot.up if status.access is not None]
    refused: dict[str, int] = {}
    for part in parts:
        for name, count in part.refused.items():
            refused[name] = refused.get(name, 0) + count
    if not parts or not (parts[0].tls or refused):
        return ""
    how = "TLS" if parts[0].tls else "no TLS"
    how += ", rules" if parts[0].rules else ", no rules"
    how += ", anonymous clients" if parts[0].anonymous else ""
    counted = ", ".join(f"{name} {count:,}" for name, count in sorted(refused.items()))
    return f"access ({how}): turned away: {counted or 'nobody'}"


def relocation_line(snapshot: OverlayStatuses) -> str:
    """How publishers move, in a sentence; empty where none was ever traced."""
    parts = [status.relocation for status in snapshot.up if status.relocation is not None]
    told = {
        name: sum(getattr(part, name) for part in parts)
        for name in (
            *("decided", "moves", "given_up", "messages_out", "memory_bytes"),
            *("rounds", "subscriber_moves"),
        )
    }
    if not any(told.values()) and all(part.mode == "off" for part in parts):
        return ""
    rule = parts[0].mode + (f", {parts[0].preference}" if parts[0].mode == "grape" else "")
    subscribers = ""
    if told["rounds"]:
        subscribers = f"{told['subscriber_moves']} of subscribers in {told['rounds']} rounds, "
    return (
        f"relocation ({rule}): {told['decided']} decisions, {told['moves']} moves begun, "
        f"{subscribers}{told['given_up']} traces given up; "
        f"{told['messages_out']:,} messages for it, {bytes_in_words(told['memory_bytes'])} held"
    )


def link_table(snapshot: OverlayStatuses) -> Table:
    """The links, one line each."""
    words = ("link", "state")
    table = new_table(*words, "rtt ms", "queue", left=words, title="links", **_STYLE)
    for link in snapshot.links:
        told = link_document(snapshot, link)
        rtt = "-" if told["rtt_ms"] is None else f"{told['rtt_ms']:.2f}"
        state = "up" if told["state"] == "up" else "[red]down[/red]"
        table.add_row(str(link), state, rtt, bytes_in_words(told["queue_bytes"]))
    return table


def live_drawing(
    pulse: Pulse,
    snapshot: OverlayStatuses,
    addresses: Mapping[BrokerId, str],
    pids: Mapping[BrokerId, int | None],
) -> Group:
    """What ``up`` redraws in place."""
    lines = (
        organize_line(snapshot),
        relocation_line(snapshot),
        migration_line(snapshot),
        journal_line(snapshot),
        pulse.line(),
    )
    told = [line for line in lines if line]
    return Group(broker_table(snapshot, addresses, pids, LINES_SHOWN), "", *told)


_SUMS = ("begun", "done", "refused", "busy", "failed", "hops", "paused_ms")


def migration_line(snapshot: OverlayStatuses) -> str:
    """Moves, and the pauses of their clients; empty where nobody was ever moved."""
    parts = [status.migrations for status in snapshot.up if status.migrations is not None]
    told = {name: sum(getattr(part, name) for part in parts) for name in _SUMS}
    if not told["begun"]:
        return ""
    line = (
        f"migrations: {told['done']} of {told['begun']} done, {told['refused']} refused, "
        f"{told['busy'] + told['failed']} given up"
    )
    if not told["done"]:
        return line
    mean_ms, hops = told["paused_ms"] / told["done"], told["hops"] / told["done"]
    longest_ms = max(part.longest_paused_ms for part in parts)
    return (
        f"{line}; clients waited {mean_ms:.0f} ms on average over {hops:.1f} hops "
        f"({told['paused_ms'] / max(1, told['hops']):.0f} ms a hop), {longest_ms:.0f} ms at most"
    )

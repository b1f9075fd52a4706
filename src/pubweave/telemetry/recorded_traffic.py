"""The traffic that a telemetry directory has recorded: its last stretch, ready to be played again.

A subscription counts if it was added and not removed, by the last word of any broker on it; what
an advertisement covered is not asked again. With a sample ratio below 1 only that share of the
publications was recorded, and only that share is read.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import parse_filter
from pubweave.model.ids import BrokerId, ClientId, Link
from pubweave.model.records.recorded_traffic import (
    RecordedClient,
    RecordedPublication,
    RecordedTraffic,
)
from pubweave.model.telemetry import ClientChange, TableChange
from pubweave.telemetry.parquet import plain_attributes, read_table

WINDOW_S = 30.0
PUBLICATIONS_MAX = 5_000
"""The latest are kept: enough to see what a plan does, few enough to be played in seconds."""

_Wanted = dict[str, tuple[ClientId, BrokerId, Filter]]


def read_traffic(
    directory: Path, *, window_s: float = WINDOW_S, publications_max: int = PUBLICATIONS_MAX
) -> RecordedTraffic:
    """The last ``window_s`` before the last recorded publication; TelemetryError if unreadable."""
    publications = _publications(directory, window_s, publications_max)
    began = publications[0][0] if publications else 0.0
    ended = publications[-1][0] if publications else 0.0
    homes = {publisher: broker for _, publisher, broker, _, _ in publications}
    return RecordedTraffic(
        window_s=ended - began,
        clients=_clients(directory, homes),
        publications=tuple(
            RecordedPublication(at - began, publisher, topic, attributes)
            for at, publisher, _, topic, attributes in publications
        ),
        latency_ms=_latencies(directory),
    )


def _publications(
    directory: Path, window_s: float, at_most: int
) -> list[tuple[float, ClientId, BrokerId, str, dict[str, Any]]]:
    table = read_table(directory, "publications")
    if not table.num_rows:
        return []
    table = table.sort_by([("published_at", "ascending"), ("publisher", "ascending")])
    instants = table["published_at"].to_pylist()
    first = next(i for i, at in enumerate(instants) if at >= instants[-1] - window_s)
    recent = table.slice(max(first, len(instants) - at_most))
    columns = ("published_at", "publisher", "broker", "topic", "attributes")
    rows = zip(*(recent[name].to_pylist() for name in columns), strict=True)
    return [
        (at, publisher, broker, topic, dict(plain_attributes(attributes)))
        for at, publisher, broker, topic, attributes in rows
    ]


def _clients(directory: Path, homes: dict[ClientId, BrokerId]) -> tuple[RecordedClient, ...]:
    gone = _gone(directory)
    subscriptions = _wanted(directory, "subscription_changes", "subscription")
    advertisements = _wanted(directory, "advertisement_changes", "advertisement")
    found = dict(homes)
    for wanted in (subscriptions, advertisements):
        found.update({client: broker for client, broker, _ in wanted.values()})
    return tuple(
        RecordedClient(
            client,
            found[client],
            tuple(f for _, (c, _, f) in sorted(subscriptions.items()) if c == client),
            tuple(f for _, (c, _, f) in sorted(advertisements.items()) if c == client),
        )
        for client in sorted(found)
        if client not in gone
    )


def _wanted(directory: Path, table_name: str, id_column: str) -> _Wanted:
    table = read_table(directory, table_name).sort_by(
        [("changed_at", "ascending"), ("record_number", "ascending")]
    )
    columns = (id_column, "client", "broker", "filter", "change")
    wanted: _Wanted = {}
    for id_, client, broker, filter_, change in zip(
        *(table[name].to_pylist() for name in columns), strict=True
    ):
        if change == TableChange.ADDED.value:
            wanted[id_] = (client, broker, parse_filter(filter_))
        elif id_ in wanted and wanted[id_][1] == broker:
            del wanted[id_]
    return wanted


def _gone(directory: Path) -> set[ClientId]:
    """Clients whose last word anywhere was that they left."""
    table = read_table(directory, "client_changes").sort_by(
        [("changed_at", "ascending"), ("record_number", "ascending")]
    )
    last = dict(zip(table["client"].to_pylist(), table["change"].to_pylist(), strict=True))
    return {client for client, change in last.items() if change == ClientChange.DETACHED.value}


def _latencies(directory: Path) -> dict[Link, float]:
    """Half the median round trip of each link."""
    table = read_table(directory, "link_rtts")
    trips: dict[Link, list[float]] = {}
    for broker, neighbor, rtt_ms in zip(
        *(table[name].to_pylist() for name in ("broker", "neighbor", "rtt_ms")), strict=True
    ):
        trips.setdefault(Link.between(broker, neighbor), []).append(rtt_ms)
    return {link: median(trips[link]) / 2.0 for link in sorted(trips)}

"""An overlay in a few numbers: its pulse, its brokers, its links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from pubweave.model.amounts import bytes_in_words, seconds_in_words
from pubweave.model.ids import Link
from pubweave.model.records.status import BrokerStatus, CounterStatus
from pubweave.runtime.client.observer import OverlayStatuses, RunningTotals, client_count


@dataclass(frozen=True)
class Pulse:
    """An overlay at one instant in a few numbers."""

    elapsed_s: float
    brokers_up: int
    brokers: int
    links_up: int
    links: int
    clients: int
    publications_per_s: float
    deliveries_per_s: float
    queue_bytes: int
    totals: CounterStatus

    def document(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("elapsed_s", "publications_per_s", "deliveries_per_s"):
            fields[name] = round(fields[name], 3)
        return {**fields, "totals": msgspec.to_builtins(self.totals)}

    def line(self) -> str:
        totals = self.totals
        troubles = f"{totals.lost_in_words}, {totals.clients_expired} expired"
        return (
            f"{seconds_in_words(self.elapsed_s)}  brokers {self.brokers_up}/{self.brokers}  "
            f"links {self.links_up}/{self.links}  clients {self.clients}  "
            f"{self.publications_per_s:,.0f} publications/s  "
            f"{self.deliveries_per_s:,.0f} deliveries/s  "
            f"queued {bytes_in_words(self.queue_bytes)}  {troubles}"
        )


class PulseMeter:
    """Turns snapshots into pulses: rates are what was counted since the one before."""

    def __init__(self) -> None:
        self.totals = RunningTotals()
        self._began: float | None = None
        self._before: tuple[float, CounterStatus] | None = None

    def take(self, snapshot: OverlayStatuses) -> Pulse:
        self.totals.add(snapshot)
        totals = self.totals.counters()
        began_at = self._began = snapshot.taken_at if self._began is None else self._began
        then, before = self._before or (snapshot.taken_at, totals)
        self._before = snapshot.taken_at, totals
        seconds = max(snapshot.taken_at - then, 1e-9)
        return Pulse(
            elapsed_s=snapshot.taken_at - began_at,
            brokers_up=len(snapshot.up),
            brokers=len(snapshot.statuses),
            links_up=snapshot.links_up,
            links=len(snapshot.links),
            clients=sum(client_count(status) for status in snapshot.up),
            publications_per_s=(totals.publications_accepted - before.publications_accepted)
            / seconds,
            deliveries_per_s=(totals.deliveries - before.deliveries) / seconds,
            queue_bytes=snapshot.queue_bytes,
            totals=totals,
        )


def broker_document(status: BrokerStatus | None) -> dict[str, Any]:
    """One broker for programs."""
    if status is None:
        return {"state": "down"}
    return {
        "state": "up",
        "uptime_s": round(status.uptime_s, 3),
        "strategy": status.strategy,
        "clients": client_count(status),
        "subscriptions": status.subscriptions,
        "advertisements": status.advertisements,
        "forwarded": status.forwarded,
        "queue_bytes": status.queue_bytes,
        "rates": msgspec.to_builtins(status.rates),
        "counters": msgspec.to_builtins(status.counters),
        **{
            name: msgspec.to_builtins(told)
            for name in ("organizing", "relocation", "migrations", "journal", "access", "mqtt")
            if (told := getattr(status, name)) is not None
        },
    }


def link_document(snapshot: OverlayStatuses, link: Link) -> dict[str, Any]:
    """One link for programs; RTT and queue as the worse of its two ends says."""
    ends = [snapshot.link_session(link.a, link.b), snapshot.link_session(link.b, link.a)]
    known = [end for end in ends if end is not None]
    rtts = [end.rtt_ms for end in known if end.rtt_ms is not None]
    return {
        "a": link.a,
        "b": link.b,
        "state": "up" if snapshot.is_up(link) else "down",
        "rtt_ms": round(max(rtts), 3) if rtts else None,
        "queue_messages": sum(end.queue_messages for end in known),
        "queue_bytes": sum(end.queue_bytes for end in known),
    }

"""What clients did at brokers for a while, as values: who wanted and offered what, and said what.

Read from telemetry (`telemetry.recorded_traffic`), played again in simulation
(`sim.whatif.rehearsal`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId, ClientId, Link
from pubweave.model.publications import Value


@dataclass(frozen=True)
class RecordedClient:
    """A client, where it was at the end, and what it had asked for then."""

    client: ClientId
    broker: BrokerId
    subscriptions: tuple[Filter, ...] = ()
    advertisements: tuple[Filter, ...] = ()


@dataclass(frozen=True)
class RecordedPublication:
    """A publication, ``at_s`` after the window began."""

    at_s: float
    publisher: ClientId
    topic: str
    attributes: Mapping[str, Value]


@dataclass(frozen=True)
class RecordedTraffic:
    """Clients and their publications over ``window_s``, in the order of time."""

    window_s: float = 0.0
    clients: tuple[RecordedClient, ...] = ()
    publications: tuple[RecordedPublication, ...] = ()
    latency_ms: Mapping[Link, float] = field(default_factory=dict)
    """One way, of links that were measured."""

    @property
    def rate_per_s(self) -> float:
        return len(self.publications) / self.window_s if self.window_s else 0.0

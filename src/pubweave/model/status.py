"""What a broker tells about itself when asked: the answer to ``Query("status")``."""

from __future__ import annotations

import msgspec

STATUS_SUBJECT = "status"


class SessionStatus(msgspec.Struct, frozen=True):
    """One session of a broker, with a neighbor or a client."""

    remote: str
    state: str
    queue_messages: int
    queue_bytes: int
    received: int
    rtt_ms: float | None
    is_congested: bool


class CounterStatus(msgspec.Struct, frozen=True):
    """What a broker has counted since it started."""

    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    publications_in: int = 0
    publications_accepted: int = 0
    deliveries: int = 0
    duplicates_dropped: int = 0
    refused: int = 0
    protocol_errors: int = 0
    clients_expired: int = 0
    notifications_lost: int = 0
    records_dropped: int = 0
    holds: int = 0


class RateStatus(msgspec.Struct, frozen=True):
    """Counters per second over the last load window."""

    window_s: float = 0.0
    publications_in_per_s: float = 0.0
    publications_accepted_per_s: float = 0.0
    deliveries_per_s: float = 0.0
    messages_out_per_s: float = 0.0


class ActionStatus(msgspec.Struct, frozen=True):
    """The action of a plan that a broker takes part in."""

    id: str
    action: str
    phase: str
    held_messages: int
    held_bytes: int
    seconds: float


class OrganizeStatus(msgspec.Struct, frozen=True):
    """A broker's part in a self-organizing overlay, since it started. Summed over all brokers,
    no request is counted twice: who asked counts it until it is agreed, who agreed from there."""

    heuristic: str
    eta: int
    interval_s: float
    known_brokers: int
    """How many brokers of the neighborhood it knows now."""
    proposed: int
    busy: int
    declined: int
    agreed: int
    done: int
    failed: int
    messages_out: int
    bytes_out: int
    broadcasts_dropped: int
    windows_overflowed: int = 0
    """How many windows had more publications than there is room to note; rings of this broker
    were not priced by them."""


class BrokerStatus(msgspec.Struct, frozen=True):
    """A broker at one instant."""

    broker: str
    strategy: str
    uptime_s: float
    subscriptions: int
    advertisements: int
    forwarded: int
    links: tuple[SessionStatus, ...]
    client_count: int
    clients: tuple[SessionStatus, ...]
    """At most the first hundred, the most queued first."""
    queue_bytes: int
    counters: CounterStatus
    rates: RateStatus
    action: ActionStatus | None = None
    organizing: OrganizeStatus | None = None

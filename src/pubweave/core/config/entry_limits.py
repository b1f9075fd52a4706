"""How much strangers and clients may ask of a broker: every such limit with its default."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class EntryLimits:
    """Limits at the door and for each client; who is over one is told which.

    The defaults leave room for thousands of clients behind one address; lower them where clients
    come from everywhere."""

    connections: int = 12_000
    """Standing at once, all together."""
    connections_per_address: int = 4_000
    """Standing at once from one address (of IPv6, one /64)."""
    connections_per_s: float = 100.0
    """New ones from one address, in the long run."""
    connection_burst: int = 1_000
    """New ones from one address at once, after a quiet time."""
    handshakes_per_address: int = 8
    """TLS handshakes of one address at once; the others wait. Each keeps the broker from its work
    for about 2 ms."""
    handshake_s: float = 5.0
    """How long a TLS handshake may take."""
    hello_frame_bytes: int = 8_192
    """The longest frame before Hello was accepted."""
    stalled_frame_s: float = 20.0
    """How long a frame may be under way that has begun."""
    logins_at_once: int = 64
    """Passwords that wait to be verified."""
    refusals_per_connection: int = 1_000
    """What a client may ask for in vain; then its connection is closed."""
    questions_at_once: int = 1_000
    """Queries and pings in what one read brings."""
    entries_per_client: int = 100_000
    """Advertisements and subscriptions of one client."""
    predicates_per_filter: int = 64
    """Conditions in one filter."""
    filter_value_bytes: int = 4_096
    """The longest string or attribute name in a filter."""
    queue_bytes_per_client: int = 64 << 20
    """Kept for one client; who lets more pile up is let go."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value <= 0:
                raise ValueError(f"the limit {field.name!r} must be more than 0, got {value}")

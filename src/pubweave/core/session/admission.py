"""Who is let in at the door: limits of connections, before anything is known but an address.

Asked at every accepted connection, before a TLS handshake is paid for. Each address has a bucket
of tokens that fills at `connections_per_s` up to `connection_burst`. O(1) per connection; the
memory is bounded by `ADDRESSES_MAX`.
"""

from __future__ import annotations

import enum
import ipaddress
from typing import NamedTuple

from pubweave.core.config.entry_limits import EntryLimits

ADDRESSES_MAX = 100_000
"""Addresses that are remembered; beyond it, those without a connection are forgotten."""
V6_PREFIX_BITS = 64
"""One customer of a provider usually has all addresses below such a prefix."""


class Refusal(enum.Enum):
    """Why somebody was turned away; the keys under which refusals are counted."""

    CONNECTIONS = "connections"
    CONNECTIONS_PER_ADDRESS = "connections_per_address"
    CONNECTION_RATE = "connections_per_s"
    HANDSHAKE = "tls_handshake"
    CERTIFICATE = "certificate"
    PASSWORD = "password"
    LOGINS = "logins_at_once"
    NAME = "name"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    OPERATE = "operate"
    REFUSALS = "refusals_per_connection"
    QUESTIONS = "questions_at_once"
    ENTRIES = "entries_per_client"
    FILTER = "filter"
    FRAME = "frame"
    STALLED = "stalled_frame"
    UNREAD = "unread"
    QUEUE = "queue_bytes_per_client"


class Rejection(NamedTuple):
    """Which limit was hit, and what the far end is told."""

    refusal: Refusal
    reason: str


class _Address:
    """What is known of one address."""

    __slots__ = ("connections", "tokens", "updated_at")

    def __init__(self, tokens: float, now: float) -> None:
        self.connections = 0
        self.tokens = tokens
        self.updated_at = now


class Admission:
    """Counts connections by address and says who is one too many."""

    def __init__(self, limits: EntryLimits) -> None:
        self._limits = limits
        self._addresses: dict[str, _Address] = {}
        self.connections = 0

    def knocked(self, host: str, now: float) -> Rejection | None:
        """Somebody connected from ``host``; None if it is let in, and `left` is due then."""
        limits = self._limits
        if self.connections >= limits.connections:
            return Rejection(
                Refusal.CONNECTIONS, f"this broker has {limits.connections} connections, its limit"
            )
        known = self._known(host, now)
        if known.connections >= limits.connections_per_address:
            most = limits.connections_per_address
            reason = f"your address has {most} connections here, the limit for one address"
            return Rejection(Refusal.CONNECTIONS_PER_ADDRESS, reason)
        known.tokens = min(
            limits.connection_burst,
            known.tokens + (now - known.updated_at) * limits.connections_per_s,
        )
        known.updated_at = now
        if known.tokens < 1.0:
            return Rejection(
                Refusal.CONNECTION_RATE,
                f"your address connects more than {limits.connections_per_s:g} times a second",
            )
        known.tokens -= 1.0
        known.connections += 1
        self.connections += 1
        return None

    def left(self, host: str) -> None:
        """A connection that was let in is gone."""
        self.connections -= 1
        known = self._addresses.get(group_of(host))
        if known is not None:
            known.connections -= 1

    def _known(self, host: str, now: float) -> _Address:
        group = group_of(host)
        known = self._addresses.get(group)
        if known is None:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._forget_idle()
            known = self._addresses[group] = _Address(self._limits.connection_burst, now)
        return known

    def _forget_idle(self) -> None:
        self._addresses = {g: a for g, a in self._addresses.items() if a.connections}


def group_of(host: str) -> str:
    """What counts as one address: an IPv4 address, or the prefix that an IPv6 one is in.

    >>> group_of("10.0.0.1"), group_of("2001:db8::7"), group_of("::ffff:10.0.0.1")
    ('10.0.0.1', '2001:db8::/64', '10.0.0.1')
    """
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, V6_PREFIX_BITS), strict=False))

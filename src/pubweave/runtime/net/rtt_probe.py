"""How far a broker is: the round trip of a connection's handshake, what the network alone takes."""

from __future__ import annotations

import asyncio
import contextlib
import time

from pubweave.runtime.net.addresses import Address

PROBES = 3
"""Of several handshakes the quickest counts."""
PROBE_LIMIT_S = 3.0
AT_ONCE = 64
"""Brokers that are probed at the same time, at most; more would measure each other."""


async def handshake_ms(address: Address, limit_s: float = PROBE_LIMIT_S) -> float | None:
    """The round-trip time to whoever listens at an address; None if nobody answers in time."""
    least_ms: float | None = None
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(limit_s):
            for _ in range(PROBES):
                began = time.perf_counter()
                _, writer = await asyncio.open_connection(address.host, address.port)
                took_ms = 1000.0 * (time.perf_counter() - began)
                writer.close()
                least_ms = took_ms if least_ms is None else min(least_ms, took_ms)
    return least_ms


async def round_trips_ms(addresses: dict[str, str]) -> dict[str, float]:
    """Round trips by name, of those that answer; an address that is none counts as silent."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def probe(text: str) -> float | None:
        try:
            address = Address.parse(text)
        except ValueError:
            return None
        async with turns:
            return await handshake_ms(address)

    found = await asyncio.gather(*(probe(text) for text in addresses.values()))
    return {name: ms for name, ms in zip(addresses, found, strict=True) if ms is not None}

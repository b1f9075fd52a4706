"""Connecting a client: ``async with connect("127.0.0.1:7001") as client``."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

from pubweave.core.config.session import SessionLimits
from pubweave.runtime.client.client import CLIENT_LIMITS, Client, ClientError
from pubweave.runtime.client.subscription import OnGap
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.clock import UnixClock
from pubweave.runtime.security.credentials import Credentials
from pubweave.wire.codec import DEFAULT_MAX_FRAME_BYTES


class connect:
    """Connect a client: ``async with connect("127.0.0.1:7001") as client``.

    ``address`` may name several brokers, tried in turn: ``"10.0.0.1:7001,10.0.0.2:7001"``. To a
    secured overlay come with ``credentials``; OverlayError if their files cannot be used.
    ``on_gap``: what happens when the client sees that a publication is missing: ``"warn"`` logs it,
    ``"raise"`` lets the subscription raise `GapError`, a function is called with it. All are in
    ``client.gaps`` and counted in ``client.gap_count``. Seen are gaps in topics that are wanted
    whole; where a filter looks at attributes, a missing publication may not have matched it.
    """

    def __init__(
        self,
        address: str | Address,
        *,
        client_id: str | None = None,
        timeout_s: float = 10.0,
        limits: SessionLimits | None = None,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        max_queued: int = 65_536,
        credentials: Credentials | None = None,
        on_gap: OnGap = "warn",
        clock: UnixClock | None = None,
    ) -> None:
        known = credentials or Credentials()
        if isinstance(address, Address):
            addresses = [address]
        else:
            addresses = [Address.parse(part) for part in address.split(",")]
        self._timeout_s = timeout_s
        self._client = Client(
            addresses,
            client_id or known.client_id(),
            limits=limits or CLIENT_LIMITS,
            max_frame_bytes=max_frame_bytes,
            max_queued=max_queued,
            credentials=known,
            on_gap=on_gap,
            clock=clock,
        )

    async def __aenter__(self) -> Client:
        await self._client.open(self._timeout_s)
        return self._client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            with contextlib.suppress(ClientError, TimeoutError):
                async with asyncio.timeout(self._timeout_s):
                    await self._client.flush()
        await self._client.close()

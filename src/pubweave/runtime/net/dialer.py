"""Keeps one outgoing connection standing: dials, waits for its end, dials again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence

from pubweave.model.messages.session import Message
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.connection import Connection, ConnectionOwner
from pubweave.runtime.net.tls import HANDSHAKE_LIMIT_S, in_words

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
REACH_LIMIT_S = 2.0

FindAddresses = Callable[[], Awaitable[Sequence[Address]]]
"""Asked before each attempt, where addresses may change or are not known yet."""


async def reach(address: str) -> str:
    """Why no connection to an address can be had; empty if one can."""
    try:
        parsed = Address.parse(address)
        async with asyncio.timeout(REACH_LIMIT_S):
            _, writer = await asyncio.open_connection(parsed.host, parsed.port)
    except (OSError, ValueError, TimeoutError) as error:
        return f"cannot reach {address!r}: {error or type(error).__name__}"
    writer.close()
    return ""


class Dialer:
    """Dials ``addresses`` in turn until one answers, and again whenever it is lost."""

    def __init__(
        self,
        remote: str,
        addresses: Sequence[Address] | FindAddresses,
        owner: ConnectionOwner,
        *,
        max_frame_bytes: int,
        is_single: bool = False,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """``is_single``: dial once, and not again when that is lost. ``context``: over TLS."""
        self.remote = remote
        self._is_single = is_single
        self.connection: Connection | None = None
        self.last_error: str | None = None
        self._addresses = addresses if callable(addresses) else tuple(addresses)
        self._owner = owner
        self._max_frame_bytes = max_frame_bytes
        self.context = context
        """Of the next dialing."""
        self.on_distrust: Callable[[str], None] = lambda reason: None
        """Hears that one side does not trust the other's certificate: no use in trying again."""
        self.on_refused: Callable[[], None] = lambda: None
        """Hears that nobody listens at an address."""
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._is_redirected = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"dial {self.remote}")

    async def stop(self) -> None:
        """Dial no more; the connection that stands is left to its owner."""
        if self._task is not None:
            if self.connection is not None:
                # It can stand before create_connection has returned, which, cancelled, closes it.
                await asyncio.sleep(0)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def cease(self) -> None:
        """The same without waiting for it, for good."""
        if self._task is not None:
            self._task.cancel()

    def redirect(self, addresses: Sequence[Address]) -> None:
        """From the end of the connection that stands on, dial others, the first one at once."""
        self._addresses = tuple(addresses)
        self._is_redirected = True

    # --- between the connection and its owner ----------------------------------------------

    def connection_opened(self, connection: Connection) -> None:
        self.connection = connection
        self._owner.connection_opened(connection)

    def messages_received(self, connection: Connection, messages: list[Message]) -> None:
        self._owner.messages_received(connection, messages)

    def connection_closed(self, connection: Connection) -> None:
        self._owner.connection_closed(connection)
        if isinstance(connection.lost_error, ssl.SSLError):
            self._distrusted(connection.lost_error)
        elif not connection.was_heard:
            # So looks a handshake that only the far end takes for failed (TLS 1.3).
            why = "it may want TLS" if self.context is None else "it may not trust the certificate"
            self.last_error = f"{self.remote} hung up: {why}"
        if self.connection is connection:
            self.connection = None
        self._lost.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = FIRST_PAUSE_S
        turn = 0
        while True:
            addresses = await self._addresses() if callable(self._addresses) else self._addresses
            turn += 1
            self._lost.clear()
            if not addresses:
                self.last_error = "its address is not known"
            elif await self._connect(addresses[(turn - 1) % len(addresses)]):
                opened_at = loop.time()
                await self._lost.wait()
                if loop.time() - opened_at > LONGEST_PAUSE_S:
                    pause_s = FIRST_PAUSE_S
                    turn -= 1  # try the same broker first: it may still have our session
            if self._is_redirected:
                self._is_redirected = False
                pause_s, turn = FIRST_PAUSE_S, 0
                continue
            if self._is_single:
                return
            # Spread out, so that the clients of a broker that restarts do not all come at once.
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            # One that is gone says nothing of the next: pauses grow once all have been tried.
            if turn % max(1, len(addresses)) == 0:
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _connect(self, address: Address) -> bool:
        try:
            await asyncio.get_running_loop().create_connection(
                Connection.factory(self, max_frame_bytes=self._max_frame_bytes),
                address.host,
                address.port,
                ssl=self.context,
                ssl_handshake_timeout=None if self.context is None else HANDSHAKE_LIMIT_S,
            )
        except OSError as error:
            self.last_error = f"{address}: {in_words(error)}"
            log.debug("cannot reach %s at %s", self.remote, self.last_error)
            if isinstance(error, ssl.SSLError):
                self._distrusted(error)
            elif isinstance(error, ConnectionRefusedError):
                self.on_refused()
            return False
        return True

    def _distrusted(self, error: ssl.SSLError) -> None:
        log.warning("TLS with %s failed: %s", self.remote, in_words(error))
        self.on_distrust(in_words(error))

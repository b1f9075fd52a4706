"""Where connections come in: accepted one by one, and let in or turned away at once.

The event loops' own servers accept first and ask nobody; with TLS they would pay for a handshake
before it is known where it came from. Here `core.session.admission` is asked before anything is
spent. Who is turned away is told why, over TLS only by so many at a time: a flood is not worth it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

from pubweave.core.session.admission import Admission, Refusal, Rejection
from pubweave.runtime.net.addresses import Address, bound_sockets
from pubweave.runtime.net.connection import Connection
from pubweave.runtime.net.mqtt_connection import MqttSocket

log = logging.getLogger(__name__)

BACKLOG = 1024
ACCEPTED_AT_ONCE = 64
"""Then it is everybody else's turn."""
TOLD_AT_ONCE = 16
"""Over TLS: those turned away whose handshake is waited for, so that they can be told why."""
HANDSHAKE_DISTANCE_S = 0.004
"""Between the beginnings of two handshakes, each of which takes some 2 ms of the broker's time."""
OUT_OF_FILES_PAUSE_S = 0.5
Bind = Callable[[Iterable[Any], int], Iterable[socket.socket]]
"""Gives sockets bound at what ``getaddrinfo`` found and a port, as `bound_sockets` does."""
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """Listens at one address and makes connections of whoever is let in."""

    def __init__(
        self,
        make: Callable[[Callable[[], None]], Connection | MqttSocket],
        admission: Admission,
        count: Callable[[Refusal], None],
        now: Callable[[], float],
        *,
        context: ssl.SSLContext | None = None,
        handshake_s: float = 5.0,
        handshakes_per_address: int = 8,
        farewell: Callable[[str], bytes],
        bind: Bind = bound_sockets,
    ) -> None:
        """``make`` gets what a connection has to call at its end; ``count`` hears of everybody
        who is turned away; ``farewell`` puts the reason into the client's language."""
        self._make = make
        self._farewell = farewell
        self._bind = bind
        self._admission = admission
        self._count = count
        self._now = now
        self.context = context
        """Of the handshakes to come."""
        self._handshake_s = handshake_s
        self._handshakes_per_address = handshakes_per_address
        self._turns: dict[str, _Turns] = {}
        self._next_handshake_at = 0.0
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = 0

    @property
    def address(self) -> Address:
        """With the port really got."""
        return Address(*self._sockets[0].getsockname()[:2])

    async def start(self, address: Address) -> None:
        """OSError if the address cannot be had."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for listening in self._bind(found, address.port):
                self._sockets.append(listening)
                listening.setblocking(False)
                listening.listen(BACKLOG)
        except OSError:
            self.close()
            raise
        for listening in self._sockets:
            loop.add_reader(listening.fileno(), self._accept, listening)

    def close(self) -> None:
        """Let nobody in any more; the connections that stand are their owner's."""
        for listening in self._sockets:
            if listening.fileno() >= 0:
                asyncio.get_running_loop().remove_reader(listening.fileno())
                listening.close()
        for task in self._tasks:
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, place = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_FILES:
                    raise
                self._pause(listening, error)
                return
            accepted.setblocking(False)
            rejection = self._admission.knocked(place[0], self._now())
            if rejection is None:
                self._begin(self._let_in(accepted, place[0]))
            else:
                self._count(rejection.refusal)
                self._turn_away(accepted, rejection)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """There are no file descriptors left: those who wait, wait a little longer."""
        log.warning("cannot accept connections for now: %s", error.strerror)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())

        def resume() -> None:
            if listening.fileno() >= 0:
                loop.add_reader(listening.fileno(), self._accept, listening)

        loop.call_later(OUT_OF_FILES_PAUSE_S, resume)

    async def _let_in(self, accepted: socket.socket, host: str) -> None:
        ended = False

        def left() -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._admission.left(host)

        connection = self._make(left)
        try:
            async with self._turn(host):
                await self._connected(connection, accepted)
        except (OSError, TimeoutError, ssl.SSLError) as error:
            # Whoever only looks whether the port is open has nothing to do with certificates.
            if isinstance(error, ssl.SSLError | TimeoutError | ConnectionAbortedError):
                self._count(Refusal.HANDSHAKE)
            log.info("a connection from %s came to nothing: %s", host, error)
        finally:
            if not connection.was_made:
                accepted.close()
                left()

    @contextlib.asynccontextmanager
    async def _turn(self, host: str) -> AsyncIterator[None]:
        """Over TLS: while few enough handshakes of an address are under way."""
        if self.context is None:
            yield
            return
        turns = self._turns.get(host)
        if turns is None:
            turns = self._turns[host] = _Turns(self._handshakes_per_address)
        turns.users += 1
        try:
            async with turns.free:
                await self._keep_distance()
                yield
        finally:
            turns.users -= 1
            if not turns.users:
                del self._turns[host]

    async def _keep_distance(self) -> None:
        """Begin handshakes one after the other: several at once would be one long wait for all
        who are inside already."""
        now = asyncio.get_running_loop().time()
        begin_at = max(now, self._next_handshake_at)
        self._next_handshake_at = begin_at + HANDSHAKE_DISTANCE_S
        if begin_at > now:
            await asyncio.sleep(begin_at - now)

    async def _connected(self, protocol: asyncio.Protocol, accepted: socket.socket) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: protocol,
            accepted,
            ssl=self.context,
            ssl_handshake_timeout=None if self.context is None else self._handshake_s,
        )

    def _turn_away(self, accepted: socket.socket, rejection: Rejection) -> None:
        if self.context is None:
            with contextlib.suppress(OSError):
                accepted.send(self._farewell(rejection.reason))
                accepted.shutdown(socket.SHUT_WR)
        elif self._told < TOLD_AT_ONCE:
            self._told += 1
            self._begin(self._tell(accepted, rejection.reason))
            return
        accepted.close()

    async def _tell(self, accepted: socket.socket, reason: str) -> None:
        try:
            await self._connected(_Teller(self._farewell(reason)), accepted)
        except (OSError, TimeoutError, ssl.SSLError):
            accepted.close()
        finally:
            self._told -= 1

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Turns:
    """Who of one address may shake hands now."""

    def __init__(self, at_once: int) -> None:
        self.free = asyncio.Semaphore(at_once)
        self.users = 0


class _Teller(asyncio.Protocol):
    """Says one thing and hangs up."""

    def __init__(self, farewell: bytes) -> None:
        self._farewell = farewell

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self._farewell)  # type: ignore[attr-defined]
        transport.close()

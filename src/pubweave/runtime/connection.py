"""One TCP connection: bytes from the event loop to messages, messages to bytes.

Everything that one read brings is decoded and handed over at once; everything that one event
causes for a connection is one write, and the event loop joins the writes of one turn.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from pubweave.core.events import ConnectionId
from pubweave.model.messages import Goodbye, Message
from pubweave.wire.codec import FrameDecoder, FrameError, encode, encode_all

_numbers = itertools.count(1)


class ConnectionOwner(Protocol):
    """Who a connection tells what happens to it."""

    def connection_opened(self, connection: Connection) -> None: ...

    def messages_received(self, connection: Connection, messages: list[Message]) -> None: ...

    def connection_closed(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """One connection, numbered; tells its owner and writes what the owner wants written."""

    def __init__(self, owner: ConnectionOwner, *, max_frame_bytes: int) -> None:
        self.number: ConnectionId = next(_numbers)
        self.frame_error: str | None = None
        self._owner = owner
        self._decoder = FrameDecoder(max_frame_bytes)
        self._transport: asyncio.Transport | None = None

    @classmethod
    def factory(cls, owner: ConnectionOwner, *, max_frame_bytes: int) -> Callable[[], Connection]:
        return lambda: cls(owner, max_frame_bytes=max_frame_bytes)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        sock: socket.socket | None = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._owner.connection_opened(self)

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._decoder.feed(data)
        except FrameError as error:
            self.frame_error = str(error)
            self.close(str(error))
            return
        if messages:
            self._owner.messages_received(self, messages)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._owner.connection_closed(self)

    def write(self, messages: Sequence[Message]) -> None:
        if self._transport is not None:
            self._transport.write(encode_all(messages))

    def close(self, reason: str) -> None:
        """Close after what was written has left; tell the far end why."""
        if self._transport is not None:
            self._transport.write(encode(Goodbye(reason)))
            self._transport.close()

    def abort(self) -> None:
        """Close at once, as a cut cable would."""
        if self._transport is not None:
            self._transport.abort()

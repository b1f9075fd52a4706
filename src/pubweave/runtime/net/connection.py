"""One TCP connection, with or without TLS: bytes to messages, messages to bytes.

Everything that one read brings is decoded and handed over at once; everything that one event
causes for a connection is one write, and the event loop joins the writes of one turn.

What is kept for the far end is bounded twice: by its session's window, and by `unread_bytes` for
what no window counts (answers, pongs). Who lets more than that pile up does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from pubweave.core.session.admission import Refusal
from pubweave.core.vocabulary.events import ConnectionId
from pubweave.model.messages.session import Disconnect, Message
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.clock import UnixClock
from pubweave.runtime.net.tls import owner_uri, serial_of
from pubweave.wire.codec import FrameDecoder, FrameError, encode, encode_all

UNREAD_BYTES_MAX = 16 << 20
LINGER_S = 2.0
"""How long a closed connection waits for what was written to leave."""

_numbers = itertools.count(UnixClock().epoch())
"""Not used by an earlier process either: a broker that comes back from its journal knows those."""


def number_from(first: int) -> None:
    """Number connections from here on, for who wants the same numbers again."""
    global _numbers
    _numbers = itertools.count(first)


class ConnectionOwner(Protocol):
    """Who a connection tells what happens to it."""

    def connection_opened(self, connection: Connection) -> None: ...

    def messages_received(self, connection: Connection, messages: list[Message]) -> None: ...

    def connection_closed(self, connection: Connection) -> None: ...


class NumberedSocket(asyncio.Protocol):
    """What connections of native and of MQTT clients have in common."""

    def __init__(self, unread_bytes: int, on_lost: Callable[[], None]) -> None:
        self.number: ConnectionId = next(_numbers)
        self.certified = ""
        """Whom the far end's certificate names; `model.records.access.Certified` reads it."""
        self.serial: int | None = None
        """The number of that certificate."""
        self.was_made = False
        self.refusal = Refusal.FRAME
        """Which limit it broke, if it broke one."""
        self._unread_bytes = unread_bytes
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self.was_made = True
        sock: socket.socket | None = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport.set_write_buffer_limits(high=self._unread_bytes)
        self.certified = owner_uri(transport)
        self.serial = serial_of(transport)

    def abort(self) -> None:
        """Close at once, as a cut cable would."""
        if self._transport is not None:
            self._transport.abort()


class Connection(NumberedSocket):
    """One connection, numbered; tells its owner and writes what the owner wants written."""

    def __init__(
        self,
        owner: ConnectionOwner,
        *,
        max_frame_bytes: int,
        hello_frame_bytes: int | None = None,
        is_known: Callable[[ConnectionId], bool] = lambda number: True,
        unread_bytes: int = UNREAD_BYTES_MAX,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """``hello_frame_bytes``: the far end is a stranger, and its frames may be no longer than
        this until ``is_known`` says that it is none any more."""
        super().__init__(unread_bytes, on_lost)
        self.frame_error: str | None = None
        self.lost_error: Exception | None = None
        """What ended it, unless this side did: then whatever still comes is no failure (asyncio
        takes data behind its own end of TLS for one)."""
        self._is_over = False
        self.is_stranger = hello_frame_bytes is not None
        self._owner = owner
        self._max_frame_bytes = max_frame_bytes
        self._is_known = is_known
        self._decoder = FrameDecoder(hello_frame_bytes or max_frame_bytes)
        self._frames_seen = 0

    @classmethod
    def factory(cls, owner: ConnectionOwner, *, max_frame_bytes: int) -> Callable[[], Connection]:
        return lambda: cls(owner, max_frame_bytes=max_frame_bytes)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._owner.connection_opened(self)

    @property
    def address(self) -> Address | None:
        """Where the far end is; None if that cannot be told any more."""
        place = None if self._transport is None else self._transport.get_extra_info("peername")
        return Address(*place[:2]) if place else None

    @property
    def was_heard(self) -> bool:
        """Whether any message came."""
        return self._decoder.frames > 0

    def data_received(self, data: bytes) -> None:
        if self.is_stranger and self._is_known(self.number):
            self.is_stranger = False
            self._decoder.max_frame_bytes = self._max_frame_bytes
        try:
            messages = self._decoder.feed(data)
        except FrameError as error:
            self._break_off(Refusal.FRAME, str(error))
            return
        if messages:
            self._owner.messages_received(self, messages)

    def pause_writing(self) -> None:
        self._break_off(
            Refusal.UNREAD, f"more than {self._unread_bytes} bytes were sent to it and not read"
        )
        self.abort()  # what it does not read it cannot be told

    def check_progress(self, limit_s: float) -> None:
        """Called every ``limit_s``: a frame that was under way already must be complete by now."""
        seen, self._frames_seen = self._frames_seen, self._decoder.frames
        if not self._decoder.is_unfinished:
            self._frames_seen = -1
        elif seen == self._decoder.frames:
            self._break_off(Refusal.STALLED, f"a frame took longer than {limit_s:g} s")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.lost_error = None if self._is_over else exc
        self._on_lost()
        self._owner.connection_closed(self)

    def write(self, messages: Sequence[Message]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._send(self._transport, encode_all(messages))

    @staticmethod
    def _send(transport: asyncio.Transport, data: bytes) -> None:
        # uvloop raises where a transport is closed and its end not told yet, also if it does not
        # say that it is closing: that would take the rest of the event's effects along.
        with contextlib.suppress(RuntimeError):
            transport.write(data)

    def close(self, reason: str) -> None:
        """Close after what was written has left, or soon; tell the far end why. Its session goes
        on with the next connection: who leaves for good has said so before."""
        self._is_over = True
        if self._transport is not None and not self._transport.is_closing():
            self._send(self._transport, encode(Disconnect(reason)))
            self._transport.close()
            # A far end that does not read must not keep us from dialing anew.
            asyncio.get_running_loop().call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        self._is_over = True
        super().abort()

    def _break_off(self, refusal: Refusal, reason: str) -> None:
        if self.frame_error is None:
            self.frame_error, self.refusal = reason, refusal
            self.close(reason)

"""Sockets as the drivers use them: one that listens, and what it accepts."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING

from pubweave.sim.eventloop.endpoint import Place, TcpEnd
from pubweave.sim.eventloop.process import PROCESS, SimProcess

if TYPE_CHECKING:
    from pubweave.sim.eventloop.network import TcpNetwork


class ListeningSocket:
    """Bound at a place from the beginning; the kernel lets in even while the process is stopped."""

    family = socket.AF_INET

    def __init__(self, network: TcpNetwork, place: Place) -> None:
        self.process: SimProcess = PROCESS.get()
        self.reader: asyncio.Handle | None = None
        self._network = network
        self._place = network.listen(self, place)
        self._arrived: deque[TcpEnd] = deque()
        self._backlog = 0
        self._descriptor = network.next_number()
        self.process.on_death.append(self.close)

    @property
    def is_full(self) -> bool:
        return len(self._arrived) > self._backlog

    def setblocking(self, is_blocking: bool) -> None:
        assert not is_blocking

    def listen(self, backlog: int) -> None:
        self._backlog = backlog

    def fileno(self) -> int:
        return self._descriptor

    def getsockname(self) -> Place:
        return self._place

    def accept(self) -> tuple[AcceptedSocket, Place]:
        """The next connection; BlockingIOError if there is none."""
        if not self._arrived:
            raise BlockingIOError
        end = self._arrived.popleft()
        return AcceptedSocket(end), end.far_end.place

    def close(self) -> None:
        if self._descriptor >= 0:
            self._descriptor = -1
            self._network.forget(self._place)
            for end in self._arrived:
                end.close()
            self._arrived.clear()

    def arrived(self, end: TcpEnd) -> None:
        """A connection stands, for whoever accepts it."""
        self._arrived.append(end)
        self.process.poll(self)

    def ready(self) -> list[asyncio.Handle]:
        return [self.reader] if self.reader is not None and self._arrived else []


class AcceptedSocket:
    """An end of a connection before it has a transport."""

    family = socket.AF_INET

    def __init__(self, end: TcpEnd) -> None:
        self.end = end

    def setblocking(self, is_blocking: bool) -> None:
        assert not is_blocking

    def send(self, data: bytes) -> int:
        return self.end.send(data)

    def shutdown(self, how: int) -> None:
        assert how == socket.SHUT_WR
        self.end.shutdown()

    def close(self) -> None:
        self.end.close()

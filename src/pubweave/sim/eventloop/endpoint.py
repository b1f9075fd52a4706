"""The kernel's end of a TCP connection: what has arrived and is not read, what is under way.

It goes on while its process does not run, and for a while after that is gone: what a process wrote
before it was killed still arrives. Whoever writes to an end that is closed hears a reset.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pubweave.sim.eventloop.process import SimProcess

if TYPE_CHECKING:
    from pubweave.sim.eventloop.network import TcpNetwork

Place = tuple[str, int]
RETRANSMIT_S = 0.3
FIN, RESET = "fin", "reset"


class TcpEnd:
    """One of two ends; `peer` is the other, once there is one."""

    def __init__(
        self, network: TcpNetwork, process: SimProcess, place: Place, capacity: int
    ) -> None:
        """``capacity``: so many bytes may be under way from here and not be read yet."""
        self.number = network.next_number()
        self.process = process
        self.place = place
        self.peer: TcpEnd | None = None
        self.reader: asyncio.Handle | None = None
        self.writer: asyncio.Handle | None = None
        self.is_closed = False
        self.is_reset = False
        self._network = network
        self._capacity = capacity
        self._unread = bytearray()
        self._fin_arrived = False
        self._fin_sent = False
        self._taken = 0
        """Bytes of ours that are under way or not read."""
        self._last_arrival = 0.0
        self._is_gone = False
        process.endpoints[self.number] = self

    @property
    def far_end(self) -> TcpEnd:
        assert self.peer is not None, "not connected yet"
        return self.peer

    # --- what a socket does ----------------------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """How much of it the kernel took."""
        if self.is_reset:
            raise ConnectionResetError("connection reset by peer (simulated)")
        if self._fin_sent or self.is_closed:
            raise BrokenPipeError("broken pipe (simulated)")
        taken = bytes(data[: self._capacity - self._taken])
        self._taken += len(taken)
        at = 0
        while at < len(taken):
            size = self._network.segment(len(taken) - at)
            self._send_packet(taken[at : at + size])
            at += size
        return len(taken)

    def recv(self, limit: int) -> bytes:
        """What has come; empty at the end. BlockingIOError: nothing yet."""
        if self._unread:
            data = bytes(self._unread[:limit])
            del self._unread[:limit]
            self._network.carry(self, self.far_end.window_grown, len(data))
            return data
        if self.is_reset:
            raise ConnectionResetError("connection reset by peer (simulated)")
        if self._fin_arrived:
            return b""
        raise BlockingIOError

    def shutdown(self) -> None:
        """Nothing more is going to be written."""
        if not (self._fin_sent or self.is_reset):
            self._fin_sent = True
            self._send_packet(FIN)

    def close(self) -> None:
        """Give it back to the kernel, which sends what it has."""
        if self.is_closed:
            return
        if self.peer is None:
            pass  # nobody has answered yet
        elif self._unread and not self.is_reset:
            self._send_packet(RESET)
        else:
            self.shutdown()
        self.is_closed = True
        self.reader = self.writer = None
        self.process.endpoints.pop(self.number, None)

    def vanish(self) -> None:
        """The machine is gone: nobody hears of it before that is up again and is asked."""
        self._is_gone = self.is_closed = True
        self.reader = self.writer = None
        self.process.endpoints.pop(self.number, None)

    def break_off(self) -> None:
        """Something on the way has ended the connection for this end."""
        if not self.is_reset and not self.is_closed:
            self.is_reset = True
            self.process.poll(self)

    def ready(self) -> list[asyncio.Handle]:
        found = []
        can_read = self._unread or self._fin_arrived or self.is_reset
        if self.reader is not None and can_read:
            found.append(self.reader)
        if self.writer is not None and (self._taken < self._capacity or self.is_reset):
            found.append(self.writer)
        return found

    # --- what comes over the wire ----------------------------------------------------------

    def arrive(self, packet: bytes | str) -> None:
        """A packet of the far end is here."""
        if self._is_gone and not self._network.is_up(self.place[0]):
            self._network.later(RETRANSMIT_S, self.arrive, packet)
        elif self._is_gone or self.is_closed:
            # Data for nobody is answered by a reset; the end of it is not.
            if isinstance(packet, bytes) or (self._is_gone and packet is not RESET):
                self._send_packet(RESET)
        elif self.is_reset:
            pass
        elif isinstance(packet, bytes):
            self._unread += packet
            self.process.poll(self)
        elif packet is FIN:
            self._fin_arrived = True
            self.process.poll(self)
        else:
            self.break_off()

    def window_grown(self, size: int) -> None:
        """The far end has read so much."""
        self._taken -= size
        self.process.poll(self)

    def _send_packet(self, packet: bytes | str) -> None:
        self._network.carry(self, self.far_end.arrive, packet)

    def arrival(self, instant: float) -> float:
        """When what is sent now arrives, if it would at an instant: nothing overtakes."""
        self._last_arrival = max(self._last_arrival, instant)
        return self._last_arrival

"""The network between simulated hosts: latency, segments, cuts, refusals; who listens where.

What is sent into a cut is sent again and arrives some time after it, as TCP does; only dialing
gives up.
"""

from __future__ import annotations

import asyncio
import errno
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pubweave.sim.eventloop.endpoint import Place, TcpEnd
from pubweave.sim.eventloop.process import SimProcess
from pubweave.sim.eventloop.sockets import ListeningSocket
from pubweave.sim.kernel.world import World

SEGMENT_BYTES = 1460
READ_BYTES = 256 * 1024
"""As much as asyncio reads at once."""
DIAL_LIMIT_S = 20.0
BACK_OFF_S = 5.0
FIRST_FREE_PORT = 40_000


@dataclass
class LinkCut:
    """One way between two hosts, and what is to be sent again there."""

    since: float
    until: float
    held: list[tuple[TcpEnd, Callable[[Any], None], object]] = field(default_factory=list)


class TcpNetwork:
    """All hosts of a run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.latency_s = (0.0001, 0.002)
        """Of a packet, one way."""
        self.capacity = (1 << 16, 1 << 18)
        """What the kernels of both ends hold of one direction of a connection."""
        self.splits = 0.3
        """How often data is cut into pieces at random places."""
        self.connections: dict[int, TcpEnd] = {}
        """The dialing ends, by their numbers."""
        self._listening: dict[Place, ListeningSocket] = {}
        self._cuts: dict[tuple[str, str], LinkCut] = {}
        self._down: set[str] = set()
        self._ports = FIRST_FREE_PORT
        self._numbers = 0

    # --- faults ----------------------------------------------------------------------------

    def cut(self, source: str, target: str, until: float) -> None:
        """One way between two hosts lets nothing through until an instant."""
        cut = self._cuts.setdefault((source, target), LinkCut(self.world.now, until))
        cut.until = max(until, cut.until)
        self.world.at(until, self._end_cut, source, target)

    def heal(self) -> None:
        """End all cuts."""
        for cut in self._cuts.values():
            cut.until = self.world.now
        for source, target in list(self._cuts):
            self._end_cut(source, target)

    def _end_cut(self, source: str, target: str) -> None:
        now = self.world.now
        cut = self._cuts.get((source, target))
        if cut is None or cut.until > now:
            return
        del self._cuts[source, target]
        # Pauses between retransmissions have grown meanwhile.
        again_at = now + self.world.uniform(0.0, min(now - cut.since, BACK_OFF_S))
        for end, deliver, packet in cut.held:
            self._send(end, deliver, packet, again_at)

    def set_down(self, host: str, *, is_down: bool) -> None:
        """A host whose machine is down answers nobody."""
        (self._down.add if is_down else self._down.discard)(host)

    def is_up(self, host: str) -> bool:
        return host not in self._down

    def open_connections(self) -> list[TcpEnd]:
        """The dialing ends of those that stand."""
        for number, end in list(self.connections.items()):
            if end.is_closed and end.far_end.is_closed:
                del self.connections[number]
        return list(self.connections.values())

    def next_number(self) -> int:
        """A number for an end or a socket, the same in every run."""
        self._numbers += 1
        return self._numbers

    # --- packets ---------------------------------------------------------------------------

    def carry(self, end: TcpEnd, deliver: Callable[[Any], None], packet: object) -> None:
        """Bring a packet from one end of a connection to the other, in order."""
        cut = self._cuts.get((end.place[0], end.far_end.place[0]))
        if cut is not None:
            cut.held.append((end, deliver, packet))
        else:
            self._send(end, deliver, packet, self.world.now)

    def _send(
        self, end: TcpEnd, deliver: Callable[[Any], None], packet: object, sent_at: float
    ) -> None:
        at = end.arrival(sent_at + self.world.uniform(*self.latency_s))
        if self.world.trace is not None:
            shown = packet
            if isinstance(packet, bytes):
                shown = f"{len(packet)} bytes {zlib.crc32(packet):08x}"
            self.world.note(end.process.name, f"-> {end.far_end.process.name}: {shown} at {at:.6f}")
        self.world.at(at, deliver, packet)

    def later(self, delay_s: float, what: Callable[..., None], *args: object) -> None:
        self.world.after(delay_s, what, *args)

    def segment(self, size: int) -> int:
        """How much of so many bytes travels together."""
        if self.world.chance(self.splits):
            return self.world.integer(1, min(size, SEGMENT_BYTES))
        return min(size, 16 * SEGMENT_BYTES)

    def read_size(self) -> int:
        """How much one read takes at most."""
        if self.world.chance(self.splits):
            return self.world.integer(1, 4096)
        return READ_BYTES

    def _arrives_at(self, source: str, target: str) -> float:
        """When a packet of nobody's connection yet arrives."""
        cut = self._cuts.get((source, target))
        sent_at = self.world.now if cut is None else cut.until
        return sent_at + self.world.uniform(*self.latency_s)

    # --- connections -----------------------------------------------------------------------

    def listen(self, socket: ListeningSocket, place: Place) -> Place:
        """Bind a socket; OSError if the place is taken."""
        if not place[1]:
            self._ports += 1
            place = place[0], self._ports
        if place in self._listening:
            raise OSError(errno.EADDRINUSE, "address already in use (simulated)")
        self._listening[place] = socket
        return place

    @property
    def listening(self) -> list[ListeningSocket]:
        return list(self._listening.values())

    def forget(self, place: Place) -> None:
        """Nobody listens there any more."""
        self._listening.pop(place, None)

    def dial(self, process: SimProcess, place: Place, found: asyncio.Future[TcpEnd]) -> None:
        """Connect; ``found`` gets our end, or why there is none."""
        self._ports += 1
        capacity = self.world.integer(*self.capacity)
        ours = TcpEnd(self, process, (process.host, self._ports), capacity)
        begun = self.world.now
        self.world.note(process.name, f"dials {place[0]}:{place[1]}")

        def give_up(done: asyncio.Future[TcpEnd]) -> None:
            if done.cancelled():
                ours.close()

        found.add_done_callback(give_up)
        self._knock(ours, place, found, begun)

    def _knock(
        self, ours: TcpEnd, place: Place, found: asyncio.Future[TcpEnd], begun: float
    ) -> None:
        """A first packet; it is repeated where nobody answers."""
        there_at = self._arrives_at(ours.place[0], place[0])
        if there_at > begun + DIAL_LIMIT_S:
            error = TimeoutError(errno.ETIMEDOUT, "connection timed out (simulated)")
            self.world.at(begun + DIAL_LIMIT_S, self._dialed, ours, found, error)
        else:
            self.world.at(there_at, self._knocked, ours, place, found, begun)

    def _knocked(
        self, ours: TcpEnd, place: Place, found: asyncio.Future[TcpEnd], begun: float
    ) -> None:
        if not self.is_up(place[0]):
            self.world.after(1.0, self._knock, ours, place, found, begun)
            return
        back_at = self._arrives_at(place[0], ours.place[0])
        listening = self._listening.get(place)
        if listening is None or listening.process.is_dead:
            error = ConnectionRefusedError(errno.ECONNREFUSED, "connection refused (simulated)")
            self.world.at(back_at, self._dialed, ours, found, error)
        elif listening.is_full:
            self.world.after(1.0, self._knock, ours, place, found, begun)
        elif not ours.is_closed:
            capacity = self.world.integer(*self.capacity)
            theirs = TcpEnd(self, listening.process, place, capacity)
            ours.peer, theirs.peer = theirs, ours
            theirs.arrival(back_at)
            self.connections[ours.number] = ours
            listening.arrived(theirs)
            self.world.at(back_at, self._dialed, ours, found, None)

    def _dialed(self, ours: TcpEnd, found: asyncio.Future[TcpEnd], error: OSError | None) -> None:
        """The answer is here; the process sees it when it runs."""

        def tell() -> None:
            if found.done():
                return
            if error is None:
                found.set_result(ours)
            else:
                found.set_exception(error)

        if error is not None:
            ours.is_closed = True
            ours.process.endpoints.pop(ours.number, None)
        loop = found.get_loop()
        loop.call_soon(tell, context=ours.process.context)

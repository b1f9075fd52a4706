"""Simulated links and the connections over them: latency, order, loss with a dropped connection.

A connection delivers in order and without loss until it is dropped; then everything on its way
vanishes and both ends learn of it a moment later, as with TCP. A partition makes messages wait,
as TCP's retransmission would; a delay spike makes them late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pubweave.model.messages.session import Message
from pubweave.sim.kernel.world import World

NOTICE_DELAY_S = 0.05
"""The longest time until an end notices that its connection was dropped."""


class Endpoint(Protocol):
    """A broker or client of the simulation, as seen by the network."""

    name: str

    def opened(self, connection: SimConnection) -> None: ...

    def received(self, connection: SimConnection, messages: Sequence[Message]) -> None: ...

    def closed(self, connection: SimConnection) -> None: ...

    def is_up(self) -> bool: ...


@dataclass
class SimLink:
    """A path between two endpoints; outlives the connections over it."""

    latency_s: float
    extra_s: float = 0.0
    """A delay spike's addition."""
    cut_until: float = 0.0
    """While a partition lasts, nothing arrives."""
    connection: SimConnection | None = None

    def arrival(self, now: float) -> float:
        cut_until = self.cut_until
        return (now if now > cut_until else cut_until) + self.latency_s + self.extra_s


class SimConnection:
    """One connection. ``ends`` are the dialer and the acceptor; each may close it once."""

    def __init__(self, number: int, link: SimLink, dialer: Endpoint, acceptor: Endpoint) -> None:
        self.number = number
        self.link = link
        self.ends = (dialer, acceptor)
        self.is_dropped = False
        self.left: set[str] = set()
        self.last_arrival = {dialer.name: 0.0, acceptor.name: 0.0}

    def far_end(self, near: Endpoint) -> Endpoint:
        return self.ends[1] if near is self.ends[0] else self.ends[0]


class Network:
    """All connections of a run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.in_flight = 0
        self.drops = 0
        self.tells_refusals = False
        """Machines outlive their brokers, and say that nobody listens there any more."""
        self._numbers = 0

    def dial(self, link: SimLink, dialer: Endpoint, acceptor: Endpoint) -> bool:
        """Open a connection; False where nobody would answer."""
        world = self.world
        if not acceptor.is_up() or world.now < link.cut_until:
            return False
        self._numbers += 1
        connection = SimConnection(self._numbers, link, dialer, acceptor)
        link.connection = connection
        there = link.arrival(world.now)
        world.at(there, self._open, connection, acceptor)
        world.at(there + link.latency_s, self._open, connection, dialer)
        connection.last_arrival[acceptor.name] = there
        connection.last_arrival[dialer.name] = there + link.latency_s
        return True

    def _open(self, connection: SimConnection, end: Endpoint) -> None:
        if connection.is_dropped or connection.left:
            return
        if not end.is_up():
            self.drop(connection)
            return
        end.opened(connection)

    def send(
        self, connection: SimConnection, sender: Endpoint, messages: Sequence[Message]
    ) -> None:
        if connection.is_dropped or sender.name in connection.left:
            return
        receiver = connection.far_end(sender)
        arrival = connection.link.arrival(self.world.now)
        last = connection.last_arrival[receiver.name]
        if arrival < last:
            arrival = last  # in order
        connection.last_arrival[receiver.name] = arrival
        self.in_flight += 1
        self.world.at(arrival, self._arrive, connection, receiver, messages)

    def _arrive(
        self, connection: SimConnection, receiver: Endpoint, messages: Sequence[Message]
    ) -> None:
        self.in_flight -= 1
        if not connection.is_dropped and receiver.name not in connection.left:
            receiver.received(connection, messages)

    def close(self, connection: SimConnection, closer: Endpoint) -> None:
        """One end closes: what it sent still arrives, then the other end learns of it."""
        if connection.is_dropped or closer.name in connection.left:
            return
        connection.left.add(closer.name)
        other = connection.far_end(closer)
        self.world.after(0.0, closer.closed, connection)
        last = max(connection.link.arrival(self.world.now), connection.last_arrival[other.name])
        self.world.at(last, self._learn, connection, other)

    def _learn(self, connection: SimConnection, end: Endpoint) -> None:
        if end.name not in connection.left and not connection.is_dropped:
            connection.left.add(end.name)
            end.closed(connection)

    def drop(self, connection: SimConnection) -> None:
        """The connection dies with everything on its way."""
        if connection.is_dropped:
            return
        connection.is_dropped = True
        self.drops += 1
        for end in connection.ends:
            if end.name not in connection.left:
                delay_s = self.world.uniform(0.0, NOTICE_DELAY_S)
                self.world.after(delay_s, end.closed, connection)

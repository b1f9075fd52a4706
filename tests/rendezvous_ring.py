"""Control planes of a rendezvous overlay without brokers: messages arrive at once, links stand
wherever both ends live."""

from __future__ import annotations

from collections import deque
from functools import partial

from pubweave.core.config.rendezvous import RendezvousConfig
from pubweave.core.routing.rendezvous.control_plane import ControlPlane
from pubweave.model.messages.rendezvous import ChordMessage, Occupant, TreeMessage
from pubweave.model.messages.session import SequencedMessage

STEP_S = 0.5


class Planes:
    """All planes of one version, by broker; time passes in rounds."""

    def __init__(self, successors: int = 4) -> None:
        self.config = RendezvousConfig(
            successors=successors,
            stabilize_every_s=0.5,
            fingers_every_s=2.0,
            refresh_s=2.0,
            expire_after_s=6.5,
        )
        self.now = 0.0
        self.planes: dict[str, ControlPlane] = {}
        self.links: dict[str, set[str]] = {}
        self.lost: dict[str, set[str]] = {}
        self.subscribed: dict[str, set[str]] = {}
        self.offered: dict[str, set[str]] = {}
        self.messages = 0
        self._queue: deque[tuple[str, str, ChordMessage | TreeMessage]] = deque()

    def join(self, broker: str, position: int, contact: str | None = None) -> None:
        self.links[broker], self.lost[broker] = set(), set()
        self.subscribed[broker], self.offered[broker] = set(), set()
        self.planes[broker] = ControlPlane(
            1,
            Occupant(position, broker),
            self.config,
            send=partial(self._tell, broker),
            is_lost=lambda other: other in self.lost[broker],
            linked=lambda: sorted(self.links[broker]),
            askers=lambda topic: [
                other
                for other, plane in self.planes.items()
                if broker in plane.trees.wanted_from(topic)
            ],
        )
        if contact is not None:
            self._link(broker, contact)

    def crash(self, broker: str) -> None:
        """Its neighbors notice at once."""
        del self.planes[broker]
        for other in self.planes:
            if broker in self.links[other]:
                self.links[other].discard(broker)
                self.lost[other].add(broker)
                self.planes[other].lost(broker, self.now)

    def leave(self, broker: str) -> None:
        """It says so, and is gone when everybody has heard it."""
        self.planes[broker].chord.leave()
        self._deliver()
        self.crash(broker)

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.now += STEP_S
            for broker, plane in list(self.planes.items()):
                plane.chord.check(self.now)
                for other in plane.table.needed():
                    self._link(broker, other)
                plane.trees.check(self.now, self.subscribed[broker], self.offered[broker])
                self._deliver()

    def _link(self, one: str, other: str) -> None:
        if other in self.links[one]:
            return
        if other not in self.planes:
            self.lost[one].add(other)
            self.planes[one].lost(other, self.now)
            return
        self.links[one].add(other)
        self.links[other].add(one)
        self.planes[one].chord.greet(other)
        self.planes[other].chord.greet(one)

    def _tell(self, sender: str, receiver: str, message: SequencedMessage) -> None:
        if receiver in self.links[sender]:
            assert isinstance(message, ChordMessage | TreeMessage)
            self._queue.append((sender, receiver, message))

    def _deliver(self) -> None:
        while self._queue:
            sender, receiver, message = self._queue.popleft()
            self.messages += 1
            if sender in self.links.get(receiver, ()) and receiver in self.planes:
                self.planes[receiver].receive(sender, message, self.now)

    def ids(self) -> list[int]:
        return sorted(plane.table.own.position for plane in self.planes.values())

    def order(self) -> list[str]:
        """Brokers by position."""
        return sorted(self.planes, key=lambda name: self.planes[name].table.own.position)

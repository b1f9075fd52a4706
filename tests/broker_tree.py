"""A tree of broker and client cores whose messages arrive when a test wants them to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pubweave.core.broker import Broker
from pubweave.core.client import ClientCore
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.vocabulary.effects import Effect, Notify, ReportGap, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    Event,
    LinkAdded,
    MessagesReceived,
)
from pubweave.model.messages.session import Message

End = tuple[str, int]
"""Who, and over which connection."""


@dataclass
class Subscriber:
    """What a client was given, in order."""

    core: ClientCore
    got: list[tuple[str, int]] = field(default_factory=list)
    gaps: list[ReportGap] = field(default_factory=list)


class BrokerTree:
    """``links`` are pairs of brokers; ``homes`` says at which broker each client is."""

    def __init__(self, links: list[tuple[str, str]], homes: dict[str, str], **config: Any) -> None:
        self.now = 1.0
        self.under_way: dict[End, deque[list[Message]]] = {}
        """Batches by the end that they are for."""
        self._peers: dict[End, End] = {}
        self._connections = 0
        self._links = links
        self._config = config
        self.homes = homes
        names = dict.fromkeys([name for link in links for name in link] + [*homes.values()])
        self.brokers: dict[str, Broker] = {}
        for name in names:
            self.start(name, epoch=1)
        self.clients = {name: Subscriber(ClientCore(name, epoch=7, now=self.now)) for name in homes}
        for link in links:
            self.connect(*link)
        for name, home in homes.items():
            self.connect(name, home)
        self.settle()

    def start(self, name: str, epoch: int) -> None:
        """A broker without any state."""
        config = BrokerConfig(name, **self._config)
        self.brokers[name] = Broker(config, epoch=epoch, now=self.now)
        for link in self._links:
            if name in link:
                self.handle(name, LinkAdded(link[0] if link[1] == name else link[1]))

    def connect(self, one: str, other: str) -> None:
        """``one`` dials; an earlier connection between them is gone, with what was under way."""
        self.cut(one, other)
        ends = (one, self._connections + 1), (other, self._connections + 2)
        self._connections += 2
        for end, peer in (ends, ends[::-1]):
            self._peers[end] = peer
            self.under_way[end] = deque()
        is_link = one in self.brokers
        self.handle(other, ConnectionOpened(ends[1][1]))
        self.handle(one, ConnectionOpened(ends[0][1], other if is_link else None))

    def cut(self, one: str, other: str) -> None:
        for end, peer in list(self._peers.items()):
            if {end[0], peer[0]} == {one, other}:
                del self._peers[end], self.under_way[end]
                self.handle(end[0], ConnectionClosed(end[1]))

    def restart(self, name: str) -> None:
        """A broker crashes and comes back without its state."""
        neighbors = [peer[0] for end, peer in self._peers.items() if end[0] == name]
        for neighbor in neighbors:
            self.cut(name, neighbor)
        self.start(name, epoch=self.brokers[name].sessions._next_epoch + 1_000_000)
        for neighbor in neighbors:
            self.connect(neighbor, name)

    def handle(self, name: str, event: Event) -> None:
        node: Any = self.brokers.get(name)
        if node is None:
            node = self.clients[name].core
        self.carry_out(name, node.handle(event, self.now))

    def carry_out(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Transmit):
                peer = self._peers.get((name, effect.connection))
                if peer is not None:
                    self.under_way[peer].append(list(effect.messages))
            elif isinstance(effect, Notify):
                self.clients[name].got += [p.key for p in effect.publications]
            elif isinstance(effect, ReportGap):
                self.clients[name].gaps.append(effect)

    def flush(self, client: str) -> None:
        self.carry_out(client, self.clients[client].core.flush())

    def arrive(self, rng: Random) -> bool:
        """Let some batch arrive; False if none is under way."""
        ends = [end for end, batches in self.under_way.items() if batches]
        if ends:
            end = rng.choice(ends)
            batch = self.under_way[end].popleft()
            self.handle(end[0], MessagesReceived(end[1], batch, self.now))
        return bool(ends)

    def tick(self, seconds: float) -> None:
        self.now += seconds
        for name in (*self.brokers, *self.clients):
            self.handle(name, DeadlineReached())

    def settle(self, seconds: float = 3.0) -> None:
        """Let everything arrive."""
        rng, end = Random(0), self.now + seconds
        while self.now < end:
            while self.arrive(rng):
                pass
            self.tick(0.5)

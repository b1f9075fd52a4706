"""Two brokers that dial each other at once: one of the two connections stays, at both ends."""

from __future__ import annotations

from itertools import permutations

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.vocabulary.effects import CloseConnection, Effect, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    Event,
    LinkAdded,
    MessagesReceived,
)

FROM_SMALL, FROM_LARGE = 1, 2
"""The connections, by who has dialed."""


class Crossing:
    """Brokers b1 and b2, and what is under way between them, by receiver and connection."""

    def __init__(self) -> None:
        self.brokers = {
            name: Broker(BrokerConfig(name, strategy="topic_connected"), epoch=number, now=0.0)
            for number, name in ((1 << 20, "b1"), (2 << 20, "b2"))
        }
        self.closed: set[int] = set()
        self.wire: list[tuple[str, Event]] = []
        for name, other in (("b1", "b2"), ("b2", "b1")):
            self.brokers[name].handle(LinkAdded(other), 0.0)
        for dialer, acceptor, connection in (("b1", "b2", FROM_SMALL), ("b2", "b1", FROM_LARGE)):
            self.take(acceptor, ConnectionOpened(connection))
            self.take(dialer, ConnectionOpened(connection, acceptor))

    def take(self, name: str, event: Event) -> None:
        other = "b2" if name == "b1" else "b1"
        for effect in self.brokers[name].handle(event, 0.1):
            self._carry_out(other, effect)

    def _carry_out(self, other: str, effect: Effect) -> None:
        if isinstance(effect, Transmit) and effect.connection not in self.closed:
            event = MessagesReceived(effect.connection, effect.messages, 0.1)
            self.wire.append((other, event))
        elif isinstance(effect, CloseConnection):
            self.closed.add(effect.connection)
            self.wire.append((other, ConnectionClosed(effect.connection)))

    def run(self) -> None:
        while self.wire:
            self.take(*self.wire.pop(0))


@pytest.mark.parametrize("order", list(permutations(range(2))))
def test_the_connection_of_the_smaller_id_stays(order: tuple[int, ...]) -> None:
    crossing = Crossing()
    crossing.wire = [crossing.wire[place] for place in order]
    crossing.run()
    assert crossing.closed == {FROM_LARGE}
    for name, other in (("b1", "b2"), ("b2", "b1")):
        session = crossing.brokers[name].sessions.links[other]
        assert session.is_established
        assert session.connection == FROM_SMALL

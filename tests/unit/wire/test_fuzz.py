"""Nonsense from clients and neighbors: refused by name, and nobody else notices.

`fuzz/run_attacks.py` does the same for long, over sockets."""

from __future__ import annotations

import random

import pytest
from fuzz.fuzz_frames import Fuzzer

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.vocabulary.effects import CloseConnection, Effect, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionOpened,
    DeadlineReached,
    LinkAdded,
    MessagesReceived,
)
from pubweave.model.filters.filter import topic_filter
from pubweave.model.messages.session import PROTOCOL_VERSION, Advertise, Hello, Role, Subscribe
from pubweave.model.publications import Publication, make_publication
from pubweave.wire.codec import FrameDecoder, FrameError

GOOD_PUBLISHER, GOOD_SUBSCRIBER = 1, 2


class Target:
    """A broker with two good clients and somebody else."""

    def __init__(self, strategy: str = "tree") -> None:
        self.broker = Broker(BrokerConfig("b1", strategy=strategy), epoch=9, now=0.0)
        self.now = 0.0
        self.sequence = 0
        self._connections = 2
        self.broker.handle(LinkAdded("b2"), 0.0)
        for number, client in ((GOOD_PUBLISHER, "p"), (GOOD_SUBSCRIBER, "s")):
            self.broker.handle(ConnectionOpened(number), 0.0)
            self._give(number, self._hello(client, Role.CLIENT))

        self._give(GOOD_SUBSCRIBER, Subscribe("s:1", topic_filter("good")))
        self._give(GOOD_PUBLISHER, Advertise("p:1", topic_filter("good")))
        # b2 is not there to answer: the publisher waits no longer than this.
        self.now += BrokerConfig.publisher_wait_s
        self.broker.handle(DeadlineReached(), self.now)

    def _hello(self, id_: str, role: Role) -> Hello:
        routing = self.broker.routing.protocol
        return Hello(PROTOCOL_VERSION, role, id_, 5, 0, 0, 1 << 20, routing=routing)

    def _give(self, connection: int, *messages: object) -> list[Effect]:
        self.now += 0.01
        return self.broker.handle(
            MessagesReceived(connection, messages, self.now),  # type: ignore[arg-type]
            self.now,
        )

    def attack(self, role: Role, fuzzer: Fuzzer, count: int) -> None:
        """One connection that says nonsense until it is closed."""
        self._connections += 1
        number = self._connections
        self.broker.handle(ConnectionOpened(number), self.now)
        name = "b2" if role is Role.BROKER else "evil"
        hello = self._hello(name, role)
        # A newer incarnation each time, or it would be taken for outdated.
        self._give(number, Hello(*(*_fields(hello)[:3], 5 + number, *_fields(hello)[4:])))
        for _ in range(count):
            message = fuzzer.message()
            if message is None:
                continue
            effects = self._give(number, message)
            if any(isinstance(e, CloseConnection) and e.connection == number for e in effects):
                return
        self.now += 1.0
        self.broker.handle(DeadlineReached(), self.now)

    def deliver(self) -> bool:
        """Whether a good publication reaches the good subscriber."""
        self.sequence += 1
        publication = make_publication("p", self.sequence, "good", {}, b"", self.now)
        effects = self._give(GOOD_PUBLISHER, publication)
        return any(
            isinstance(effect, Transmit)
            and effect.connection == GOOD_SUBSCRIBER
            and any(isinstance(m, Publication) and m.publisher == "p" for m in effect.messages)
            for effect in effects
        )


def _fields(hello: Hello) -> tuple[object, ...]:
    return tuple(getattr(hello, name) for name in hello.__struct_fields__)


@pytest.mark.parametrize("seed", range(3))
def test_broken_bytes_are_frame_errors_and_nothing_else(seed: int) -> None:
    fuzzer = Fuzzer(random.Random(seed))
    errors = 0
    for _ in range(600):
        data = fuzzer.frame()
        decoder = FrameDecoder()
        try:
            for at in range(0, len(data), 7):
                decoder.feed(data[at : at + 7])
        except FrameError:
            errors += 1
    assert errors > 50


@pytest.mark.parametrize("strategy", ["tree", "topic_connected"])
@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("seed", range(3))
def test_well_formed_nonsense_never_breaks_the_broker(role: Role, strategy: str, seed: int) -> None:
    target = Target(strategy)
    fuzzer = Fuzzer(random.Random(seed))
    for _ in range(40):
        target.attack(role, fuzzer, 20)
        assert target.deliver(), "a good client noticed"

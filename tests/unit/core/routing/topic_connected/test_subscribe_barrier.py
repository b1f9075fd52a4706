"""Subscriptions are acknowledged when their topic is connected, or after a limit."""

from __future__ import annotations

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.effects import Transmit
from pubweave.core.vocabulary.events import (
    ConnectionOpened,
    DeadlineReached,
    LinkAdded,
    MessagesReceived,
)
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import Ack, Hello, Message, Ping, Role, Subscribe
from pubweave.model.messages.topic_connected import TOPIC_PROTOCOL, BrokerRecord, TopicOpened
from pubweave.model.publications import make_publication

ANN, NORTH = 1, 2


class Setup:
    """Broker b1, and client ann, who has subscribed to x and asks for acknowledgements."""

    def __init__(self, *neighbors: str) -> None:
        self.broker = Broker(BrokerConfig("b1", strategy="topic_connected"), epoch=1, now=0.0)
        for neighbor in neighbors:
            self.broker.handle(LinkAdded(neighbor), 0.0)
        self.sent: list[tuple[int, Message]] = []
        self.connect(ANN, Role.CLIENT, "ann", now=0.0)
        self.take(ANN, Subscribe("ann:1", parse_filter("class = 'x'")), Ping(0.0), now=0.0)

    def connect(self, connection: int, role: Role, name: str, now: float) -> None:
        """Somebody dials and says Hello."""
        self.broker.handle(ConnectionOpened(connection), now)
        far = Session("b1", own_epoch=1 << 30, is_client=False, limits=SessionLimits())
        self.take(connection, far.hello(role, name, routing=TOPIC_PROTOCOL), now=now)

    def take(self, connection: int, *messages: Message, now: float) -> None:
        self._note(MessagesReceived(connection, messages, now), now)

    def wait_until(self, now: float) -> None:
        """Every deadline up to an instant."""
        while (due := self.broker.next_deadline()) <= now:
            self._note(DeadlineReached(), max(due, 0.0))

    def _note(self, event: MessagesReceived | DeadlineReached, now: float) -> None:
        for effect in self.broker.handle(event, now):
            if isinstance(effect, Transmit):
                self.sent += [(effect.connection, message) for message in effect.messages]

    @property
    def acknowledged(self) -> int:
        """How many of ann's messages."""
        return max([m.received for to, m in self.sent if to == ANN and type(m) is Ack], default=0)

    @property
    def given_up(self) -> int:
        assert self.broker.part(OverlayRepair) is not None
        return self.broker.part(OverlayRepair).waits.given_up


def test_a_topic_of_nobody_else_is_connected_at_once() -> None:
    setup = Setup()
    setup.wait_until(0.01)
    assert (setup.acknowledged, setup.given_up) == (1, 0)


def test_a_neighbor_that_has_yet_to_come_is_waited_for_but_not_for_ever() -> None:
    """It may know others who take part."""
    setup = Setup("b0")
    setup.wait_until(1.9)
    assert setup.acknowledged == 0
    setup.wait_until(2.3)
    assert (setup.acknowledged, setup.given_up) == (1, 1)


def test_it_is_acknowledged_when_neighbors_say_that_they_send_all() -> None:
    setup = Setup("b0")
    setup.connect(NORTH, Role.BROKER, "b0", now=0.1)
    record = BrokerRecord("b0", "", 1, 1, topics=("x",), links=("b1",))
    setup.take(NORTH, record, now=0.2)
    setup.wait_until(0.3)
    assert setup.acknowledged == 0
    setup.take(NORTH, TopicOpened("x", 1), now=0.3)
    assert (setup.acknowledged, setup.given_up) == (1, 0)


def test_the_second_subscription_to_a_topic_waits_for_nothing() -> None:
    setup = Setup()
    setup.wait_until(0.01)
    setup.take(ANN, Subscribe("ann:2", parse_filter("class = 'x' and v > 1")), Ping(1.0), now=1.0)
    assert setup.acknowledged == 2


def test_a_client_that_comes_from_elsewhere_gets_what_is_kept_and_a_new_one_does_not() -> None:
    for remote_epoch, expected in ((0, []), (77, [1, 2])):
        setup = Setup()
        setup.wait_until(0.1)
        routing = setup.broker.routing
        log = routing.logs["x"]  # type: ignore[attr-defined]
        for sequence in (1, 2):
            publication = make_publication("p", sequence, "x", {}, b"", 0.0)
            routing.logs.append(log, publication, 0.1)  # type: ignore[attr-defined]
        setup.broker.handle(ConnectionOpened(3), 0.2)
        far = Session("b1", own_epoch=5, is_client=False, limits=SessionLimits())
        far.remote_epoch = remote_epoch
        hello: Hello = far.hello(Role.CLIENT, "bob")
        subscribe = Subscribe("bob:1", parse_filter("class = 'x'"))
        setup.take(3, hello, subscribe, now=0.2)
        got = [m.sequence for to, m in setup.sent if to == 3 and hasattr(m, "sequence")]
        assert got == expected

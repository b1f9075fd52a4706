"""A broker or client that did not run judges nobody by that time."""

from __future__ import annotations

from pubweave.core.broker import Broker
from pubweave.core.client import ClientCore
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.vocabulary.effects import CloseConnection, Effect, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    LinkAdded,
    LocalPauseEnded,
    MessagesReceived,
)
from pubweave.model.messages.session import PROTOCOL_VERSION, Hello, Message, Ping, Role


def hello(role: Role, name: str) -> Hello:
    return Hello(PROTOCOL_VERSION, role, name, 7, 0, 0, 1 << 20, 0, "tree", 1)


def broker() -> Broker:
    made = Broker(BrokerConfig("b1"), epoch=1, now=0.0)
    made.handle(LinkAdded("b2"), 0.0)
    for connection, who in ((1, hello(Role.BROKER, "b2")), (2, hello(Role.CLIENT, "ann"))):
        made.handle(ConnectionOpened(connection), 0.0)
        made.handle(MessagesReceived(connection, [who], 0.0), 0.0)
    return made


def closed(effects: list[Effect]) -> list[int]:
    return [e.connection for e in effects if isinstance(e, CloseConnection)]


def said(effects: list[Effect]) -> list[Message]:
    return [m for e in effects if isinstance(e, Transmit) for m in e.messages]


def test_a_neighbor_is_silent_if_we_listened() -> None:
    assert closed(broker().handle(DeadlineReached(), 45.0)) == [1]


def test_a_neighbor_is_not_silent_if_we_slept() -> None:
    awake = broker()
    awake.handle(LocalPauseEnded(44.0), 45.0)
    effects = awake.handle(DeadlineReached(), 45.0)
    assert closed(effects) == []
    assert any(isinstance(m, Ping) for m in said(effects))
    assert closed(awake.handle(DeadlineReached(), 61.0)) == [1], "from now on it counts again"


def test_a_client_that_could_not_come_back_is_not_away_for_too_long() -> None:
    asleep = broker()
    asleep.handle(ConnectionClosed(2), 1.0)
    asleep.handle(LocalPauseEnded(120.0), 122.0)
    asleep.handle(DeadlineReached(), 122.0)
    assert "ann" in asleep.sessions.clients
    asleep.handle(DeadlineReached(), 183.0)
    assert "ann" not in asleep.sessions.clients
    assert asleep.counters.clients_expired == 1


def test_a_connection_has_its_time_to_say_hello() -> None:
    asleep = broker()
    asleep.handle(ConnectionOpened(3), 1.0)
    asleep.handle(LocalPauseEnded(44.0), 46.0)
    assert 3 not in closed(asleep.handle(DeadlineReached(), 46.0))


def test_a_client_that_slept_does_not_give_its_broker_up() -> None:
    client = ClientCore("ann", epoch=1, now=0.0)
    client.handle(ConnectionOpened(1), 0.0)
    client.handle(LocalPauseEnded(44.0), 45.0)
    assert closed(client.handle(DeadlineReached(), 45.0)) == []
    assert closed(client.handle(DeadlineReached(), 65.0)) == [1]

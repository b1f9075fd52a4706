"""A cluster that no gateway connects with the ring keeps what it publishes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.topic_connected import TopicConfig
from pubweave.core.routing.topic_connected.gateway import RingGateway
from pubweave.core.session.session import Session, SessionLimits
from pubweave.core.vocabulary.effects import Transmit
from pubweave.core.vocabulary.events import (
    ConnectionOpened,
    DeadlineReached,
    LinkAdded,
    MessagesReceived,
)
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.model.messages.session import Ack, Advertise, Goodbye, Message, Role
from pubweave.model.messages.topic_connected import (
    BrokerRecord,
    TopicOpened,
    TopicUnwanted,
    TopicWanted,
)
from pubweave.model.publications import Publication, make_publication

KEEP_S, FORGET_S = 30.0, 300.0


def gateway_of(*ring: str) -> RingGateway:
    topics = TopicConfig(ring=ring, keep_s=KEEP_S, forget_after_s=FORGET_S)
    inside: Any = SimpleNamespace(
        config=BrokerConfig("plain", strategy="topic_connected", topics=topics),
        sessions=SimpleNamespace(links={}, dialed={}),
        routing=SimpleNamespace(asked={}, beyond=None, now=0.0),
    )
    made = RingGateway(inside)
    made.links = SimpleNamespace(check=lambda now: None, excuse=lambda s: None)  # type: ignore[assignment]
    return made


def look(gateway: RingGateway, now: float, *, is_linked: bool) -> None:
    other = BrokerRecord("other", "", 1, 0, is_gateway=is_linked)
    gateway.check({"other": other}, is_leaving=False, now=now)


def test_everybody_keeps_for_the_ring_once_its_gateway_is_lost() -> None:
    plain = gateway_of()
    look(plain, 0.0, is_linked=True)
    assert not plain.keeps_all(0.0)
    look(plain, 10.0, is_linked=False)
    look(plain, 200.0, is_linked=False)
    assert plain.keeps_all(200.0)
    look(plain, 201.0, is_linked=True)
    assert plain.keeps_all(229.0), "the gateway that is back has time to ask for what it lacks"
    assert not plain.keeps_all(231.0)


@pytest.mark.parametrize(("ring", "keeps"), [((), False), (("r",), True)])
def test_who_is_told_of_a_ring_keeps_for_as_long_as_it_takes(
    ring: tuple[str, ...], keeps: bool
) -> None:
    gateway = gateway_of(*ring)
    look(gateway, 0.0, is_linked=True)
    look(gateway, FORGET_S + 1.0, is_linked=False)
    assert gateway.keeps_all(FORGET_S + 1.0) is keeps


def test_a_cluster_that_never_had_a_gateway_keeps_nothing_for_a_ring() -> None:
    plain = gateway_of()
    look(plain, 5.0, is_linked=False)
    assert not plain.keeps_all(5.0)


def test_a_sleep_does_not_shorten_what_is_kept() -> None:
    plain = gateway_of()
    look(plain, 0.0, is_linked=True)
    look(plain, 10.0, is_linked=False)
    plain.excuse(100.0)
    assert plain.keeps_all(139.0)


class Cluster:
    """The only broker of a cluster, told of broker r of the ring, with a client that publishes."""

    def __init__(self) -> None:
        topics = TopicConfig(ring=("r",), keep_s=KEEP_S, forget_after_s=FORGET_S)
        config = BrokerConfig("b", strategy="topic_connected", topics=topics)
        self.broker = Broker(config, epoch=1, now=0.0)
        self.broker.handle(LinkAdded("r"), 0.0)
        self.sent: list[Message] = []

    def take(self, connection: int, *messages: Message, now: float) -> None:
        self._note(MessagesReceived(connection, messages, now), now)

    def meet(self, connection: int, role: Role, name: str, routing: str, now: float) -> None:
        self.broker.handle(ConnectionOpened(connection), now)
        far = Session("b", own_epoch=1 << 30, is_client=False, limits=SessionLimits())
        self.take(connection, far.hello(role, name, routing=routing), now=now)

    def wait_until(self, now: float) -> None:
        while (due := self.broker.next_deadline()) <= now:
            self._note(DeadlineReached(), max(due, 0.0))

    def _note(self, event: MessagesReceived | DeadlineReached, now: float) -> None:
        for effect in self.broker.handle(event, now):
            if isinstance(effect, Transmit):
                self.sent += effect.messages

    @property
    def topics(self) -> dict[str, None]:
        return self.broker.routing.topics  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("away_s", [5.0, 2 * KEEP_S])
def test_what_a_client_published_that_has_left_crosses_when_the_ring_is_there(
    away_s: float,
) -> None:
    cluster = Cluster()
    cluster.meet(1, Role.CLIENT, "ann", "", 0.1)
    published = make_publication("ann", 1, "x", {}, b"", 0.1)
    cluster.take(
        1, Advertise("ann:1", parse_filter("class = 'x'")), published, Goodbye(""), now=0.1
    )
    cluster.wait_until(away_s)
    assert "x" in cluster.topics
    cluster.meet(2, Role.BROKER, "r", RENDEZVOUS_PROTOCOL, away_s)
    cluster.wait_until(away_s + 3.0)
    assert [m.topic for m in cluster.sent if isinstance(m, TopicWanted)] == ["x"]
    assert not [m for m in cluster.sent if isinstance(m, Publication)]
    cluster.take(2, TopicOpened("x", 1), TopicWanted("x", 1), now=away_s + 3.0)
    assert [m.key for m in cluster.sent if isinstance(m, Publication)] == [("ann", 1)]
    told = (TopicOpened, TopicWanted, Publication)
    cluster.take(2, Ack(sum(isinstance(m, told) for m in cluster.sent)), now=away_s + 3.1)
    cluster.wait_until(away_s + 4.0)
    assert not cluster.topics
    assert isinstance(cluster.sent[-1], TopicUnwanted)

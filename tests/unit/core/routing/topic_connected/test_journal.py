"""Brokers that route by topic come back: time stood still for them, and others see them anew."""

from __future__ import annotations

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.journal.recovery import come_back
from pubweave.core.journal.snapshot import restore_broker, take_snapshot
from pubweave.core.routing.rendezvous.maintenance import RendezvousMaintenance
from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.effects import Effect, OpenLink, ReportRemap
from pubweave.core.vocabulary.events import (
    AddressKnown,
    ConnectionOpened,
    DeadlineReached,
    LeaveRequested,
    LinkAdded,
    MessagesReceived,
    RemapAnnounced,
)
from pubweave.model.deployment import RemapStep
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.rendezvous import Occupant
from pubweave.model.messages.session import Advertise, Hello, Message, Role, Subscribe
from pubweave.model.messages.topic_connected import TOPIC_PROTOCOL, BrokerRecord
from pubweave.model.publications import make_publication

ANN, PETE, NORTH = 1, 2, 3
WANTED = parse_filter("class = 'x'")
AWAY_S = 1000.0
"""Longer than anything is kept, waited for or remembered."""
STRATEGIES = ("topic_connected", "rendezvous")


def hello(name: str, role: Role) -> Hello:
    far = Session("b1", own_epoch=1 << 30, is_client=False, limits=SessionLimits())
    return far.hello(role, name, routing=TOPIC_PROTOCOL)


def pass_time(broker: Broker, until: float) -> list[Effect]:
    """Every deadline up to an instant."""
    effects: list[Effect] = []
    while (due := broker.next_deadline()) <= until:
        effects += broker.handle(DeadlineReached(), max(due, 0.0))
    return effects


def lived(strategy: str) -> Broker:
    """A broker with a subscriber and a publisher, which has published twice."""
    broker = Broker(BrokerConfig("b1", strategy=strategy), epoch=100, now=0.0)
    broker.handle(AddressKnown("here:1"), 0.0)
    broker.handle(LinkAdded("b2"), 0.0)

    def give(connection: int, *messages: Message) -> None:
        broker.handle(MessagesReceived(connection, messages, 0.1), 0.1)

    for connection, name in ((ANN, "ann"), (PETE, "pete")):
        broker.handle(ConnectionOpened(connection), 0.1)
        give(connection, hello(name, Role.CLIENT))
    give(ANN, Subscribe("ann:1", WANTED))
    give(PETE, Advertise("pete:1", WANTED))
    if strategy == "topic_connected":
        broker.handle(ConnectionOpened(NORTH), 0.1)
        give(NORTH, hello("b2", Role.BROKER), BrokerRecord("b2", "there:2", 7, 1))
        give(NORTH, BrokerRecord("b0", "afar:0", 7, 1, links=("b1",)))
    give(PETE, *[make_publication("pete", n, "x", {}, b"", 0.1) for n in (1, 2)])
    pass_time(broker, 2.0)
    return broker


def returned(broker: Broker) -> tuple[Broker, list[Effect]]:
    """The same broker after a kill, a long time away and its start."""
    snapshot = take_snapshot(broker)
    again = restore_broker(snapshot, broker.config, epoch=1, now=AWAY_S)
    effects = come_back(again, epoch=1 << 40, now=AWAY_S)
    return again, effects


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_it_keeps_for_others_is_kept_for_as_long_as_if_it_had_not_been_away(
    strategy: str,
) -> None:
    broker, _ = returned(lived(strategy))
    assert isinstance(broker.routing, TopicRouting)
    log = broker.routing.logs["x"]
    pass_time(broker, AWAY_S + 10.0)
    assert [publication.sequence for _, publication, _ in log.kept] == [1, 2]
    assert log.marks == {"pete": 2}
    assert set(broker.sessions.clients) == {"ann", "pete"}
    pass_time(broker, AWAY_S + broker.config.topics.forget_after_s + 40.0)
    left = broker.routing.logs.get("x")
    assert left is None or not left.kept


def test_it_knows_the_map_and_is_there_again_as_another_incarnation() -> None:
    broker, effects = returned(lived("topic_connected"))
    assert broker.part(OverlayRepair) is not None
    assert broker.part(OverlayRepair).own.incarnation == 1 << 40
    assert broker.part(OverlayRepair).own.topics == ("x",)
    pass_time(broker, AWAY_S + 5.0)
    assert set(broker.part(OverlayRepair).map.records) == {"b0", "b1", "b2"}
    # Its driver knows nothing of links: b2 is dialed, b0, which dials us, is knocked at.
    opened = {(effect.neighbor, effect.address, effect.dial_once) for effect in opens(effects)}
    assert opened == {("b2", "there:2", False), ("b0", "afar:0", True)}


def opens(effects: list[Effect]) -> list[OpenLink]:
    return [effect for effect in effects if isinstance(effect, OpenLink)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_links_that_do_not_come_back_are_lost_after_a_while_and_not_at_once(strategy: str) -> None:
    broker, _ = returned(lived(strategy))
    link = broker.parts.all[0].links.links["b2"]
    limit_s = link.limit_s
    pass_time(broker, AWAY_S + 0.5 * limit_s)
    assert not link.is_lost
    pass_time(broker, AWAY_S + limit_s + 1.0)
    assert link.is_lost


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_whoever_is_started_again_while_it_was_leaving_stays(strategy: str) -> None:
    broker = lived(strategy)
    broker.handle(LeaveRequested(), 2.0)
    pass_time(broker, 2.5)
    assert broker.sessions.closed_reason
    again, _ = returned(broker)
    assert not again.sessions.closed_reason
    repair = again.part(OverlayRepair)
    pass_time(again, AWAY_S + 9.0)
    assert not again.parts.may_go(AWAY_S + 9.0)
    if repair is not None:
        assert not repair.own.is_leaving
        assert repair.own.topics == ("x",)
    else:
        assert not again.part(RendezvousMaintenance).plane.table.is_leaving


def test_a_step_of_a_remapping_is_reported_again() -> None:
    broker = lived("rendezvous")
    mapping = (Occupant(5, "b1", "here:1"),)
    broker.handle(RemapAnnounced(2, RemapStep.INIT, mapping), 2.0)
    first = pass_time(broker, 2.5)
    again, _ = returned(broker)
    second = pass_time(again, AWAY_S + 1.0)
    report = ReportRemap(2, RemapStep.INIT)
    assert report in first
    assert report in second

"""Rules that change while clients are inside."""

from __future__ import annotations

from typing import Any

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.journal.recovery import event_of, record_of
from pubweave.core.journal.snapshot import restore_broker, take_snapshot
from pubweave.core.vocabulary.effects import CloseConnection, Effect, Transmit
from pubweave.core.vocabulary.events import (
    AccessChanged,
    ConnectionClosed,
    ConnectionOpened,
    MessagesReceived,
)
from pubweave.model.files.access import parse_access
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Advertise,
    Disconnect,
    Hello,
    Message,
    Refused,
    Role,
    Subscribe,
)
from pubweave.model.mqtt_packets import Disconnect as MqttDisconnect
from pubweave.model.mqtt_packets import Reason
from pubweave.model.publications import make_publication
from pubweave.model.records.access import AccessRules, Certified, UserRules
from pubweave.wire.journal_codec import decode_records, encode_record
from tests.mqtt_world import MqttWorld

STRATEGIES = ("tree", "topic_connected", "rendezvous")
AL, BO = 1, 2


def rules(text: str) -> AccessRules:
    return parse_access(text)[0]


BOTH = rules(
    """
    [users.al]
    publish = ["class = 'x'", "class = 'y'"]
    subscribe = ["class = 'x'", "class = 'y'"]
    [users.bo]
    publish = ["*"]
    subscribe = ["*"]
    """
)
LESS = rules(
    """
    [users.al]
    publish = ["class = 'y'"]
    subscribe = ["class = 'y'"]
    """
)


class Inside:
    """A broker with two clients, each with two subscriptions; al advertises, too."""

    def __init__(self, strategy: str = "tree") -> None:
        self.config = BrokerConfig("b1", strategy=strategy, access=BOTH, certified=True)
        self.broker = Broker(self.config, epoch=9, now=0.0)
        for connection, name in ((AL, "al"), (BO, "bo")):
            self.come(connection, name)
            for topic in "xy":
                wanted = parse_filter(f"class = '{topic}'")
                self.say(connection, Subscribe(f"{name}/1:{topic}", wanted))
                self.say(connection, Advertise(f"{name}/1:a{topic}", wanted))

    def come(self, connection: int, name: str) -> list[Effect]:
        opened = ConnectionOpened(connection, None, Certified(Role.CLIENT, name).uri)
        self.broker.handle(opened, 0.0)
        return self.say(
            connection, Hello(PROTOCOL_VERSION, Role.CLIENT, f"{name}/1", 5, 0, 0, 1 << 20)
        )

    def say(self, connection: int, *messages: Message) -> list[Effect]:
        return self.broker.handle(MessagesReceived(connection, messages, 0.0), 0.0)

    def change(self, to: AccessRules | None) -> list[Effect]:
        return self.broker.handle(AccessChanged(to), 1.0)

    @property
    def entries(self) -> list[str]:
        routing: Any = self.broker.routing
        return sorted([*routing.subscriptions, *routing.advertisements])


def told(effects: list[Effect], connection: int, kind: type) -> list[Any]:
    return [
        message
        for effect in effects
        if isinstance(effect, Transmit) and effect.connection == connection
        for message in effect.messages
        if isinstance(message, kind)
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_whoever_is_in_no_rule_any_more_is_told_and_let_go(strategy: str) -> None:
    inside = Inside(strategy)
    effects = inside.change(LESS)
    closed = [e for e in effects if isinstance(e, CloseConnection)]
    assert [effect.connection for effect in closed] == [BO]
    assert "user 'bo' is not let in any more" in closed[0].reason
    assert list(inside.broker.sessions.clients) == ["al/1"]
    assert "user 'bo' has no rules" in told(inside.come(7, "bo"), 7, Disconnect)[0].reason


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_may_stay_loses_what_is_not_allowed_any_more_and_is_told(strategy: str) -> None:
    inside = Inside(strategy)
    effects = inside.change(LESS)
    assert inside.entries == ["al/1:ay", "al/1:y"]
    refusals = told(effects, AL, Refused)
    assert {refusal.subject for refusal in refusals} == {"al/1:x", "al/1:ax"}
    assert all("allowed is class = 'y'" in refusal.reason for refusal in refusals)


def test_a_route_that_was_remembered_is_not_allowed_any_more() -> None:
    inside = Inside()
    inside.say(AL, make_publication("al/1", 1, "x", {}, b"", 0.0))
    inside.change(LESS)
    answered = inside.say(AL, make_publication("al/1", 2, "x", {}, b"", 0.0))
    assert told(answered, AL, Refused)
    assert inside.broker.counters.publications_in == 2


def test_a_client_without_a_connection_is_known_by_its_name() -> None:
    inside = Inside()
    for connection in (AL, BO):
        inside.broker.handle(ConnectionClosed(connection), 0.5)
    inside.change(LESS)
    assert list(inside.broker.sessions.clients) == ["al/1"]
    assert inside.entries == ["al/1:ay", "al/1:y"]


def test_more_rights_than_before_change_nothing_for_those_inside() -> None:
    inside = Inside()
    before = inside.entries
    assert inside.change(AccessRules({**BOTH.users, "cy": UserRules((), (Filter(),))})) == []
    assert inside.entries == before
    assert told(inside.come(7, "cy"), 7, Hello)


def test_a_broker_that_comes_back_has_the_rules_that_held_then() -> None:
    """Otherwise what it goes through once more would be judged by others."""
    inside = Inside()
    inside.change(LESS)
    again = restore_broker(take_snapshot(inside.broker), inside.config, epoch=1, now=3.0)
    assert again.sessions.access.rules == LESS
    [record] = decode_records(encode_record(record_of(AccessChanged(BOTH), 4.0)))
    assert event_of(record) == AccessChanged(BOTH)


@pytest.mark.parametrize("is_here", [True, False])
def test_an_mqtt_session_that_does_not_agree_with_the_rules_ends(is_here: bool) -> None:
    world = MqttWorld(access=rules("anonymous = true\n[users.anonymous]\nsubscribe = ['*']"))
    keeping = world.client("keeping", session_expiry_s=60)
    losing = world.client("losing", session_expiry_s=60)
    keeping.subscribe("y/1")
    losing.subscribe("x/1")
    if not is_here:
        losing.cut()
    less = "anonymous = true\n[users.anonymous]\nsubscribe = [\"class = 'y/1'\"]"
    world.handle("b1", AccessChanged(rules(less)))
    door = world.brokers["b1"].mqtt
    assert door is not None
    assert [session.client_id for session in door.sessions.by_name.values()] == ["keeping"]
    if is_here:
        told_why = [
            packet.reason for packet in losing.heard() if isinstance(packet, MqttDisconnect)
        ]
        assert told_why == [Reason.NOT_AUTHORIZED]
        assert not losing.is_open

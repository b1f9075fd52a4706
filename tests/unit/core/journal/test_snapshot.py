"""A broker made from its snapshot is the broker it was; nothing else can be made from one."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.journal.recovery import come_back
from pubweave.core.journal.snapshot import (
    SnapshotError,
    _places,
    _walk,
    restore_broker,
    take_snapshot,
)
from pubweave.core.metering.metering import Metering
from pubweave.core.strategies import STRATEGIES
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    Event,
    LinkAdded,
    MessagesReceived,
)
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Ack,
    Advertise,
    Hello,
    Message,
    Role,
    Subscribe,
)
from pubweave.model.publications import Publication, make_publication
from pubweave.model.records.access import AccessRules, UserRules

CONFIG = BrokerConfig("b1")
WANTED = parse_filter("class = 'T' and x > 3")


def hello(name: str, role: Role) -> Hello:
    return Hello(PROTOCOL_VERSION, role, name, 7, 0, 0, 1 << 20, routing="tree")


def give(broker: Broker, connection: int, *messages: Message, now: float = 1.0) -> list[Effect]:
    return broker.handle(MessagesReceived(connection, list(messages), now), now)


@pytest.fixture
def busy_broker() -> Broker:
    """A neighbor that has not answered, a subscriber that has not acknowledged what it got, and a
    publisher that has waited long enough for the neighbor."""
    broker = Broker(CONFIG, epoch=100, now=0.0)
    broker.handle(LinkAdded("b2"), 0.0)
    for connection, (name, role) in enumerate(
        [("b2", Role.BROKER), ("sub", Role.CLIENT), ("pub", Role.CLIENT)], start=1
    ):
        broker.handle(ConnectionOpened(connection), 0.0)
        give(broker, connection, hello(name, role))
    give(broker, 2, Subscribe("sub:1", WANTED))
    give(broker, 3, Advertise("pub:1", WANTED), now=0.0)
    broker.handle(DeadlineReached(), CONFIG.publisher_wait_s)
    give(broker, 3, *[make_publication("pub", n, "T", {"x": n}, b"", 0.5) for n in range(1, 9)])
    return broker


def restored(broker: Broker, metering: Metering | None = None) -> Broker:
    return restore_broker(take_snapshot(broker), CONFIG, epoch=1, now=9.0, metering=metering)


def test_the_same_events_have_the_same_effects_afterwards(busy_broker: Broker) -> None:
    twin = restored(busy_broker)
    assert twin.status(2.0) == busy_broker.status(2.0)
    events: list[Event] = [
        MessagesReceived(3, [make_publication("pub", 9, "T", {"x": 9}, b"", 1.5)], 2.0),
        MessagesReceived(2, [Ack(4), Subscribe("sub:2", parse_filter("class = 'U'"))], 2.0),
        DeadlineReached(),
        ConnectionClosed(2),
        MessagesReceived(3, [make_publication("pub", 9, "T", {"x": 9}, b"", 1.5)], 2.0),
    ]
    for number, event in enumerate(events):
        now = 3.0 + number
        assert twin.handle(event, now) == busy_broker.handle(event, now)
    assert twin.counters.duplicates_dropped == 1
    assert twin.status(9.0) == busy_broker.status(9.0)


def test_taking_a_snapshot_changes_nothing(busy_broker: Broker) -> None:
    assert take_snapshot(busy_broker) == take_snapshot(busy_broker)


def test_a_broker_that_came_back_sends_again_what_was_not_acknowledged(busy_broker: Broker) -> None:
    give(busy_broker, 2, Ack(2))
    twin = restored(busy_broker)
    come_back(twin, epoch=1 << 30, now=10.0)
    own_epoch = twin.sessions.clients["sub"].own_epoch
    twin.handle(ConnectionOpened(50), 11.0)
    again = Hello(PROTOCOL_VERSION, Role.CLIENT, "sub", 7, own_epoch, 3, 1 << 20, attempt=1)
    effects = give(twin, 50, again, now=11.0)
    sent = [m for e in effects if isinstance(e, Transmit) for m in e.messages]
    # It had 4 to 8, of which it took in the first three; two of those it had acknowledged.
    assert [m.sequence for m in sent if isinstance(m, Publication)] == [7, 8]


def test_clients_have_their_whole_time_to_come_back(busy_broker: Broker) -> None:
    twin = restored(busy_broker)
    late = 1000.0
    come_back(twin, epoch=1 << 30, now=late)
    twin.handle(DeadlineReached(), late + CONFIG.client_expiry_s - 1.0)
    assert set(twin.sessions.clients) == {"sub", "pub"}
    twin.handle(DeadlineReached(), late + CONFIG.client_expiry_s + 1.0)
    assert not twin.sessions.clients


def test_whether_to_record_is_up_to_who_starts_the_broker(busy_broker: Broker) -> None:
    metered = restored(busy_broker, Metering("b1", 1.0, epoch=1))
    publication = make_publication("pub", 9, "T", {"x": 9}, b"", 1.5)
    effects = give(metered, 3, publication, now=3.0)
    assert any(type(effect).__name__ == "EmitTelemetry" for effect in effects)
    assert restored(metered).handle(DeadlineReached(), 4.0) is not None


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("true",)


@pytest.mark.parametrize(
    "value", [Evil(), [lambda: None], os.path], ids=["object", "function", "module"]
)
def test_a_broker_with_something_strange_in_it_has_no_snapshot(
    busy_broker: Broker, value: object
) -> None:
    busy_broker.sessions.address = value  # type: ignore[assignment]
    with pytest.raises((SnapshotError, pickle.PicklingError, TypeError)):
        take_snapshot(busy_broker)


@pytest.mark.parametrize(
    "data", [pickle.dumps(Evil()), pickle.dumps(["actions"]), b"", b"\x80\x05K\x01."]
)
def test_bytes_that_are_no_snapshot_run_nothing_and_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        restore_broker(data, CONFIG, epoch=1, now=0.0)


def test_what_happens_after_a_snapshot_was_taken_is_not_in_it(busy_broker: Broker) -> None:
    """Containers are changed in place all the time: none may be shared with the snapshot."""
    data = take_snapshot(busy_broker)
    before = restore_broker(data, CONFIG, epoch=1, now=9.0)
    give(busy_broker, 2, Ack(3), Subscribe("sub:2", parse_filter("class = 'U'")))
    give(busy_broker, 3, make_publication("pub", 9, "T", {"x": 9}, b"", 1.5))
    busy_broker.sessions.clients.pop("pub")
    after = restore_broker(data, CONFIG, epoch=1, now=9.0)
    assert take_snapshot(after) == take_snapshot(before)
    assert set(after.sessions.clients) == {"sub", "pub"}
    assert after.sessions.clients["sub"].acked == 0
    assert after.last_sequence("pub") == 8
    assert after.routing.sizes().subscriptions == 1


def test_restored_containers_are_those_that_the_parts_of_a_broker_share(
    busy_broker: Broker,
) -> None:
    """They are filled, not replaced: whoever got hold of one in a constructor sees what is in it,
    and what one restored broker does is not seen by another."""
    data = take_snapshot(busy_broker)
    one, other = (restore_broker(data, CONFIG, epoch=1, now=9.0) for _ in range(2))
    assert one._publishing._touched is one._outgoing.touched
    assert one.sessions is one.maintenance._services.sessions
    assert one.part(ActionCoordinator) in one.parts.all
    give(one, 3, make_publication("pub", 9, "T", {"x": 9}, b"", 1.5))
    entries = [broker.sessions.access._entries for broker in (one, other)]
    entries[0][one.sessions.clients["sub"]].add("more")
    assert "more" not in entries[1][other.sessions.clients["sub"]]
    assert other.last_sequence("pub") == 8
    assert one.last_sequence("pub") == 9


@pytest.mark.parametrize("is_metered", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_brokers_of_other_names_and_users_consist_of_the_same(
    strategy: str, is_metered: bool
) -> None:
    """Where the objects of a broker are is worked out once for all that are configured alike."""
    is_tree = strategy in ("tree", "tree_covering")
    config = BrokerConfig(
        "b7",
        strategy=strategy,
        secret=b"only b7 knows",
        access=AccessRules({"al": UserRules(publish=(WANTED,), operate=True)}, anonymous=True),
        certified=True,
        organize=OrganizeConfig() if is_tree else None,
        mqtt=MqttConfig() if is_tree else None,
    )
    for own in (config, replace(config, access=None), replace(config, id="b8", secret=b"")):
        metering = Metering(own.id, 1.0, epoch=7) if is_metered else None
        broker = Broker(own, epoch=7, now=3.0, metering=metering)
        assert _walk(broker)[1] == _places(own, is_metered)

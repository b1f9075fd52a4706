"""Migrations on a secured overlay: without a name nothing is learned, and no one's place taken."""

from __future__ import annotations

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.journal.snapshot import restore_broker, take_snapshot
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.vocabulary.effects import CloseConnection, Effect, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionOpened,
    LoginReceived,
    MessagesReceived,
    MigrationRequested,
    PasswordVerified,
)
from pubweave.model.filters.filter import Filter
from pubweave.model.messages.migration import (
    Migration,
    MigrationComplete,
    MigrationSeek,
    MigrationSignal,
    MigrationStep,
    MigrationUpdate,
    MovedSession,
    Redirect,
)
from pubweave.model.messages.session import PROTOCOL_VERSION, Disconnect, Hello, Message, Role
from pubweave.model.records.access import AccessRules, UserRules
from pubweave.runtime.broker.host import BrokerHost
from tests.sockets.harness import settings_of
from tests.unit.core.migration.test_coordinator import EPOCH, PATH, decide, migrations_of
from tests.unit.core.transformation.test_coordinator import Bench

RULES = AccessRules({name: UserRules((Filter(),), (Filter(),)) for name in ("c", "d")})


def hello(client: str, token: str = "", remote_epoch: int = 0) -> Hello:
    return Hello(
        PROTOCOL_VERSION,
        Role.CLIENT,
        client,
        EPOCH,
        remote_epoch,
        0,
        1 << 20,
        attempt=1,
        can_move=True,
        token=token,
    )


def come(bench: Bench, connection: int, message: Message, user: str = "") -> list[Effect]:
    """Somebody connects, proves a name or none, and says something."""
    bench.handle(ConnectionOpened(connection))
    if user:
        bench.handle(LoginReceived(connection, user))
        bench.handle(PasswordVerified(connection, user))
    bench.handle(MessagesReceived(connection, (message,), bench.now))
    return bench.effects


def told(effects: list[Effect], connection: int) -> list[Message]:
    return [
        message
        for effect in effects
        if isinstance(effect, Transmit) and effect.connection == connection
        for message in effect.messages
    ]


def departing(**config: object) -> tuple[Bench, Migration]:
    """i, whose client c is to move to k; the way is known."""
    bench = Bench("i", "j", access=RULES, **config)
    come(bench, 50, hello("c"), "c")
    bench.connections["c"] = 50
    bench.handle(MigrationRequested("c", "k"))
    [seek] = [m for m in bench.said_to("j") if isinstance(m, MigrationSeek)]
    bench.hear("j", MigrationSeek(seek.number, "k", PATH, is_found=True))
    [reserve] = [m for m in bench.said_to("j") if isinstance(m, MigrationSignal)]
    assert reserve.migration.id not in seek.number
    return bench, reserve.migration


@pytest.mark.parametrize("user", ["", "d"])
def test_only_the_client_itself_learns_where_it_has_moved(user: str) -> None:
    bench, migration = departing()
    decide(bench, migration)
    bench.hear("j", MigrationSignal(migration, MigrationStep.MOVED, "host:7"))
    said = told(come(bench, 60, hello("c"), user), 60)
    assert [type(message) for message in said] == [Disconnect]
    assert migration.id not in repr(said)
    assert bench.broker.sessions.access.refused == {"name": 1}
    [redirect] = told(come(bench, 61, hello("c"), "c"), 61)
    assert isinstance(redirect, Redirect)
    assert redirect.token == migration.id


@pytest.mark.parametrize("user", ["", "d"])
def test_nobody_else_takes_the_place_of_a_client_that_waits_at_its_new_broker(user: str) -> None:
    bench = Bench("k", "j", access=RULES)
    migration = Migration("i/1.1.1.tag", "c", PATH)
    bench.hear("j", MigrationSignal(migration, MigrationStep.RESERVE))
    bench.hear("j", MigrationUpdate(migration))
    come(bench, 60, hello("c", migration.id, 4), "c")
    # Even with the token: it is no proof of a name.
    said = told(come(bench, 61, hello("c", migration.id, 4), user), 61)
    assert [type(message) for message in said] == [Disconnect]
    bench.hear("j", MigrationComplete(migration, MovedSession(4, EPOCH, 0, 0, 0), 0))
    assert [type(message) for message in told(bench.effects, 60)] == [Hello]
    assert not told(bench.effects, 61)


def test_rules_that_change_while_a_client_waits_hold_for_it() -> None:
    bench = Bench("k", "j", access=RULES)
    migration = Migration("i/1.1.1.tag", "c", PATH)
    bench.hear("j", MigrationSignal(migration, MigrationStep.RESERVE))
    bench.hear("j", MigrationUpdate(migration))
    come(bench, 60, hello("c", migration.id, 4), "c")
    bench.broker.sessions.access.replace_rules(AccessRules({}))
    bench.hear("j", MigrationComplete(migration, MovedSession(4, EPOCH, 0, 0, 0), 0))
    assert [type(message) for message in told(bench.effects, 60)] == [Disconnect]


@pytest.mark.parametrize("strategy", ["topic_connected", "rendezvous"])
def test_a_broker_without_a_certificate_leaves_nothing_behind(strategy: str) -> None:
    broker = Broker(BrokerConfig("b1", strategy=strategy, certified=True), epoch=9, now=0.0)
    broker.handle(ConnectionOpened(1), 0.0)
    stranger = Hello(PROTOCOL_VERSION, Role.BROKER, "b2", 5, 0, 0, 1 << 20, routing=strategy)
    effects = broker.handle(MessagesReceived(1, (stranger,), 0.0), 0.0)
    assert any(isinstance(effect, CloseConnection) for effect in effects)
    assert not broker.sessions.links


def test_a_client_without_a_name_leaves_nothing_behind_where_brokers_route_by_topic() -> None:
    broker = Broker(BrokerConfig("b1", strategy="topic_connected", access=RULES), epoch=9, now=0.0)
    broker.handle(ConnectionOpened(1), 0.0)
    broker.handle(MessagesReceived(1, (hello("c", remote_epoch=3),), 0.0), 0.0)
    assert "c" not in broker.routing.returning  # type: ignore[attr-defined]


def test_tokens_follow_from_the_secret_of_the_broker_and_from_nothing_else() -> None:
    ids = [departing(secret=secret)[1].id for secret in (b"one", b"two", b"one")]
    assert ids[0] == ids[2] != ids[1]
    assert all(len(each.rpartition(".")[2]) == 32 for each in ids)


def test_a_broker_that_comes_back_makes_the_same_tokens() -> None:
    bench, migration = departing(secret=b"of its first life")
    config = BrokerConfig("i", access=RULES, secret=b"of another life")
    back = restore_broker(take_snapshot(bench.broker), config, epoch=100, now=0.0)
    migrations = back.part(MigrationCoordinator)
    assert migrations is not None
    assert migrations._departures["c"].id == migration.id
    assert migrations_of(bench)._departures["c"].id == migration.id
    assert b"of its first life" not in repr(bench.broker.config).encode()


def test_each_broker_on_this_machine_has_a_secret_of_its_own() -> None:
    settings = settings_of("b1")
    tags = {BrokerHost(settings).broker.sessions.tokens.tag("word") for _ in range(2)}
    empty = Broker(BrokerConfig("b1"), epoch=1, now=0.0).sessions.tokens.tag("word")
    assert len(tags | {empty}) == 3

"""One broker's part in migrations, with neighbors and clients that are scripts."""

from __future__ import annotations

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.metering.metering import Metering
from pubweave.core.migration.coordinator import MigrationCoordinator, MigrationEnd, MigrationOutcome
from pubweave.core.vocabulary.effects import CloseConnection, EmitTelemetry
from pubweave.core.vocabulary.events import ConnectionOpened, MigrationRequested
from pubweave.model.filters.text import parse_filter
from pubweave.model.ids import ClientId
from pubweave.model.messages.migration import (
    Migration,
    MigrationComplete,
    MigrationEntries,
    MigrationSeek,
    MigrationSignal,
    MigrationStep,
    MigrationUpdate,
    MovedSession,
    Redirect,
    RedirectReply,
)
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    ActionSignal,
    Advertise,
    Hello,
    Message,
    Role,
    Signal,
    Subscribe,
    Unsubscribe,
)
from pubweave.model.publications import make_publication
from pubweave.model.telemetry import RECORDED_TABLES, TABLES
from tests.unit.core.transformation.test_coordinator import RESERVE, Bench

WANTED = parse_filter("class = 'T'")
PATH = ("i", "j", "k")
EPOCH = 9
"""Of the client."""


def say_hello(bench: Bench, client: str, *, remote_epoch: int = 0, token: str = "") -> None:
    """A client connects that can be moved."""
    number = bench.connections[client] = len(bench.connections) + 1 + 100 * int(bench.now)
    bench.handle(ConnectionOpened(number))
    hello = Hello(
        PROTOCOL_VERSION,
        Role.CLIENT,
        client,
        EPOCH,
        remote_epoch,
        0,
        1 << 20,
        attempt=number,
        can_move=True,
        token=token,
    )
    bench.hear(client, hello)


def migrations_of(bench: Bench) -> MigrationCoordinator:
    assert bench.broker.part(MigrationCoordinator) is not None
    return bench.broker.part(MigrationCoordinator)


def steps_to(bench: Bench, name: str) -> list[MigrationStep]:
    return [m.step for m in bench.said_to(name) if isinstance(m, MigrationSignal)]


class Ends:
    """Notes how migrations end."""

    def __init__(self, ends: list[MigrationEnd]) -> None:
        self._ends = ends

    def client_arrived(self, client: ClientId, now: float) -> None:
        pass

    def migration_ended(self, end: MigrationEnd, now: float) -> None:
        self._ends.append(end)


def source() -> tuple[Bench, Migration, list[MigrationEnd]]:
    """i, with the client c that offers and wants T; everybody up to k has been asked."""
    bench = Bench("i", "j")
    ends: list[MigrationEnd] = []
    migrations_of(bench).observe(Ends(ends))
    say_hello(bench, "c")
    bench.hear("c", Advertise("c:1", WANTED), Subscribe("c:2", WANTED))
    bench.handle(MigrationRequested("c", "k"))
    [seek] = [m for m in bench.said_to("j") if isinstance(m, MigrationSeek)]
    bench.hear("j", MigrationSeek(seek.number, "k", PATH, is_found=True))
    [reserve] = [m for m in bench.said_to("j") if isinstance(m, MigrationSignal)]
    assert reserve.step is MigrationStep.RESERVE
    return bench, reserve.migration, ends


def decide(bench: Bench, migration: Migration) -> None:
    bench.hear("j", MigrationSignal(migration, MigrationStep.RESERVED, "host:7"))
    bench.hear("c", RedirectReply(migration.id))


def kinds(messages: list[Message]) -> list[type]:
    return [type(message) for message in messages]


def test_the_source_asks_decides_and_lets_go() -> None:
    bench, migration, ends = source()
    bench.hear("j", MigrationSignal(migration, MigrationStep.RESERVED, "host:7"))
    assert bench.said_to("c") == [Redirect(migration.id, "k", "host:7", is_final=False)]
    bench.now = 0.25
    bench.hear("c", RedirectReply(migration.id))
    assert kinds(bench.said_to("j"))[-3:] == [MigrationEntries, MigrationEntries, MigrationUpdate]
    # From here on nothing of the client is taken in.
    bench.hear("c", make_publication("c", 1, "T", {}, b"", 0.0))
    session = bench.broker.sessions.clients["c"]
    assert session.received == 2
    bench.now = 0.5
    bench.hear("j", MigrationSignal(migration, MigrationStep.MOVED, "host:7"))
    [redirect] = bench.said_to("c")
    assert redirect == Redirect(migration.id, "k", "host:7", True, paused_ms=250.0, hops=2)
    [complete] = [m for m in bench.said_to("j") if isinstance(m, MigrationComplete)]
    assert complete.session == MovedSession(session.own_epoch, EPOCH, session.remote_attempt, 2, 0)
    assert "c" not in bench.broker.sessions.clients
    assert [(e.outcome, e.hops, e.paused_s) for e in ends] == [(MigrationOutcome.DONE, 2, 0.25)]
    status = migrations_of(bench).counted()
    assert (status.hops, status.paused_ms, status.longest_paused_ms) == (2, 250.0, 250.0)
    [move] = migrations_of(bench).last_moves
    assert (move.client, move.destination, move.outcome, move.paused_ms) == ("c", "k", "done", 250)
    assert migrations_of(bench).is_idle


def test_a_client_that_comes_back_is_sent_on() -> None:
    bench, migration, _ = source()
    decide(bench, migration)
    bench.hear("j", MigrationSignal(migration, MigrationStep.MOVED, "host:7"))
    say_hello(bench, "c")
    [message] = bench.said_to("c")
    assert isinstance(message, Redirect)
    assert (message.broker, message.is_final) == ("k", True)
    assert bench.of(CloseConnection)
    assert "c" not in bench.broker.sessions.clients


def test_without_an_answer_it_is_given_up_and_everybody_is_told() -> None:
    bench, migration, ends = source()
    bench.pass_time(6.0)
    assert MigrationStep.ABORT in steps_to(bench, "j")
    assert [e.outcome for e in ends] == [MigrationOutcome.FAILED]
    bench.hear("j", MigrationSignal(migration, MigrationStep.RESERVED))  # too late
    assert not bench.said_to("c")
    assert migrations_of(bench).is_idle


def test_busy_brokers_are_asked_again_until_time_is_up() -> None:
    bench, migration, ends = source()
    bench.hear("j", MigrationSignal(migration, MigrationStep.BUSY, "k takes part in an action"))
    bench.pass_time(0.5)
    seeks = [m for m in bench.said_to("j") if isinstance(m, MigrationSeek)]
    assert seeks
    assert all(seek.number != migration.id for seek in seeks)
    bench.hear("j", MigrationSeek(seeks[-1].number, "k", PATH, is_found=True))
    [again] = [m for m in bench.said_to("j") if isinstance(m, MigrationSignal)]
    bench.hear("j", MigrationSignal(again.migration, MigrationStep.BUSY, "k is busy"))
    bench.pass_time(9.0)
    assert [(e.outcome, e.reason) for e in ends] == [(MigrationOutcome.BUSY, "k is busy")]


def test_a_client_that_cannot_be_redirected_stays() -> None:
    bench = Bench("i", "j")
    bench.meet("old", Role.CLIENT)
    ends: list[MigrationEnd] = []
    migrations_of(bench).observe(Ends(ends))
    for client, destination in [("old", "k"), ("nobody", "k")]:
        bench.handle(MigrationRequested(client, destination))
    assert [e.outcome for e in ends] == [MigrationOutcome.REFUSED] * 2
    assert migrations_of(bench).counted().refused == 2
    assert not bench.said_to("j")


def test_asking_twice_is_asking_once() -> None:
    bench, _, ends = source()
    bench.handle(MigrationRequested("c", "elsewhere"))
    assert not bench.said_to("j")
    assert (ends, migrations_of(bench).counted().begun) == ([], 1)


def test_a_broker_on_the_path_is_kept_out_of_actions_and_an_action_goes_before_the_next() -> None:
    bench = Bench("j", "i", "k")
    migration = Migration("i/1.1", "c", PATH)
    bench.hear("i", MigrationSignal(migration, MigrationStep.RESERVE))
    assert steps_to(bench, "k") == [MigrationStep.RESERVE]
    bench.hear("i", RESERVE)
    assert [m.signal for m in bench.said_to("i") if isinstance(m, ActionSignal)] == [Signal.BUSY]
    bench.hear("i", MigrationSignal(migration, MigrationStep.ABORT))
    assert steps_to(bench, "k") == [MigrationStep.ABORT]
    bench.hear("i", MigrationSignal(Migration("i/1.2", "c", PATH), MigrationStep.RESERVE))
    assert steps_to(bench, "i") == [MigrationStep.BUSY]
    bench.hear("i", RESERVE)
    assert RESERVE in bench.said_to("k")


def test_tables_turn_round_on_the_path_only() -> None:
    bench = Bench("j", "i", "k", "x")
    bench.hear("i", Advertise("c:1", WANTED), Subscribe("c:2", WANTED))
    bench.hear("x", Advertise("p:1", WANTED), Subscribe("s:1", WANTED))
    migration = Migration("i/1.1", "c", PATH)
    bench.hear("i", MigrationSignal(migration, MigrationStep.RESERVE))
    entries = MigrationEntries(migration, (("c:1", WANTED),), (("c:2", WANTED),))
    bench.hear("i", entries, MigrationUpdate(migration))
    said = bench.said_to("k")
    assert said.index(Subscribe("s:1", WANTED)) < said.index(MigrationUpdate(migration))
    assert Unsubscribe("s:1") in bench.said_to("i")
    assert not bench.said_to("x")
    # What is for the client goes to i until k says that it has moved, then to k.
    publication = make_publication("p", 1, "T", {}, b"", 0.0)
    bench.hear("x", publication)
    assert publication in bench.said_to("i")
    moved = MigrationSignal(migration, MigrationStep.MOVED)
    bench.hear("k", Subscribe("c:2", WANTED), moved)
    assert moved in bench.said_to("i")
    publication = make_publication("p", 2, "T", {}, b"", 0.0)
    bench.hear("x", publication)
    assert publication in bench.said_to("k")
    assert not bench.said_to("i")
    bench.hear("i", MigrationComplete(migration, None, 0))
    assert kinds(bench.said_to("k")) == [MigrationComplete]
    assert migrations_of(bench).is_idle


def test_the_destination_lets_the_client_wait_for_the_last_word_of_the_source() -> None:
    bench = Bench("k", "j")
    migration = Migration("i/1.1", "c", PATH)
    bench.hear("j", MigrationSignal(migration, MigrationStep.RESERVE))
    entries = MigrationEntries(migration, (("c:1", WANTED),), (("c:2", WANTED),))
    bench.hear("j", entries, MigrationUpdate(migration))
    assert steps_to(bench, "j")[-1] is MigrationStep.MOVED
    say_hello(bench, "c", token="another")
    assert bench.of(CloseConnection)
    say_hello(bench, "c", remote_epoch=4, token=migration.id)
    assert not bench.effects
    bench.hear("j", MigrationComplete(migration, MovedSession(4, EPOCH, 0, 2, 0), 7))
    [answer] = bench.said_to("c")
    assert isinstance(answer, Hello)
    assert (answer.epoch, answer.received, answer.last_sequence) == (4, 2, 7)
    assert bench.broker.sessions.clients["c"].received == 2


def test_a_reservation_that_the_source_knows_nothing_of_is_given_back() -> None:
    bench = Bench("j", "i", "k")
    migration = Migration("i/1.1", "c", PATH)
    bench.hear("i", MigrationSignal(migration, MigrationStep.RESERVE))
    bench.now = 1.0
    bench.meet("i")  # it has forgotten everything
    assert steps_to(bench, "i") == [MigrationStep.HOLD, MigrationStep.ASK]
    bench.hear("i", MigrationSignal(migration, MigrationStep.ABORT))
    assert steps_to(bench, "k") == [MigrationStep.ABORT]
    assert migrations_of(bench).is_idle
    fresh = Bench("i", "j")
    fresh.hear(
        "j",
        MigrationSignal(migration, MigrationStep.HOLD),
        MigrationSignal(migration, MigrationStep.ASK),
    )
    assert steps_to(fresh, "j") == [MigrationStep.ABORT]
    assert migrations_of(fresh).is_idle


def test_a_destination_without_room_refuses() -> None:
    bench = Bench("k", "j")
    say_hello(bench, "one")
    say_hello(bench, "two")
    for most_clients, step in ((2, MigrationStep.REFUSED), (3, MigrationStep.RESERVED)):
        migration = Migration(f"i/1.{most_clients}", "c", PATH, most_clients)
        bench.hear("j", MigrationSignal(migration, MigrationStep.RESERVE))
        assert steps_to(bench, "j")[-1] is step
    # The one that is on its way counts, too.
    another = Migration("i/1.9", "d", PATH, 3)
    bench.hear("j", MigrationSignal(another, MigrationStep.RESERVE))
    assert steps_to(bench, "j")[-1] is MigrationStep.REFUSED


def test_the_pause_of_a_client_is_recorded() -> None:
    """A table for people: the pipeline reads the others."""
    assert "migrations" not in TABLES
    metering = Metering("i", epoch=1)
    metering.migration_ended("c", "k", "done", 2, 250.0, 7.5)
    [record] = metering.pop()["migrations"]
    named = dict(zip(RECORDED_TABLES["migrations"].column_names, record, strict=True))
    assert named["ended_at"] == 7.5
    assert (named["client"], named["destination"], named["outcome"]) == ("c", "k", "done")
    assert (named["hops"], named["paused_ms"]) == (2, 250.0)


def test_a_broker_that_records_records_every_end() -> None:
    metering = Metering("i", epoch=1)
    broker = Broker(BrokerConfig("i"), epoch=1, now=0.0, metering=metering)
    [told] = [
        effect
        for effect in broker.handle(MigrationRequested("nobody", "k"), 3.0)
        if isinstance(effect, EmitTelemetry)
    ]
    [record] = told.records["migrations"]
    assert "refused" in record


@pytest.mark.parametrize("path", [(), ("j", "k"), ("i", "j", "i")])
def test_a_way_that_a_neighbor_makes_up_is_none_of_our_concern(path: tuple[str, ...]) -> None:
    """Also for a migration that is known here."""
    bench, migration, _ = source()
    forged = Migration(migration.id, migration.client, path)
    bench.hear(
        "j",
        MigrationSignal(forged, MigrationStep.RESERVED),
        MigrationSignal(forged, MigrationStep.ASK),
        MigrationComplete(forged, None, 0),
    )
    assert bench.said_to("j") == []

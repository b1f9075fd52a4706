"""The broker core by itself: events in, effects out, the instant as an argument."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.vocabulary.effects import CloseConnection, Effect, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    HandlingFailed,
    LinkAdded,
    LinkRemoved,
    MessagesReceived,
)
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Ack,
    Advertise,
    Answer,
    Goodbye,
    Hello,
    Message,
    Ping,
    Pong,
    Query,
    Refused,
    Role,
    Subscribe,
)
from pubweave.model.publications import Publication, make_publication

LIMITS = SessionLimits(window_bytes=2000, congested_bytes=2000, relieved_bytes=500)


class Bench:
    """A broker whose clients are scripts: each has a connection of the number given."""

    def __init__(self, **config: Any) -> None:
        self.now = 0.0
        self.broker = Broker(BrokerConfig("b1", limits=LIMITS, **config), epoch=100, now=0.0)
        self.effects: list[Effect] = []

    def handle(self, event: Any) -> list[Effect]:
        self.effects = self.broker.handle(event, self.now)
        return self.effects

    def receive(self, connection: int, *messages: Message) -> list[Effect]:
        return self.handle(MessagesReceived(connection, messages, self.now))

    def attach(self, connection: int, client: str, **hello: int) -> None:
        self.handle(ConnectionOpened(connection))
        self.receive(connection, client_hello(client, **hello))

    def sent_to(self, connection: int) -> list[Message]:
        return [
            message
            for effect in self.effects
            if isinstance(effect, Transmit) and effect.connection == connection
            for message in effect.messages
        ]

    def closed(self) -> dict[int, str]:
        return {e.connection: e.reason for e in self.effects if isinstance(e, CloseConnection)}

    def pass_time(self, until: float) -> list[Effect]:
        everything: list[Effect] = []
        while self.broker.next_deadline() <= until:
            self.now = self.broker.next_deadline()
            everything += self.handle(DeadlineReached())
        self.now = until
        self.effects = everything
        return everything


def client_hello(
    client: str, epoch: int = 7, remote_epoch: int = 0, received: int = 0, attempt: int = 1
) -> Hello:
    window = LIMITS.window_bytes
    role = Role.CLIENT
    return Hello(
        PROTOCOL_VERSION, role, client, epoch, remote_epoch, received, window, attempt=attempt
    )


def publication(publisher: str, sequence: int, topic: str = "T", size: int = 10) -> Publication:
    return make_publication(publisher, sequence, topic, {}, b"x" * size, 0.0)


def publisher_and_subscriber(**config: Any) -> Bench:
    bench = Bench(**config)
    bench.attach(1, "pub")
    bench.attach(2, "sub")
    bench.receive(1, Advertise("pub:1", parse_filter("class = 'T'")))
    bench.receive(2, Subscribe("sub:1", parse_filter("class = 'T'")))
    return bench


def test_a_publication_goes_from_publisher_to_subscriber_at_the_same_broker() -> None:
    bench = publisher_and_subscriber()
    batch = [publication("pub", 1), publication("pub", 2)]
    bench.receive(1, *batch)
    assert bench.sent_to(2) == batch
    assert bench.sent_to(1) == []


def test_a_batch_costs_one_transmit_per_destination() -> None:
    bench = publisher_and_subscriber()
    effects = bench.receive(1, *[publication("pub", n, size=1) for n in range(1, 4)])
    assert [effect.connection for effect in effects if isinstance(effect, Transmit)] == [2]


def test_a_client_gets_its_own_publications_if_it_asks_for_them() -> None:
    bench = publisher_and_subscriber()
    bench.receive(1, Subscribe("pub:2", parse_filter("class = 'T'")))
    bench.receive(1, publication("pub", 1))
    assert bench.sent_to(1) == [publication("pub", 1)]


def test_several_matching_subscriptions_of_a_client_bring_one_notification() -> None:
    bench = publisher_and_subscriber()
    bench.receive(2, Subscribe("sub:2", parse_filter("class prefix 'T'")))
    bench.receive(1, publication("pub", 1))
    assert bench.sent_to(2) == [publication("pub", 1)]


def test_an_unadvertised_publication_is_refused_with_the_reason() -> None:
    bench = publisher_and_subscriber()
    bench.receive(1, publication("pub", 1, topic="OTHER"))
    (refusal,) = bench.sent_to(1)
    assert isinstance(refusal, Refused)
    assert "advertise first" in refusal.reason
    assert bench.broker.counters.refused == 1
    assert bench.broker.counters.deliveries == 0


def test_a_publication_that_no_filter_could_address_is_refused_also_on_a_cached_route() -> None:
    bench = publisher_and_subscriber()
    for sequence in (1, 2):
        bad = make_publication("pub", sequence * 10 + 1, "T", {"v": float("nan")}, b"", 0.0)
        bench.receive(1, publication("pub", sequence * 10), bad)
        (refusal,) = (m for m in bench.sent_to(1) if isinstance(m, Refused))
        assert "finite" in refusal.reason
    assert bench.broker.counters.deliveries == 2


def test_publishing_under_another_name_closes_the_connection() -> None:
    bench = publisher_and_subscriber()
    bench.receive(1, publication("sub", 1))
    assert "under the name of 'sub'" in bench.closed()[1]
    bench = publisher_and_subscriber()
    bench.receive(1, publication("pub", 1))
    bench.receive(1, publication("sub", 1))
    assert "under the name of 'sub'" in bench.closed()[1]
    assert bench.sent_to(2) == []


def test_a_repeated_publication_is_dropped_and_counted() -> None:
    bench = publisher_and_subscriber()
    bench.receive(1, publication("pub", 5), publication("pub", 5), publication("pub", 4))
    assert [p.sequence for p in bench.sent_to(2) if isinstance(p, Publication)] == [5]
    assert bench.broker.counters.duplicates_dropped == 2


def test_a_session_that_comes_back_gets_what_it_has_not_acknowledged() -> None:
    bench = publisher_and_subscriber()
    own_epoch = bench.broker.sessions.clients["sub"].own_epoch
    bench.receive(1, publication("pub", 1), publication("pub", 2))
    bench.handle(ConnectionClosed(2))
    bench.receive(1, publication("pub", 3))
    assert bench.sent_to(2) == []
    bench.handle(ConnectionOpened(3))
    bench.receive(3, client_hello("sub", remote_epoch=own_epoch, received=2, attempt=2))
    hello, *rest = bench.sent_to(3)
    assert isinstance(hello, Hello)
    assert [p.sequence for p in rest if isinstance(p, Publication)] == [2, 3]


def test_a_hello_that_was_long_under_way_does_not_replace_a_newer_connection() -> None:
    bench = publisher_and_subscriber()
    bench.handle(ConnectionOpened(3))
    bench.receive(3, client_hello("sub", attempt=1))
    assert "newer connection" in bench.closed()[3]
    bench.receive(1, publication("pub", 1))
    assert bench.sent_to(2) == [publication("pub", 1)]


def test_a_session_that_begins_anew_has_another_name() -> None:
    bench = publisher_and_subscriber()
    before = bench.broker.sessions.clients["sub"].own_epoch
    bench.attach(3, "sub", attempt=2)
    assert bench.broker.sessions.clients["sub"].own_epoch > before


def test_another_incarnation_of_a_client_starts_with_nothing() -> None:
    bench = publisher_and_subscriber()
    bench.attach(3, "sub", epoch=8)
    assert bench.closed() == {2: "superseded by a newer connection"}
    bench.receive(1, publication("pub", 1))
    assert bench.sent_to(3) == []


def test_goodbye_ends_a_clients_session_and_its_subscriptions() -> None:
    bench = publisher_and_subscriber()
    bench.receive(2, Goodbye("bye"))
    assert 2 in bench.closed()
    bench.receive(1, publication("pub", 1))
    assert bench.broker.status(0.0).subscriptions == 0
    assert bench.broker.counters.clients_expired == 0


def test_a_client_that_stays_away_is_forgotten() -> None:
    bench = publisher_and_subscriber(client_expiry_s=5.0)
    bench.handle(ConnectionClosed(2))
    bench.pass_time(4.0)
    assert "sub" in bench.broker.sessions.clients
    bench.pass_time(8.0)
    assert "sub" not in bench.broker.sessions.clients
    assert bench.broker.counters.clients_expired == 1


def test_acknowledgements_come_soon_and_at_once_after_many_bytes() -> None:
    bench = publisher_and_subscriber()
    bench.pass_time(1.0)
    bench.receive(1, publication("pub", 1))
    assert bench.sent_to(1) == []
    bench.pass_time(1.0 + bench.broker.config.ack_delay_s)
    assert bench.sent_to(1) == [Ack(2)]
    bench.receive(1, publication("pub", 2, size=600))
    assert bench.sent_to(1) == [Ack(3)]


def test_a_slow_subscriber_holds_its_publisher_up_and_lets_it_go() -> None:
    bench = publisher_and_subscriber()
    bench.pass_time(1.0)
    numbers = iter(range(1, 100))
    while bench.broker.counters.holds == 0:
        bench.receive(1, publication("pub", next(numbers), size=500))
    bench.receive(1, publication("pub", next(numbers), size=500))
    assert not any(isinstance(message, Ack) for message in bench.sent_to(1))
    assert bench.broker.status(bench.now).clients[0].is_congested
    acked = 0
    while not any(isinstance(message, Ack) for message in bench.sent_to(1)):
        acked += 1
        bench.receive(2, Ack(acked))
    assert bench.broker.sessions.clients["sub"].waiting_bytes <= LIMITS.relieved_bytes
    assert bench.broker.counters.notifications_lost == 0


def test_a_subscriber_that_holds_everybody_up_for_too_long_is_let_go() -> None:
    bench = publisher_and_subscriber(slow_client_s=3.0)
    for number in range(1, 12):
        bench.receive(1, publication("pub", number, size=500))
    assert bench.broker.counters.holds == 1
    bench.pass_time(10.0)
    assert "too slow" in bench.closed()[2]
    assert bench.broker.counters.notifications_lost > 0
    assert any(isinstance(message, Ack) for message in bench.sent_to(1))


def test_a_subscriber_that_is_away_holds_others_up_only_for_a_short_while() -> None:
    bench = publisher_and_subscriber(away_client_s=2.0)
    bench.handle(ConnectionClosed(2))
    for number in range(1, 12):
        bench.receive(1, publication("pub", number, size=500))
    bench.pass_time(1.5)
    assert "sub" in bench.broker.sessions.clients
    bench.pass_time(5.0)
    assert "sub" not in bench.broker.sessions.clients
    assert bench.broker.counters.notifications_lost == 11
    assert any(isinstance(message, Ack) for message in bench.sent_to(1))


def test_a_publisher_that_ignores_its_window_is_cut_off() -> None:
    bench = publisher_and_subscriber()
    for number in range(1, 60):
        bench.receive(1, publication("pub", number, size=500))
        if bench.closed():
            break
    assert bench.closed() == {1: "sends beyond its window"}


def test_one_message_may_exceed_the_window_whatever_its_size() -> None:
    bench = publisher_and_subscriber()
    for number in range(1, 9):  # the subscriber holds it up
        bench.receive(1, publication("pub", number, size=500))
    bench.receive(1, publication("pub", 9, size=40 * LIMITS.window_bytes))
    bench.receive(1, Ping(0.0))
    assert bench.closed() == {}
    bench.receive(1, publication("pub", 10))
    assert bench.closed() == {1: "sends beyond its window"}


def test_advertisements_of_a_returning_client_come_before_its_publications() -> None:
    """Each is a question to a neighbor that is away; none falls behind what waits for it."""
    bench = Bench()
    bench.handle(LinkAdded("b2"))
    bench.handle(ConnectionOpened(1))
    wanted = [Advertise(f"pub:{number}", parse_filter(f"class = 't{number}'")) for number in "123"]
    said = [make_publication("pub", n, f"t{n}", {}, b"", 0.0) for n in (1, 2, 3)]
    hello = client_hello("pub", remote_epoch=7)
    bench.receive(1, hello, *wanted, *said)
    bench.pass_time(bench.broker.config.publisher_wait_s + 2.0)
    assert [m for m in bench.sent_to(1) if isinstance(m, Refused)] == []
    assert bench.broker.counters.publications_accepted == 3


def test_what_was_sent_before_a_failure_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is acknowledged sends on at once, and takes that for sent."""
    bench = publisher_and_subscriber()
    bench.receive(2, Ack(1))
    large = [publication("pub", n, size=900) for n in range(1, 5)]
    bench.receive(1, *large[:3])
    bench.receive(1, large[3])
    assert bench.sent_to(2) == [], "the window is full"

    def fail(*_: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(bench.broker.routing, "receive", fail)
    with pytest.raises(AssertionError, match="a bug"):
        bench.receive(2, Ack(4), Subscribe("sub:2", parse_filter("class = 'U'")))
    bench.effects = bench.broker.handle(HandlingFailed(), bench.now)
    assert bench.sent_to(2) == large[3:]
    assert bench.broker.counters.protocol_errors == 1
    assert bench.broker.handle(HandlingFailed(), bench.now) == []


def test_the_first_message_must_be_hello() -> None:
    bench = Bench()
    bench.handle(ConnectionOpened(1))
    bench.receive(1, Ack(0))
    assert bench.closed() == {1: "the first message must be Hello"}
    assert bench.broker.counters.protocol_errors == 1


def test_a_connection_that_never_says_hello_is_closed() -> None:
    bench = Bench()
    bench.handle(ConnectionOpened(1))
    bench.pass_time(30.0)
    assert bench.closed() == {1: "no Hello in time"}


def test_strangers_and_other_versions_are_turned_away() -> None:
    bench = Bench()
    bench.handle(ConnectionOpened(1))
    bench.receive(1, Hello(PROTOCOL_VERSION, Role.BROKER, "b9", 1, 0, 0, 100, routing="tree"))
    assert "not a neighbor" in bench.closed()[1]
    bench.handle(ConnectionOpened(2))
    bench.receive(2, Hello(99, Role.CLIENT, "c", 1, 0, 0, 100))
    assert "protocol version 99" in bench.closed()[2]


def test_a_neighbor_that_routes_otherwise_is_turned_away() -> None:
    bench = Bench()
    bench.handle(LinkAdded("b2"))
    bench.handle(ConnectionOpened(1, "b2"))
    bench.receive(1, Hello(PROTOCOL_VERSION, Role.BROKER, "b2", 5, 0, 0, 1000, routing="ring"))
    assert "routes by 'ring'" in bench.closed()[1]


def test_a_full_broker_turns_clients_away() -> None:
    bench = Bench(max_clients=1)
    bench.attach(1, "one")
    bench.attach(2, "two")
    assert "full" in bench.closed()[2]


def test_a_silent_neighbor_is_pinged_and_then_closed() -> None:
    bench = Bench()
    bench.handle(LinkAdded("b2"))
    bench.handle(ConnectionOpened(1, "b2"))
    (hello,) = bench.sent_to(1)
    assert isinstance(hello, Hello)
    bench.receive(1, Hello(PROTOCOL_VERSION, Role.BROKER, "b2", 5, 0, 0, 1000, routing="tree"))
    bench.pass_time(7.0)
    assert any(isinstance(message, Ping) for message in bench.sent_to(1))
    bench.pass_time(60.0)
    assert bench.closed() == {1: "silent for too long"}


def test_a_pong_tells_the_round_trip_time() -> None:
    bench = Bench()
    bench.handle(LinkAdded("b2"))
    bench.handle(ConnectionOpened(1, "b2"))
    bench.receive(1, Hello(PROTOCOL_VERSION, Role.BROKER, "b2", 5, 0, 0, 1000, routing="tree"))
    bench.now = 2.0
    bench.receive(1, Pong(1.5))
    assert bench.broker.status(bench.now).links[0].rtt_ms == 500.0


def test_a_removed_link_is_closed_and_forgotten() -> None:
    bench = Bench()
    bench.handle(LinkAdded("b2"))
    bench.handle(ConnectionOpened(1, "b2"))
    bench.receive(1, Hello(PROTOCOL_VERSION, Role.BROKER, "b2", 5, 0, 0, 1000, routing="tree"))
    bench.handle(LinkRemoved("b2"))
    assert 1 in bench.closed()
    assert bench.broker.status(0.0).links == ()


def test_status_is_answered_as_json() -> None:
    bench = publisher_and_subscriber()
    bench.receive(1, Query(3, "status"))
    (answer,) = bench.sent_to(1)
    assert isinstance(answer, Answer)
    status = json.loads(answer.document)
    assert status["broker"] == "b1"
    assert status["subscriptions"] == 1
    assert status["client_count"] == 2

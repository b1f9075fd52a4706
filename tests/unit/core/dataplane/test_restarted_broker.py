"""A broker that has just been started: what it does before its neighbors have said anything."""

from __future__ import annotations

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionOpened,
    DeadlineReached,
    LinkAdded,
    MessagesReceived,
)
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Advertise,
    Hello,
    Message,
    Role,
    Subscribe,
    Synced,
    SyncStage,
)
from pubweave.model.publications import Publication, make_publication

WANTED = parse_filter("class = 'T'")
LIMITS = SessionLimits(window_bytes=2_000, congested_bytes=2_000, relieved_bytes=500)


class Bench:
    """A broker with a link to b2; connections are numbered by who uses them."""

    def __init__(self) -> None:
        self.broker = Broker(BrokerConfig("b1", limits=LIMITS), epoch=1, now=0.0)
        self.now = 0.0
        self.broker.handle(LinkAdded("b2"), 0.0)

    def come(self, connection: int, role: Role, name: str, *, knew: int = 0) -> None:
        """``knew``: the epoch of a broker that this one has never been."""
        self.broker.handle(ConnectionOpened(connection), self.now)
        hello = Hello(PROTOCOL_VERSION, role, name, 7, knew, 0, 1 << 20, 0, "tree", 1)
        self.say(connection, hello)

    def say(self, connection: int, *messages: Message) -> list[Effect]:
        event = MessagesReceived(connection, list(messages), self.now)
        return self.broker.handle(event, self.now)

    def publish(self, connection: int, numbers: range, size: int = 10) -> list[Effect]:
        made = [make_publication("pub", n, "T", {}, bytes(size), 0.0) for n in numbers]
        return self.say(connection, *made)


def sent_to(connection: int, effects: list[Effect]) -> list[int]:
    """Sequences of the publications that leave over a connection."""
    return [
        message.sequence
        for effect in effects
        if isinstance(effect, Transmit) and effect.connection == connection
        for message in effect.messages
        if isinstance(message, Publication)
    ]


def test_a_neighbor_gets_everything_until_it_has_answered_for_the_first_time() -> None:
    bench = Bench()
    bench.come(2, Role.CLIENT, "pub")
    bench.say(2, Advertise("pub:1", WANTED))
    bench.publish(2, range(1, 4))
    bench.now = BrokerConfig.publisher_wait_s
    bench.broker.handle(DeadlineReached(), bench.now)
    assert bench.broker.last_sequence("pub") == 3, "the publisher does not wait any longer"
    bench.come(1, Role.BROKER, "b2")
    answered = bench.say(1, Synced(SyncStage.SUBSCRIPTIONS))
    assert sent_to(1, answered) == [1, 2, 3]
    assert sent_to(1, bench.publish(2, range(4, 5))) == [], "it wants nothing, as is known now"


def test_nobody_waits_for_ever_for_a_neighbor_that_never_comes() -> None:
    bench = Bench()
    bench.come(2, Role.CLIENT, "pub")
    bench.say(2, Advertise("pub:1", WANTED))
    for number in range(1, 11):
        bench.publish(2, range(number, number + 1), size=400)
    publisher, link = bench.broker.sessions.clients["pub"], bench.broker.sessions.links["b2"]
    for bench.now in (1.0, 59.0):
        bench.broker.handle(DeadlineReached(), bench.now)
        assert bench.broker._flow.is_held(publisher), "it may yet come, and gets everything then"
        assert link.queue_messages == 12, "the advertisement, its question, ten publications"
    bench.now = 61.0
    bench.broker.handle(DeadlineReached(), bench.now)
    assert not bench.broker._flow.is_held(publisher)
    assert (bench.broker.counters.publications_lost_at_most, link.queue_messages) == (10, 0)
    bench.publish(2, range(11, 12))
    assert link.queue_messages == 0


def test_a_client_that_comes_back_gets_what_came_by_meanwhile() -> None:
    bench = Bench()
    bench.come(1, Role.BROKER, "b2")
    bench.publish(1, range(1, 4))
    bench.come(2, Role.CLIENT, "sub", knew=5)
    assert sent_to(2, bench.say(2, Subscribe("sub:1", WANTED))) == [1, 2, 3]
    bench.come(3, Role.CLIENT, "new")
    assert sent_to(3, bench.say(3, Subscribe("new:1", WANTED))) == [], "was never here before"


def test_not_for_long() -> None:
    bench = Bench()
    bench.come(1, Role.BROKER, "b2")
    bench.publish(1, range(1, 4))
    bench.now = 11.0
    bench.come(2, Role.CLIENT, "sub", knew=5)
    assert sent_to(2, bench.say(2, Subscribe("sub:1", WANTED))) == []


def test_a_client_that_comes_back_waits_for_the_answers_of_neighbors_that_are_known() -> None:
    bench = Bench()
    bench.come(1, Role.BROKER, "b2")
    bench.say(1, Synced(SyncStage.SUBSCRIPTIONS))
    bench.come(2, Role.CLIENT, "pub", knew=5)
    published = make_publication("pub", 1, "T", {}, b"", 0.0)
    assert sent_to(1, bench.say(2, Advertise("pub:1", WANTED), published)) == []
    assert bench.broker.sessions.clients["pub"].received == 1, "the publication waits"
    answered = bench.say(1, Subscribe("x:1", WANTED), Synced(SyncStage.SUBSCRIPTIONS))
    assert sent_to(1, answered) == [1]
    assert bench.broker.sessions.clients["pub"].received == 2


def test_it_does_not_wait_for_ever() -> None:
    bench = Bench()
    bench.come(1, Role.BROKER, "b2")
    bench.say(1, Synced(SyncStage.SUBSCRIPTIONS))
    bench.come(2, Role.CLIENT, "pub", knew=5)
    published = make_publication("pub", 1, "T", {}, b"", 0.0)
    bench.say(2, Advertise("pub:1", WANTED), published)
    sent: list[int] = []
    for now in range(1, 4):
        sent += sent_to(1, bench.broker.handle(DeadlineReached(), float(now)))
    assert sent == [1], "a neighbor that does not answer gets everything"


def test_what_waited_when_a_connection_broke_comes_again_and_counts_once() -> None:
    bench = Bench()
    bench.come(1, Role.BROKER, "b2")
    bench.say(1, Synced(SyncStage.SUBSCRIPTIONS))
    bench.come(2, Role.CLIENT, "pub", knew=5)
    published = make_publication("pub", 1, "T", {}, b"", 0.0)
    bench.say(2, Advertise("pub:1", WANTED), published)
    own_epoch = bench.broker.sessions.clients["pub"].own_epoch
    bench.broker.handle(ConnectionOpened(3), 0.0)
    again = Hello(PROTOCOL_VERSION, Role.CLIENT, "pub", 7, own_epoch, 0, 1 << 20, 0, "tree", 2)
    bench.say(3, again, published)
    answered = bench.say(1, Subscribe("x:1", WANTED), Synced(SyncStage.SUBSCRIPTIONS))
    assert sent_to(1, answered) == [1]
    assert bench.broker.sessions.clients["pub"].received == 2

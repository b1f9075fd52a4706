"""What a neighbor keeps no more: remembered in spans, doubted, agreed on, counted and told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pubweave.core.broker import Broker
from pubweave.core.client import ClientCore
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.routing.topic_connected.dropped_ranges import (
    MAX_SPANS,
    REMEMBERED_S,
    DroppedPublications,
)
from pubweave.core.routing.topic_connected.gaps import PATIENCE_S
from pubweave.core.vocabulary.effects import Effect, Notify, ReportMissed, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionOpened,
    DeadlineReached,
    LinkAdded,
    MessagesReceived,
)
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Hello,
    Message,
    Missed,
    Role,
    Subscribe,
    Unsubscribe,
)
from pubweave.model.messages.topic_connected import TopicMissed, TopicOpened, TopicWanted
from pubweave.model.publications import Publication, make_publication

ANN, NORTH, SOUTH = 1, 2, 3
GAP = TopicMissed("x", "pete", ((2, 4, 3, 5.0, 2.0, False),))


def dropped(*sequences: int) -> DroppedPublications:
    made = DroppedPublications()
    for sequence in sequences:
        made.add("pete", sequence, float(sequence))
    return made


@pytest.mark.parametrize(("mark", "count"), [(0, 5), (3, 4), (4, 3), (8, 1), (9, 0)])
def test_how_many_are_missed_is_exact_for_every_mark(mark: int, count: int) -> None:
    spans = dropped(3, 4, 5, 8, 9).beyond("pete", mark, now=10.0)
    assert sum(span.count for span in spans) == count
    assert not any(span.is_at_most for span in spans)


def test_what_is_too_much_is_merged_and_a_part_of_that_is_a_bound() -> None:
    made = dropped(*range(1, 2 * MAX_SPANS + 10, 2))
    spans = made.beyond("pete", 0, now=10.0)
    assert len(spans) == MAX_SPANS
    assert sum(span.count for span in spans) == MAX_SPANS + 5
    part = made.beyond("pete", 2, now=10.0)[0]
    assert part.is_at_most


def test_what_is_long_ago_is_told_to_nobody() -> None:
    made = dropped(1)
    assert made.beyond("pete", 0, now=REMEMBERED_S) != []
    assert made.beyond("pete", 0, now=1.0 + REMEMBERED_S) == []
    made.tidy(1.0 + REMEMBERED_S)
    assert not made.spans


def pub(sequence: int) -> Publication:
    return make_publication("pete", sequence, "x", {}, b"", 0.0)


class Setup:
    """A broker with a client that wants x since 100.0, and two neighbors that take part."""

    def __init__(self, wish: str = "class = 'x'", *, has_moved: bool = False) -> None:
        config = BrokerConfig("mid", strategy="topic_connected")
        self.broker = Broker(config, epoch=1, now=0.0)
        self.now = 100.0
        for connection, name in ((NORTH, "north"), (SOUTH, "south")):
            self.broker.handle(LinkAdded(name), self.now)
            self._greet(connection, Role.BROKER, name)
        self._greet(ANN, Role.CLIENT, "ann", remote_epoch=5 if has_moved else 0)
        self.take(ANN, Subscribe("ann:1", parse_filter(wish)))
        self.number = self.broker.routing.logs["x"].number  # type: ignore[attr-defined]
        self.now = 200.0

    def _greet(
        self, connection: int, role: Role, name: str, remote_epoch: int = 0, attempt: int = 1
    ) -> None:
        self.broker.handle(ConnectionOpened(connection), self.now)
        window, routing = 1 << 20, "topic_connected"
        hello = Hello(PROTOCOL_VERSION, role, name, 7, remote_epoch, 0, window, 0, routing, attempt)
        self.take(connection, hello)

    def take(self, connection: int, *messages: Message) -> list[tuple[int, Message]]:
        return said(self.broker.handle(MessagesReceived(connection, messages, self.now), self.now))

    def open(self, connection: int, *messages: Message) -> list[tuple[int, Message]]:
        return self.take(connection, TopicOpened("x", self.number), *messages)

    def wait(self, seconds: float) -> list[tuple[int, Message]]:
        self.now += seconds
        return said(self.broker.handle(DeadlineReached(), self.now))

    @property
    def lost(self) -> tuple[int, int]:
        counters = self.broker.counters
        return counters.notifications_lost, counters.notifications_lost_at_most


def said(effects: list[Effect]) -> list[tuple[int, Message]]:
    return [(e.connection, m) for e in effects if isinstance(e, Transmit) for m in e.messages]


def to_ann(what: list[tuple[int, Message]]) -> list[object]:
    return [
        m.sequence if isinstance(m, Publication) else m
        for connection, m in what
        if connection == ANN and isinstance(m, Publication | Missed)
    ]


def test_a_gap_is_believed_if_nobody_fills_it_and_the_client_hears_of_it_in_its_place() -> None:
    setup = Setup()
    assert to_ann(setup.open(NORTH, pub(1), GAP, pub(5))) == [1]
    assert setup.lost == (0, 0)
    asked = [m for c, m in setup.wait(PATIENCE_S) if c == NORTH and isinstance(m, TopicWanted)]
    assert asked == [TopicWanted("x", setup.number, (("pete", 1),), True)]
    agreed = replace_agreed(GAP)
    told = to_ann(setup.open(NORTH, agreed, pub(5)))
    assert told == [Missed("x", "pete", 3, False), 5]
    assert setup.lost == (3, 0)
    setup.open(NORTH, agreed)
    assert setup.lost == (3, 0), "never twice"


def replace_agreed(message: TopicMissed) -> TopicMissed:
    return TopicMissed(message.topic, message.publisher, message.spans, True)


def test_who_has_more_fills_the_gap() -> None:
    setup = Setup()
    setup.open(NORTH, pub(1), GAP, pub(5))
    assert to_ann(setup.open(SOUTH, pub(2), pub(3), pub(4), pub(5))) == [2, 3, 4, 5]
    setup.wait(PATIENCE_S)
    assert to_ann(setup.open(NORTH, replace_agreed(GAP), pub(5), pub(6))) == [6]
    assert setup.lost == (0, 0)


def test_of_two_with_gaps_the_smaller_one_is_asked_first() -> None:
    setup = Setup()
    setup.open(NORTH, pub(1), GAP)
    setup.open(SOUTH, TopicMissed("x", "pete", ((2, 2, 1, 5.0, 5.0, False),)))
    asked = {c for c, m in setup.wait(PATIENCE_S) if isinstance(m, TopicWanted)}
    assert asked == {SOUTH}
    assert {c for c, m in setup.wait(PATIENCE_S) if isinstance(m, TopicWanted)} == {NORTH}


def test_what_came_before_this_broker_took_part_is_due_to_nobody_and_told_on() -> None:
    setup = Setup()
    setup.take(SOUTH, TopicWanted("x", 1))
    setup.open(SOUTH)
    old = TopicMissed("x", "pete", ((2, 4, 3, 150.0, 120.0, False),))
    answer = setup.open(NORTH, old, pub(5))
    assert [type(m) for c, m in answer if c == SOUTH] == [TopicMissed, Publication]
    assert to_ann(answer) == [5]
    assert setup.lost == (0, 0)
    again = setup.take(SOUTH, TopicWanted("x", 1))
    assert [m.spans[0][:3] for _, m in again if isinstance(m, TopicMissed)] == [(2, 4, 3)]


def test_a_client_from_another_broker_is_told_what_it_may_have_missed_on_the_way() -> None:
    setup = Setup(has_moved=True)
    just_before = TopicMissed("x", "pete", ((2, 4, 3, 105.0, 101.0, False),))
    long_before = TopicMissed("x", "paul", ((2, 4, 3, 150.0, 140.0, False),))
    assert to_ann(setup.open(NORTH, long_before, just_before)) == []
    setup.wait(PATIENCE_S)
    agreed = map(replace_agreed, (long_before, just_before))
    assert to_ann(setup.open(NORTH, *agreed)) == [Missed("x", "pete", 3, True)]
    assert setup.lost == (0, 3)


def test_with_a_filter_on_the_content_the_number_is_a_bound() -> None:
    setup = Setup("class = 'x' and price > 3")
    setup.open(NORTH, GAP)
    setup.wait(PATIENCE_S)
    told = to_ann(setup.open(NORTH, replace_agreed(GAP)))
    assert told == [Missed("x", "pete", 3, True)]
    assert setup.lost == (0, 3)


def test_a_client_reports_what_it_missed_behind_what_came_before() -> None:
    client = ClientCore("ann", epoch=1, now=0.0)
    client.handle(ConnectionOpened(1), 0.0)
    received = MessagesReceived(1, [pub(1), Missed("x", "pete", 3, False), pub(5)], 0.0)
    effects = [e for e in client.handle(received, 0.0) if isinstance(e, Notify | ReportMissed)]
    assert [type(effect) for effect in effects] == [Notify, ReportMissed, Notify]
    assert effects[1] == ReportMissed("x", "pete", 3, False)
    assert client.session.received == 3


def test_what_is_lost_to_an_mqtt_session_is_counted_and_what_comes_around_it_comes() -> None:
    broker = Broker(BrokerConfig("b1", mqtt=MqttConfig()), epoch=1, now=0.0)
    gateway = broker.mqtt
    assert gateway is not None
    end = gateway.sessions.begin("mqtt:ann", "ann", "", 0.0).end
    assert end is not None
    end.receive([pub(1), Missed("x", "pete", 3, False), pub(5)])
    notified: list[Publication] = []
    gateway.notified = lambda who, found, now: notified.extend(found if who is end else ())  # type: ignore
    broker.handle(DeadlineReached(), 0.0)
    assert [publication.sequence for publication in notified] == [1, 5]
    assert gateway.status(0.0).dropped == 3


def come_back(setup: Setup) -> list[object]:
    """What a client is told that comes from another broker and wants x."""
    setup._greet(ANN + 10, Role.CLIENT, "bob", remote_epoch=5)
    answer = setup.take(ANN + 10, Subscribe("bob:1", parse_filter("class = 'x'")))
    return [
        m.sequence if isinstance(m, Publication) else m
        for _, m in answer
        if isinstance(m, Publication | Missed)
    ]


def test_a_client_from_another_broker_is_told_what_is_kept_no_more() -> None:
    setup = Setup()
    setup.open(NORTH, *map(pub, range(1, 6)))
    logs = setup.broker.routing.logs  # type: ignore[attr-defined]
    size_bytes = pub(1).size_bytes
    logs.clean_up(setup.now, 30.0, 2 * size_bytes)
    assert come_back(setup) == [Missed("x", "pete", 3, True, 3), 4, 5]


def test_what_was_dropped_long_ago_is_told_to_no_client_unless_the_broker_slept() -> None:
    setup = Setup()
    setup.open(NORTH, pub(1), pub(2))
    logs = setup.broker.routing.logs  # type: ignore[attr-defined]
    logs.clean_up(setup.now, 30.0, pub(1).size_bytes)
    setup.now += 40.0
    assert come_back(setup) == [2]
    logs.excuse(40.0)
    setup.now += 0.1
    setup.take(ANN + 10, Unsubscribe("bob:1"))
    again = setup.take(ANN + 10, Subscribe("bob:1", parse_filter("class = 'x'")))
    assert Missed("x", "pete", 1, True, 1) in [m for _, m in again]


def test_a_client_that_comes_back_gets_no_more_than_its_queue_may_hold() -> None:
    setup = Setup()
    setup.open(NORTH, *map(pub, range(1, 6)))
    routing = setup.broker.routing
    entry = replace(routing.config.entry, queue_bytes_per_client=4 * pub(1).size_bytes)  # type: ignore[attr-defined]
    routing.config = replace(routing.config, entry=entry)  # type: ignore[attr-defined]
    assert come_back(setup) == [Missed("x", "pete", 3, True, 3), 4, 5]


def test_a_client_hears_only_of_what_it_has_not_got_elsewhere() -> None:
    client = ClientCore("ann", epoch=1, now=0.0)
    hello = Hello(PROTOCOL_VERSION, Role.BROKER, "b1", 7, 1, 0, 1 << 20, 0, "topic_connected", 1)
    client.handle(ConnectionOpened(1), 0.0)
    said: list[Message] = [
        hello,
        pub(4),
        Missed("x", "pete", 3, True, 4),
        Missed("x", "pete", 5, True, 6),
        Missed("x", "paul", 5, True, 6),
    ]
    effects = client.handle(MessagesReceived(1, said, 0.0), 0.0)
    told = [e for e in effects if isinstance(e, ReportMissed)]
    assert told == [ReportMissed("x", "pete", 2, True), ReportMissed("x", "paul", 5, True)]


def test_nothing_counts_as_lost_that_a_client_gets_again_when_it_comes_back() -> None:
    """It was elsewhere meanwhile, and its session here was not over yet."""
    setup = Setup()
    setup.open(NORTH, pub(1))
    setup._greet(ANN + 10, Role.CLIENT, "ann", remote_epoch=5, attempt=2)
    again = setup.take(ANN + 10, Subscribe("ann:1", parse_filter("class = 'x'")))
    assert [m.sequence for _, m in again if isinstance(m, Publication)] == [1]
    assert setup.lost == (0, 0)


def test_another_incarnation_of_a_client_gets_nothing_again_and_that_counts() -> None:
    setup = Setup()
    setup.open(NORTH, pub(1))
    setup._greet(ANN + 10, Role.CLIENT, "ann", attempt=2)
    assert setup.lost == (0, 1)

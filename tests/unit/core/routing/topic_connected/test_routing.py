"""The strategy `topic_connected` by itself: sessions are names, what it sends is a list."""

from __future__ import annotations

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.dataplane.outgoing import OutgoingQueue
from pubweave.core.dataplane.publishing import RouteCache
from pubweave.core.dataplane.sequences import PublisherSequences
from pubweave.core.metering.counters import Counters
from pubweave.core.routing.topic_connected.publishing import TopicPublishing
from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.access import Access
from pubweave.core.session.backpressure import FlowControl
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.errors import RefusedError
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import Advertise, SequencedMessage, Subscribe, Unsubscribe
from pubweave.model.messages.topic_connected import TopicOpened, TopicUnwanted, TopicWanted
from pubweave.model.publications import Publication, make_publication


class Setup:
    """A broker with two neighbors and a client."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, SequencedMessage]] = []
        self.routing = TopicRouting(lambda s, message: self.sent.append((s.remote, message)))
        self.counters = Counters()
        outgoing = OutgoingQueue(self.counters, FlowControl(ack_delay_s=0.05))
        self.touched = outgoing.touched
        self.publishing = TopicPublishing(
            self.routing,
            self.counters,
            None,
            outgoing,
            Access(BrokerConfig("b1")),
            PublisherSequences(self.routing.knows_publisher),
            RouteCache(),
            early=None,
            observer=None,
            tracer=None,
            on_accepted=None,
        )
        self.north, self.south = self._link("north"), self._link("south")
        self.ann = Session("ann", own_epoch=1, is_client=True, limits=SessionLimits())

    def _link(self, name: str) -> Session:
        link = Session(name, own_epoch=1, is_client=False, limits=SessionLimits())
        link.remote_epoch = 1
        self.routing.link_added(link)
        self.routing.link_began(link)
        return link

    def subscribe(self, id_: str, text: str) -> None:
        self.routing.receive(self.ann, Subscribe(id_, parse_filter(text)))

    def open(self, link: Session, topic: str) -> None:
        """A neighbor takes part, and knows that we do."""
        self.routing.receive_wanted(link, TopicWanted(topic, 1))
        self.routing.receive_wanted(link, TopicOpened(topic, self.routing.logs[topic].number))

    def take_in(self, origin: Session, *publications: Publication) -> list[str]:
        """Where publications were queued."""
        self.touched.clear()
        self.publishing.route_batch(origin, publications, lambda o, m, now: None, 0.0, 0.0)
        queued = [session.remote for session in self.touched if session.pending]
        for session in self.touched:
            session.pending.clear()
        return sorted(queued)


def publication(sequence: int, topic: str = "x", publisher: str = "p") -> Publication:
    return make_publication(publisher, sequence, topic, {}, b"", 0.0)


def test_a_publication_goes_to_all_who_take_part_but_not_back() -> None:
    setup = Setup()
    setup.subscribe("ann:1", "class = 'x'")
    setup.open(setup.north, "x")
    setup.open(setup.south, "x")
    assert setup.take_in(setup.north, publication(1)) == ["ann", "south"]


def test_who_does_not_take_part_gets_nothing() -> None:
    setup = Setup()
    setup.subscribe("ann:1", "class = 'x'")
    setup.open(setup.north, "x")
    setup.routing.receive_wanted(setup.south, TopicWanted("y", 1))
    assert setup.take_in(setup.north, publication(1)) == ["ann"]
    setup.routing.receive_wanted(setup.south, TopicWanted("x", 2))
    setup.routing.receive_wanted(setup.south, TopicUnwanted("x"))
    assert setup.take_in(setup.north, publication(2)) == ["ann"]


def test_a_copy_is_dropped_and_what_comes_too_late_is_counted() -> None:
    setup = Setup()
    setup.subscribe("ann:1", "class = 'x'")
    setup.open(setup.north, "x")
    setup.open(setup.south, "x")
    setup.take_in(setup.north, publication(1), publication(3))
    assert setup.take_in(setup.south, publication(3)) == []
    assert (setup.counters.duplicates_dropped, setup.counters.publications_lost_at_most) == (1, 0)
    assert setup.take_in(setup.south, publication(2)) == []
    assert (setup.counters.duplicates_dropped, setup.counters.publications_lost_at_most) == (2, 1)


def test_two_topics_of_a_publisher_do_not_wait_for_each_other() -> None:
    setup = Setup()
    for topic in ("x", "y"):
        setup.subscribe(f"ann:{topic}", f"class = '{topic}'")
        setup.open(setup.north, topic)
        setup.open(setup.south, topic)
    setup.take_in(setup.north, publication(2, "x"))
    assert setup.take_in(setup.south, publication(1, "y")) == ["ann", "north"]


def test_a_neighbor_gets_what_it_lacks_before_what_is_new() -> None:
    setup = Setup()
    setup.subscribe("ann:1", "class = 'x'")
    setup.open(setup.north, "x")
    setup.take_in(setup.north, publication(1), publication(2), publication(3))
    setup.sent.clear()
    setup.routing.receive_wanted(setup.south, TopicWanted("x", 7, (("p", 1),)))
    assert setup.sent == [
        ("south", TopicOpened("x", 7)),
        ("south", publication(2)),
        ("south", publication(3)),
    ]


def test_what_was_sent_for_an_earlier_part_in_a_topic_is_not_taken() -> None:
    """Else it would set the mark beyond what comes again for the new part."""
    setup = Setup()
    setup.subscribe("ann:1", "class = 'x'")
    setup.open(setup.north, "x")
    setup.routing.receive(setup.ann, Unsubscribe("ann:1"))
    setup.routing.end("x")
    setup.subscribe("ann:2", "class = 'x'")
    assert setup.take_in(setup.north, publication(9)) == []
    setup.routing.receive_wanted(setup.north, TopicOpened("x", setup.routing.logs["x"].number))
    assert setup.take_in(setup.north, publication(8), publication(9)) == ["ann"]


def test_a_link_that_begins_is_told_all_topics_and_marks() -> None:
    setup = Setup()
    setup.subscribe("ann:1", "class = 'x'")
    setup.open(setup.north, "x")
    setup.take_in(setup.north, publication(4))
    setup.sent.clear()
    setup.routing.link_began(setup.south)
    number = setup.routing.logs["x"].number
    assert setup.sent == [("south", TopicWanted("x", number, (("p", 4),)))]


@pytest.mark.parametrize("text", ["volume > 3", "class prefix 'x'", "class = 'x' and class = 'y'"])
def test_a_filter_without_one_topic_is_refused_with_the_remedy(text: str) -> None:
    setup = Setup()
    with pytest.raises(RefusedError, match="must name one as class = "):
        setup.subscribe("ann:1", text)
    with pytest.raises(RefusedError, match="routes by topic"):
        setup.routing.receive(setup.ann, Advertise("ann:2", parse_filter(text)))


def test_further_predicates_are_for_the_last_broker() -> None:
    setup = Setup()
    setup.subscribe("ann:1", "class = 'x' and volume > 3")
    setup.open(setup.north, "x")
    small = make_publication("p", 1, "x", {"volume": 1}, b"", 0.0)
    large = make_publication("p", 2, "x", {"volume": 9}, b"", 0.0)
    assert setup.take_in(setup.north, small) == []
    assert setup.take_in(setup.north, large) == ["ann"]


def test_publishing_makes_a_broker_take_part() -> None:
    setup = Setup()
    setup.routing.receive(setup.ann, Advertise("ann:1", parse_filter("class = 'x'")))
    setup.open(setup.north, "x")
    assert setup.take_in(setup.ann, publication(1, publisher="ann")) == ["north"]


def test_links_are_not_held_up_because_waiting_could_close_a_cycle() -> None:
    broker = Broker(BrokerConfig("b1", strategy="topic_connected"), epoch=1, now=0.0)
    assert broker.part(OverlayRepair) is not None
    origin, slow = Setup().north, Setup().south
    broker._flow.hold(origin, slow, 0.0)
    assert not broker._flow.is_held(origin)
    client = Setup().ann
    broker._flow.hold(client, slow, 0.0)
    assert broker._flow.is_held(client)

"""The strategy `flooding` against what it promises: everybody who wants it gets it once."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.core.config.session import SessionLimits
from pubweave.core.routing.flooding import FloodingRouting
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.vocabulary.errors import RefusedError
from pubweave.generate.topologies.trees import random_tree
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import (
    Advertise,
    SequencedMessage,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.publications import Publication, make_publication


def session(name: str, *, is_client: bool) -> Session:
    return Session(name, own_epoch=1, is_client=is_client, limits=SessionLimits())


class Brokers:
    """A tree of strategies without brokers, which hand publications on to each other."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        topology = random_tree(count, rng)
        self.sent: list[SequencedMessage] = []
        self.routings = {
            name: FloodingRouting(lambda to, message: self.sent.append(message))
            for name in topology.brokers
        }
        self.links = {
            (here, there): session(there, is_client=False)
            for here in topology.brokers
            for there in topology.neighbors[here]
        }
        for (here, _), link in self.links.items():
            self.routings[here].link_added(link)
            self.routings[here].link_began(link)

    def reached(self, broker: str, publication: Publication, origin: Session) -> list[str]:
        """The clients that get a publication, each as often as it does."""
        found = []
        for destination in self.routings[broker].route(publication, origin):
            if destination.is_client:
                found.append(destination.remote)
            else:
                there = destination.remote
                found += self.reached(there, publication, self.links[there, broker])
        return found


@pytest.mark.parametrize("seed", range(20))
def test_every_client_that_wants_a_publication_gets_it_once(seed: int) -> None:
    """The naive twin knows all subscriptions, and nothing of brokers."""
    rng = np.random.default_rng(seed)
    brokers = Brokers(rng, int(rng.integers(1, 9)))
    names = sorted(brokers.routings)
    clients = {f"c{n}": session(f"c{n}", is_client=True) for n in range(6)}
    homes = {name: names[rng.integers(len(names))] for name in clients}
    wanted: dict[str, tuple[str, Filter]] = {}
    for number in range(60):
        name = f"c{rng.integers(6)}"
        routing, client = brokers.routings[homes[name]], clients[name]
        id_ = f"{name}:{rng.integers(3)}"
        match rng.integers(4):
            case 0:
                filter_ = parse_filter(f"class = 'T' and n > {rng.integers(10)}")
                routing.receive(client, Subscribe(id_, filter_))
                wanted[id_] = name, filter_
            case 1:
                routing.receive(client, Unsubscribe(id_))
                wanted.pop(id_, None)
            case 2 if rng.random() < 0.2:
                routing.client_left(client)
                wanted = {i: (who, f) for i, (who, f) in wanted.items() if who != name}
            case _:
                publication = make_publication(name, number + 1, "T", {"n": number % 10}, b"", 0.0)
                due = {who for who, filter_ in wanted.values() if filter_.matches(publication)}
                assert sorted(brokers.reached(homes[name], publication, client)) == sorted(due)
    assert not brokers.sent


def test_only_a_client_s_own_advertisements_let_it_publish() -> None:
    routing = FloodingRouting(lambda to, message: None)
    ann, bob = session("ann", is_client=True), session("bob", is_client=True)
    publication = make_publication("ann", 1, "T", {}, b"", 0.0)
    routing.receive(ann, Advertise("ann:1", parse_filter("class = 'T'")))
    assert routing.may_publish(publication, ann)
    assert not routing.may_publish(publication, bob)
    with pytest.raises(RefusedError, match="must start with"):
        routing.receive(bob, Advertise("ann:1", parse_filter("class = 'T'")))
    assert [client.remote for client, _ in routing.client_entries()] == ["ann"]
    routing.receive(ann, Unadvertise("ann:1"))
    assert not routing.may_publish(publication, ann)
    assert not list(routing.client_entries())


def test_a_neighbor_that_was_restarted_gets_the_publications_under_way() -> None:
    sent: list[SequencedMessage] = []
    routing = FloodingRouting(lambda to, message: sent.append(message))
    link = session("north", is_client=False)
    routing.link_added(link)
    publication = make_publication("ann", 1, "T", {}, b"", 0.0)
    routing.link_began(link, [publication, Unadvertise("ann:1")])
    assert sent == [publication]
    version = routing.version
    routing.link_removed(link)
    assert routing.version > version
    assert not routing.route(publication, session("ann", is_client=True))


def test_neighbors_have_nothing_to_say_of_what_is_wanted() -> None:
    routing = FloodingRouting(lambda to, message: None)
    with pytest.raises(RemoteProtocolError, match="Subscribe is not for flooding brokers"):
        routing.receive(session("north", is_client=False), Subscribe("ann:1", Filter()))

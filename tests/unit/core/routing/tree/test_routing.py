"""The `tree` strategy by itself: sessions are names, what it sends is a list."""

from __future__ import annotations

import pytest

from pubweave.core.config.session import SessionLimits
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.core.strategies import find_strategy, strategy_names
from pubweave.core.vocabulary.errors import RefusedError
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import (
    Advertise,
    SequencedMessage,
    Subscribe,
    Synced,
    SyncStage,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.publications import make_publication


class Setup:
    """A broker with two neighbors and two clients."""

    def __init__(self, *, covering: bool = False) -> None:
        self.sent: list[tuple[str, SequencedMessage]] = []
        self.routing = TreeRouting(
            lambda session, message: self.sent.append((session.remote, message)),
            covering=covering,
        )
        self.north = self._session("north", is_client=False)
        self.south = self._session("south", is_client=False)
        self.ann = self._session("ann", is_client=True)
        self.bob = self._session("bob", is_client=True)
        self.routing.link_added(self.north)
        self.routing.link_added(self.south)
        for link in (self.north, self.south):
            self.routing.receive(link, Synced(SyncStage.SUBSCRIPTIONS))

    @staticmethod
    def _session(name: str, *, is_client: bool) -> Session:
        return Session(name, own_epoch=1, is_client=is_client, limits=SessionLimits())

    def take(self, hop: Session, message: SequencedMessage) -> list[tuple[str, SequencedMessage]]:
        """What the strategy sends because of a message."""
        self.sent.clear()
        self.routing.receive(hop, message)  # type: ignore[arg-type]
        return list(self.sent)

    def route(self, text: str, origin: Session, **attributes: int) -> list[str]:
        publication = make_publication("p", 1, text, attributes, b"", 0.0)
        return [session.remote for session in self.routing.route(publication, origin)]


def advertise(id_: str, text: str) -> Advertise:
    return Advertise(id_, parse_filter(text))


def subscribe(id_: str, text: str) -> Subscribe:
    return Subscribe(id_, parse_filter(text))


def test_an_advertisement_floods_to_every_neighbor_but_the_one_it_came_from() -> None:
    setup = Setup()
    stock = advertise("ann:1", "class = 'STOCK'")
    asked = Synced(SyncStage.ADVERTISEMENTS)
    assert setup.take(setup.ann, stock) == [
        *(("north", stock), ("south", stock)),
        *(("north", asked), ("south", asked)),
    ]
    other = advertise("x:1", "class = 'STOCK'")
    assert setup.take(setup.north, other) == [("south", other)]


def test_a_subscription_follows_only_advertisements_it_intersects() -> None:
    setup = Setup()
    setup.take(setup.north, advertise("x:1", "class = 'STOCK' and volume > 10"))
    setup.take(setup.south, advertise("y:1", "class = 'NEWS'"))
    wanted = subscribe("ann:1", "class = 'STOCK' and volume < 20")
    assert setup.take(setup.ann, wanted) == [("north", wanted)]
    assert setup.take(setup.ann, subscribe("ann:2", "class = 'STOCK' and volume < 5")) == []


def test_a_late_advertisement_draws_the_subscriptions_that_waited_for_it() -> None:
    setup = Setup()
    wanted = subscribe("ann:1", "class = 'STOCK'")
    assert setup.take(setup.ann, wanted) == []
    offered = advertise("x:1", "class = 'STOCK'")
    assert setup.take(setup.north, offered) == [("south", offered), ("north", wanted)]


def test_publications_go_where_subscriptions_came_from_and_never_back() -> None:
    setup = Setup()
    setup.take(setup.north, subscribe("x:1", "class = 'STOCK'"))
    setup.take(setup.south, subscribe("y:1", "class = 'STOCK' and volume > 10"))
    setup.take(setup.ann, subscribe("ann:1", "class = 'STOCK'"))
    assert setup.route("STOCK", setup.ann, volume=20) == ["north", "south", "ann"]
    assert setup.route("STOCK", setup.north, volume=20) == ["south", "ann"]
    assert setup.route("STOCK", setup.bob, volume=5) == ["north", "ann"]
    assert setup.route("NEWS", setup.bob) == []


def test_unadvertising_takes_back_the_subscriptions_that_only_it_needed() -> None:
    setup = Setup()
    setup.take(setup.north, advertise("x:1", "class = 'STOCK'"))
    setup.take(setup.north, advertise("x:2", "class = 'STOCK' and volume > 10"))
    setup.take(setup.ann, subscribe("ann:1", "class = 'STOCK' and volume > 50"))
    setup.take(setup.ann, subscribe("ann:2", "class = 'STOCK' and volume < 5"))
    gone = Unadvertise("x:1")
    assert setup.take(setup.north, gone) == [("south", gone), ("north", Unsubscribe("ann:2"))]


def test_with_covering_a_covered_subscription_is_not_passed_on() -> None:
    setup = Setup(covering=True)
    setup.take(setup.north, advertise("x:1", "class = 'STOCK'"))
    wide = subscribe("ann:1", "class = 'STOCK'")
    assert setup.take(setup.ann, wide) == [("north", wide)]
    assert setup.take(setup.bob, subscribe("bob:1", "class = 'STOCK' and volume > 9")) == []


def test_uncovering_passes_the_covered_on_before_the_cover_goes() -> None:
    setup = Setup(covering=True)
    setup.take(setup.north, advertise("x:1", "class = 'STOCK'"))
    setup.take(setup.ann, subscribe("ann:1", "class = 'STOCK'"))
    narrow = subscribe("bob:1", "class = 'STOCK' and volume > 9")
    narrower = subscribe("bob:2", "class = 'STOCK' and volume > 99")
    setup.take(setup.bob, narrow)
    setup.take(setup.bob, narrower)
    sent = setup.take(setup.ann, Unsubscribe("ann:1"))
    assert sent == [("north", narrow), ("north", Unsubscribe("ann:1"))]
    assert setup.take(setup.bob, Unsubscribe("bob:1")) == [
        ("north", narrower),
        ("north", Unsubscribe("bob:1")),
    ]


def test_a_wider_subscription_replaces_those_it_covers() -> None:
    setup = Setup(covering=True)
    setup.take(setup.north, advertise("x:1", "class = 'STOCK'"))
    setup.take(setup.bob, subscribe("bob:1", "class = 'STOCK' and volume > 9"))
    wide = subscribe("ann:1", "class = 'STOCK'")
    assert setup.take(setup.ann, wide) == [("north", wide), ("north", Unsubscribe("bob:1"))]


def test_a_client_that_leaves_takes_everything_with_it() -> None:
    setup = Setup()
    setup.take(setup.north, advertise("x:1", "class = 'STOCK'"))
    setup.take(setup.ann, subscribe("ann:1", "class = 'STOCK'"))
    setup.take(setup.ann, advertise("ann:2", "class = 'NEWS'"))
    setup.sent.clear()
    setup.routing.client_left(setup.ann)
    assert setup.sent == [
        ("north", Unsubscribe("ann:1")),
        ("north", Unadvertise("ann:2")),
        ("south", Unadvertise("ann:2")),
    ]
    assert setup.routing.sizes().subscriptions == 0
    assert not setup.routing.knows_publisher("ann")


def test_after_a_neighbor_began_anew_what_it_does_not_repeat_is_forgotten() -> None:
    setup = Setup()
    kept, lost = advertise("x:1", "class = 'A'"), advertise("x:2", "class = 'B'")
    wanted_a, wanted_b = subscribe("ann:1", "class = 'A'"), subscribe("ann:2", "class = 'B'")
    setup.take(setup.north, kept)
    setup.take(setup.north, lost)
    setup.take(setup.ann, wanted_a)
    setup.take(setup.ann, wanted_b)
    setup.take(setup.north, subscribe("y:1", "class = 'C'"))
    setup.sent.clear()
    setup.routing.link_began(setup.north)
    assert setup.sent == [("north", Synced(SyncStage.ADVERTISEMENTS))]
    # Told again, the subscription it draws is passed on again, for the neighbor forgot it.
    assert setup.take(setup.north, kept) == [("north", wanted_a)]
    # What it advertised before it began anew the others were never asked about.
    synced = setup.take(setup.north, Synced(SyncStage.ADVERTISEMENTS))
    assert synced == [
        ("south", Synced(SyncStage.ADVERTISEMENTS)),
        ("north", Synced(SyncStage.SUBSCRIPTIONS)),
    ]
    assert setup.routing.has_stale(setup.north)
    setup.sent.clear()
    setup.routing.forget_stale(setup.north)
    assert setup.sent == [], "it has not answered yet, and may be waiting for others itself"
    setup.take(setup.north, Synced(SyncStage.SUBSCRIPTIONS))
    setup.routing.forget_stale(setup.north)
    assert ("south", Unadvertise("x:2")) in setup.sent
    assert set(setup.routing.advertisements) == {"x:1"}
    assert set(setup.routing.subscriptions) == {"ann:1", "ann:2"}


def test_a_removed_link_takes_its_entries_with_it() -> None:
    setup = Setup()
    setup.take(setup.north, advertise("x:1", "class = 'A'"))
    setup.take(setup.north, subscribe("x:2", "class = 'A'"))
    setup.sent.clear()
    setup.routing.link_removed(setup.north)
    assert ("south", Unadvertise("x:1")) in setup.sent
    assert setup.routing.sizes().subscriptions == 0


def test_a_client_may_not_use_or_take_another_clients_names() -> None:
    setup = Setup()
    setup.take(setup.ann, subscribe("ann:1", "class = 'A'"))
    with pytest.raises(RefusedError, match="belongs to another"):
        setup.take(setup.bob, subscribe("ann:1", "class = 'B'"))
    with pytest.raises(RefusedError, match="must start with 'bob:'"):
        setup.take(setup.bob, advertise("ann:9", "class = 'B'"))
    assert setup.take(setup.bob, Unsubscribe("ann:1")) == []
    assert set(setup.routing.subscriptions) == {"ann:1"}


def test_what_a_client_itself_had_elsewhere_it_may_take_back_here() -> None:
    setup = Setup()
    setup.ann.remote_epoch = 0x1E
    offered, older = (advertise(f"ann:{epoch}.1", "class = 'STOCK'") for epoch in ("1e", "1d"))
    setup.take(setup.north, offered)
    setup.take(setup.north, older)
    setup.take(setup.ann, offered)
    assert setup.routing.advertisements["ann:1e.1"].hop is setup.ann
    with pytest.raises(RefusedError, match="another client"):
        setup.take(setup.ann, older)


def test_a_client_may_publish_what_it_advertised_and_nothing_else() -> None:
    setup = Setup()
    setup.take(setup.ann, advertise("ann:1", "class = 'A' and v > 5"))
    setup.take(setup.ann, advertise("ann:2", "class = 'B'"))

    def may(topic: str, **attributes: int) -> bool:
        publication = make_publication("ann", 1, topic, attributes, b"", 0.0)
        return setup.routing.may_publish(publication, setup.ann)

    assert may("A", v=6)
    assert not may("A", v=5)
    assert may("B")
    assert not may("C")
    assert setup.routing.may_publish_topic("B", setup.ann)
    assert not setup.routing.may_publish_topic("A", setup.ann)


def test_an_unknown_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=", ".join(strategy_names())):
        find_strategy("no-such-strategy")


def test_a_neighbor_that_has_not_answered_withdraws_nothing_that_may_cover_more() -> None:
    """It cannot tell what was covered: it may not know that yet."""
    setup = Setup(covering=True)
    setup.take(setup.ann, advertise("ann:1", "class = 'A'"))
    setup.take(setup.north, subscribe("x:1", "*"))
    setup.routing.link_began(setup.north)
    setup.take(setup.north, subscribe("x:1", "*"))
    setup.take(setup.north, Unsubscribe("x:1"))
    assert set(setup.routing.subscriptions) == {"x:1"}
    setup.take(setup.north, Synced(SyncStage.PART))
    setup.routing.forget_stale(setup.north)
    assert set(setup.routing.subscriptions) == {"x:1"}
    setup.take(setup.north, Synced(SyncStage.SUBSCRIPTIONS))
    setup.routing.forget_stale(setup.north)
    assert not setup.routing.subscriptions
    assert not setup.routing.has_stale(setup.north)

"""The self-organizing mode of whole brokers: who tells whom what, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.self_organizing import LinkPrice, OrganizeConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.self_organizing.organizer import Organizer
from pubweave.core.self_organizing.traffic_sides import TrafficSides
from pubweave.core.vocabulary.effects import ProbeBroker, ProposeExchange
from pubweave.core.vocabulary.events import (
    BrokerProbed,
    ConnectionOpened,
    DeadlineReached,
    ExchangeEnded,
    LinkAdded,
    MessagesReceived,
    OrganizingPaused,
)
from pubweave.design.ci.rules import Estimate
from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.ids import Link
from pubweave.model.messages.session import PROTOCOL_VERSION, Hello, InterestBroadcast, Role
from pubweave.model.publications import TOPIC_ATTRIBUTE
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime, SimBroker
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay

ORGANIZE = OrganizeConfig(interval_s=1.0, link_price=LinkPrice.HOPS)
BY_INTEREST = replace(ORGANIZE, estimate=Estimate.OVERLAP)
CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5"), ("b5", "b6")])
WANTED = Filter((Predicate(TOPIC_ATTRIBUTE, Operator.EQ, "t"),))


class Chain:
    """Six brokers in a row; b1 publishes what b4 wants; what brokers want done is noted."""

    def __init__(
        self,
        organize: OrganizeConfig | None = ORGANIZE,
        limits: SessionLimits | None = None,
        config_of: Callable[[str], OrganizeConfig] | None = None,
    ) -> None:
        self.world = World(1)
        limits = limits or SessionLimits()
        self.overlay = TreeOverlay(
            self.world,
            CHAIN,
            make_config=lambda name: BrokerConfig(
                name,
                organize=organize if config_of is None else config_of(name),
                limits=limits,
                ping_every_s=0.5,
                tick_s=0.5,
            ),
            handling=HandlingTime(0.0, 0.0),
        )
        self.proposed: list[tuple[str, ProposeExchange]] = []
        self.probed: list[tuple[str, ProbeBroker]] = []
        for node in self.overlay.brokers.values():
            node.on_organize = self._on_organize
        for name, home in (("p", "b1"), ("s", "b4")):
            self.overlay.join(name, home, latency_s=0.001, limits=limits)
        self.overlay.clients["p"].core.advertise(WANTED)
        self.overlay.subscribe(self.overlay.clients["s"], WANTED)
        for client in self.overlay.clients.values():
            client.flush()
        self.world.run_until(0.9)

    def _on_organize(self, node: SimBroker, effect: object) -> None:
        if isinstance(effect, ProposeExchange):
            self.proposed.append((node.name, effect))
        elif isinstance(effect, ProbeBroker):
            self.probed.append((node.name, effect))
            node.handle(BrokerProbed(effect.broker, 30.0))

    def run(self, until: float) -> None:
        """Publish ten times a second."""
        client = self.overlay.clients["p"]
        while self.world.now < until:
            client.core.publish("t", {}, b"", self.world.now)
            client.flush()
            self.world.run_until(self.world.now + 0.1)

    def core(self, broker: str) -> Broker:
        return self.overlay.brokers[broker].broker


def test_a_broker_knows_those_within_eta_hops() -> None:
    chain = Chain()
    chain.run(3.0)
    known = {name: chain.core(name).status(3.0).organizing for name in ("b1", "b3")}
    assert known["b1"] is not None
    assert known["b3"] is not None
    assert (known["b1"].known_brokers, known["b3"].known_brokers) == (4, 5)


def test_by_sides_a_broker_that_only_relays_is_left_out() -> None:
    chain = Chain()
    chain.run(4.0)
    assert chain.proposed
    _, exchange = chain.proposed[0]
    between = [broker for broker in exchange.ring[1:-1] if broker in ("b2", "b3")]
    assert between  # and b5 and b6, which have nothing to do with it, stay as they are
    assert {*exchange.ring, *exchange.removed} <= {"b1", "b2", "b3", "b4"}


def test_by_sides_broadcasts_are_small_and_requests_carry_the_filters() -> None:
    spent = {}
    for organize in (ORGANIZE, BY_INTEREST):
        chain = Chain(organize)
        for node in chain.overlay.brokers.values():
            assert node.broker.part(Organizer) is not None
            node.broker.part(Organizer)._requests.may_ask = lambda now: (
                False
            )  # tell, but do not ask
        chain.run(4.0)
        told = [chain.core(name).status(4.0).organizing for name in CHAIN.neighbors]
        spent[organize.estimate] = sum(status.bytes_out for status in told if status)
        assert sum(status.messages_out for status in told if status) > 40
    assert spent[Estimate.SIDES] < 0.8 * spent[Estimate.OVERLAP]


def test_brokers_with_different_estimates_leave_each_other_alone() -> None:
    chain = Chain(config_of=lambda name: ORGANIZE if name < "b4" else BY_INTEREST)
    chain.run(4.0)
    assert all({*exchange.ring} <= {"b1", "b2", "b3"} or not {*exchange.ring} & {"b1", "b2", "b3"}
               for _, exchange in chain.proposed)  # fmt: skip
    assert all(chain.core(name).counters.protocol_errors == 0 for name in CHAIN.neighbors)


def test_what_was_noted_while_links_changed_around_here_is_not_used() -> None:
    chain = Chain()
    chain.run(3.0)
    decider, exchange = chain.proposed[0]
    node = chain.overlay.brokers[decider]
    cache = node.broker.part(Organizer).cache  # type: ignore[union-attr]
    assert isinstance(cache, TrafficSides)
    assert cache.sound_span() is not None
    node.handle(ExchangeEnded(exchange.request_id, True, ""))
    chain.run(3.4)
    assert cache.sound_span() is None


def test_a_window_with_too_much_in_it_is_told_in_the_status() -> None:
    chain = Chain(replace(ORGANIZE, cache_entries=3))
    chain.run(4.0)
    status = chain.core("b2").status(4.0).organizing
    assert status is not None
    assert status.windows_overflowed >= 2
    assert not chain.proposed


def test_two_brokers_that_share_all_traffic_ask_for_a_link_of_their_own() -> None:
    chain = Chain(BY_INTEREST)
    chain.run(3.0)
    assert chain.proposed
    decider, exchange = chain.proposed[0]
    assert {exchange.ring[0], exchange.ring[-1]} == {"b1", "b4"}
    assert exchange.ring[-1] == decider
    assert exchange.removed in {Link("b1", "b2"), Link("b2", "b3"), Link("b3", "b4")}


def test_while_an_exchange_is_under_way_its_brokers_agree_to_no_other() -> None:
    chain = Chain()
    while not chain.proposed:
        chain.run(chain.world.now + 0.1)
    chain.run(chain.world.now + 0.3)  # now all of them know
    agreed = len(chain.proposed)
    chain.run(6.0)
    assert len(chain.proposed) == agreed
    for decider, exchange in chain.proposed:
        node = chain.overlay.brokers[decider]
        node.handle(ExchangeEnded(exchange.request_id, False, "somebody else came before"))
    chain.run(10.0)
    assert len(chain.proposed) > agreed
    status = node.broker.status(10.0).organizing
    assert status is not None
    assert status.failed == 1


def test_with_round_trip_times_brokers_are_probed_before_they_are_asked_for() -> None:
    chain = Chain(replace(ORGANIZE, link_price=LinkPrice.RTT, broker_price=1.0))
    chain.run(6.0)
    asked = {(name, effect.broker) for name, effect in chain.probed}
    assert ("b1", "b4") in asked
    assert ("b1", "b2") not in asked  # a neighbor's time is measured anyhow
    assert chain.proposed


def test_a_paused_broker_is_silent() -> None:
    chain = Chain()
    for node in chain.overlay.brokers.values():
        node.handle(OrganizingPaused(True))
    chain.run(1.5)  # what was under way is passed on to its end
    before = [chain.core(name).status(1.5).organizing for name in CHAIN.neighbors]
    chain.run(4.0)
    assert [chain.core(name).status(4.0).organizing for name in CHAIN.neighbors] == before


@pytest.mark.parametrize("organize", [ORGANIZE, BY_INTEREST])
def test_where_nothing_flows_nothing_is_said_and_it_goes_on_when_something_does(
    organize: OrganizeConfig,
) -> None:
    chain = Chain(organize)

    def messages() -> int:
        told = [chain.core(name).status(chain.world.now).organizing for name in CHAIN.neighbors]
        return sum(status.messages_out for status in told if status)

    chain.run(4.0)
    chain.world.run_until(8.0)
    before = messages()
    chain.world.run_until(60.0)
    assert messages() == before > 40
    chain.run(66.0)
    assert messages() > before + 40


def test_without_the_mode_nothing_is_said_and_nothing_is_due() -> None:
    chain = Chain(organize=None)
    assert chain.core("b1").part(Organizer) is None
    chain.run(3.0)
    assert chain.core("b1").status(3.0).organizing is None
    assert not chain.proposed


def test_a_broadcast_that_does_not_fit_the_window_is_dropped_not_queued() -> None:
    tiny = SessionLimits(window_bytes=400, congested_bytes=2000, relieved_bytes=400)
    chain = Chain(limits=tiny)
    chain.run(3.0)
    status = chain.core("b1").status(3.0).organizing
    assert status is not None
    assert status.broadcasts_dropped > 0
    assert status.messages_out == 0


def test_deadlines_always_lie_ahead() -> None:
    """Moments are multiples of the interval plus an offset: rounding must not name the past."""
    organize = replace(ORGANIZE, interval_s=0.7)
    broker = Broker(BrokerConfig("b17", organize=organize), epoch=1, now=1000.1)
    now = 1000.1
    for _ in range(500):
        due = broker.next_deadline()
        assert due > now
        now = due
        broker.handle(DeadlineReached(), now)
    assert now < 1000.1 + 500 * 0.7


@pytest.fixture
def linked() -> tuple[Broker, int]:
    """A self-organizing broker b1 and the connection of its neighbor b2."""
    broker = Broker(BrokerConfig("b1", organize=ORGANIZE), epoch=1, now=0.0)
    broker.handle(LinkAdded("b2"), 0.0)
    broker.handle(ConnectionOpened(1, "b2"), 0.0)
    hello = Hello(
        PROTOCOL_VERSION, Role.BROKER, "b2", 5, 0, 0, 1 << 20, routing=broker.routing.protocol
    )
    broker.handle(MessagesReceived(1, [hello], 0.0), 0.0)
    return broker, 1


@pytest.mark.parametrize(
    "message",
    [
        InterestBroadcast(0, 3, ("b9",), (1.0,), (), (), 1024, 3, b""),
        InterestBroadcast(0, 16, ("b2",), (1.0,), (), (), 1024, 3, b""),
    ],
)
def test_a_neighbor_that_talks_nonsense_is_cut_off(
    linked: tuple[Broker, int], message: InterestBroadcast
) -> None:
    broker, connection = linked
    broker.handle(MessagesReceived(connection, [message], 1.0), 1.0)
    assert broker.counters.protocol_errors == 1


def test_a_broker_that_does_not_organize_ignores_those_that_do() -> None:
    broker = Broker(BrokerConfig("b1"), epoch=1, now=0.0)
    broker.handle(LinkAdded("b2"), 0.0)
    broker.handle(ConnectionOpened(1, "b2"), 0.0)
    hello = Hello(
        PROTOCOL_VERSION, Role.BROKER, "b2", 5, 0, 0, 1 << 20, routing=broker.routing.protocol
    )
    told = InterestBroadcast(0, 3, ("b2",), (1.0,), (), (), 1024, 3, b"")
    broker.handle(MessagesReceived(1, [hello, told], 0.0), 0.0)
    assert broker.counters.protocol_errors == 0

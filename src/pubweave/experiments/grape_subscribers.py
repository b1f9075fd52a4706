"""Subscribers that move together with GRAPE's publishers, in the same simulated overlay.

From time to time `design.subscriber_placement` looks at where everybody is and at what publishers
said lately, and the brokers are asked to migrate the subscribers that should move, as an operator
would ask them. Publishers go on moving by themselves in between, so both alternate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from pubweave.core.events import MigrationRequested
from pubweave.design.relocation_rules import Preference
from pubweave.design.subscriber_placement import (
    PlacedSubscriber,
    SubscriberProblem,
    place_subscribers,
)
from pubweave.experiments.grape_setting import StockWorld
from pubweave.generate.stocks import StockPublisher
from pubweave.model.filters import Filter
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.publications import make_publication
from pubweave.sim.nodes import HandlingTime
from pubweave.sim.overlay import SimOverlay

TRACED = 100
ROOM = 1.5
"""A broker takes at most this many times its share of all clients."""


def move_subscribers(
    overlay: SimOverlay, world: StockWorld, preference: Preference, handling: HandlingTime
) -> int:
    """Ask for the migrations of all subscribers that should be elsewhere; how many."""
    clients = len(overlay.clients)
    problem = SubscriberProblem(
        topology=world.topology,
        hop_ms=hop_delays(world, handling),
        publisher_at={p.client: overlay.clients[p.client].home.name for p in publishers(world)},
        subscribers=tuple(_placed(overlay, world)),
        most_clients=math.ceil(ROOM * clients / len(overlay.brokers)),
        preference=preference,
    )
    moves = place_subscribers(problem)
    for client, destination in moves.items():
        overlay.clients[client].home.take(MigrationRequested(client, destination))
    return len(moves)


def publishers(world: StockWorld) -> tuple[StockPublisher, ...]:
    return world.workload.publishers


def hop_delays(world: StockWorld, handling: HandlingTime) -> dict[tuple[BrokerId, BrokerId], float]:
    """What a hop takes: handling and the link."""
    at_broker_ms = 1000.0 * (handling.per_message_s + handling.per_match_s)
    return {
        way: at_broker_ms + latency_ms
        for link, latency_ms in world.topology.latency_ms.items()
        for way in ((link.a, link.b), (link.b, link.a))
    }


def _placed(overlay: SimOverlay, world: StockWorld) -> list[PlacedSubscriber]:
    pings: dict[BrokerId, Mapping[BrokerId, float]] = {}
    wanted: dict[tuple[ClientId, Filter], int] = {}
    publisher_of = {p.symbol: p for p in publishers(world)}
    found = []
    for subscriber in world.workload.subscribers:
        publisher = publisher_of[subscriber.symbol]
        key = (publisher.client, subscriber.filter)
        if key not in wanted:
            wanted[key] = _bits(world, publisher, subscriber.filter)
        machine = world.machine_of(subscriber.symbol)
        if machine not in pings:
            pings[machine] = {b: 2 * world.client_ms(machine, b) for b in world.brokers}
        home = overlay.clients[subscriber.client].home.name
        bits = {publisher.client: wanted[key]}
        found.append(PlacedSubscriber(subscriber.client, home, bits, pings[machine]))
    return found


def _bits(world: StockWorld, publisher: StockPublisher, filter_: Filter) -> int:
    """Which of a publisher's first publications a filter matches."""
    bits = 0
    said = itertools.islice(world.workload.publications(publisher), TRACED)
    for place, (topic, attributes) in enumerate(said):
        publication = make_publication(publisher.client, 1, topic, dict(attributes), b"", 0.0)
        if filter_.matches(publication):
            bits |= 1 << place
    return bits

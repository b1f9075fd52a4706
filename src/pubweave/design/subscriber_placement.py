"""Subscribers at brokers near the publishers whose traffic they share: GRAPE's missing half.

The paper moves publishers only and leaves subscribers to future work. Here a subscriber is moved
to the broker where it adds the fewest messages and has the least delay, by the same rule of
priority and weight, with one limit that publishers do not need: a broker takes no more than
``most_clients``. Without it everybody would end at the publisher's broker.

What a subscriber adds at a broker are, on the way from each of its publishers, the publications
that nobody at or behind a broker wants but it. One pass down the tree prices all brokers:
O(brokers x words of a bit vector) for each subscriber and publisher. A move must be strictly
better by the rule, so with a weight of 100 the cost falls with each, and it ends; with other
weights rounds are bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pubweave.design.relocation_rules import Preference
from pubweave.design.selection import rank
from pubweave.design.traffic import DesignError, Floats
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.topology import Topology, validate_tree

MOST_ROUNDS = 10


@dataclass(frozen=True)
class PlacedSubscriber:
    """A subscriber, where it is, and which of each publisher's traced publications it wants."""

    client: ClientId
    broker: BrokerId
    wanted: Mapping[ClientId, int]
    """Bit n: publication n of that publisher's trace."""
    ping_ms: Mapping[BrokerId, float]
    """Round trips to the brokers it may move to."""


@dataclass(frozen=True)
class SubscriberProblem:
    """A tree, the delay over a hop, where publishers and subscribers are."""

    topology: Topology
    hop_ms: Mapping[tuple[BrokerId, BrokerId], float]
    publisher_at: Mapping[ClientId, BrokerId]
    subscribers: tuple[PlacedSubscriber, ...]
    most_clients: int
    preference: Preference

    def __post_init__(self) -> None:
        validate_tree(self.topology)
        if self.most_clients < 1:
            raise DesignError("most_clients must be at least 1")


def place_subscribers(problem: SubscriberProblem) -> dict[ClientId, BrokerId]:
    """Who should move, and where to; those who should stay are not in it."""
    subscribers = {subscriber.client: subscriber for subscriber in problem.subscribers}
    trees = {
        publisher: _WantedTree(problem, broker)
        for publisher, broker in problem.publisher_at.items()
    }
    for subscriber in subscribers.values():
        for publisher, bits in subscriber.wanted.items():
            trees[publisher].add(subscriber.broker, bits)
    clients = Counter(subscriber.broker for subscriber in subscribers.values())
    clients.update(problem.publisher_at.values())
    for _ in range(MOST_ROUNDS):
        moves = 0
        for client, subscriber in subscribers.items():
            best = _best_broker(subscriber, trees, clients, problem)
            if best != subscriber.broker:
                _move(subscriber, best, trees, clients)
                subscribers[client] = replace(subscriber, broker=best)
                moves += 1
        if not moves:
            break
    return {
        before.client: subscribers[before.client].broker
        for before in problem.subscribers
        if subscribers[before.client].broker != before.broker
    }


def _best_broker(
    subscriber: PlacedSubscriber,
    trees: Mapping[ClientId, _WantedTree],
    clients: Counter[BrokerId],
    problem: SubscriberProblem,
) -> BrokerId:
    """The broker by the rule, among those with room; only a strict improvement leaves the own."""
    own = subscriber.broker
    with_room = {b for b in subscriber.ping_ms if clients[b] < problem.most_clients}
    names = sorted(with_room & problem.topology.brokers | {own})
    load, delay = np.zeros(len(names)), np.zeros(len(names))
    deliveries = sum(bits.bit_count() for bits in subscriber.wanted.values())
    if not deliveries:
        return own
    for publisher, bits in subscriber.wanted.items():
        tree = trees[publisher]
        added, way_ms = tree.added_without(own, bits)
        load += np.array([added[broker] for broker in names], dtype=np.float64)
        share = bits.bit_count() / deliveries
        delay += share * np.array([way_ms[broker] for broker in names])
    pings: Floats = np.array([subscriber.ping_ms.get(broker, 0.0) / 2 for broker in names])
    best = rank(load, delay + pings, problem.preference)[2]
    chosen = [names[place] for place in np.flatnonzero(best)]
    return own if own in chosen else min(chosen)


def _move(
    subscriber: PlacedSubscriber,
    destination: BrokerId,
    trees: Mapping[ClientId, _WantedTree],
    clients: Counter[BrokerId],
) -> None:
    clients[subscriber.broker] -= 1
    clients[destination] += 1
    for publisher, bits in subscriber.wanted.items():
        trees[publisher].remove(subscriber.broker, bits)
        trees[publisher].add(destination, bits)


class _WantedTree:
    """The tree of one publisher: what is wanted at and behind each broker."""

    def __init__(self, problem: SubscriberProblem, root: BrokerId) -> None:
        self._above: dict[BrokerId, BrokerId | None] = {root: None}
        self.way_ms: dict[BrokerId, float] = {root: 0.0}
        order = [root]
        for broker in order:
            for neighbor in problem.topology.neighbors[broker]:
                if neighbor not in self._above:
                    self._above[neighbor] = broker
                    hop_ms = problem.hop_ms.get((broker, neighbor), 0.0)
                    self.way_ms[neighbor] = self.way_ms[broker] + hop_ms
                    order.append(neighbor)
        self._order = order
        self._below: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in order}
        for broker, above in self._above.items():
            if above is not None:
                self._below[above].append(broker)
        self._own: dict[BrokerId, Counter[int]] = {broker: Counter() for broker in order}
        self._behind: dict[BrokerId, int] = dict.fromkeys(order, 0)

    def add(self, broker: BrokerId, bits: int) -> None:
        self._own[broker][bits] += 1
        self._renew(broker)

    def remove(self, broker: BrokerId, bits: int) -> None:
        self._own[broker][bits] -= 1
        if not self._own[broker][bits]:
            del self._own[broker][bits]
        self._renew(broker)

    def _renew(self, broker: BrokerId | None) -> None:
        """Put together anew what is wanted behind the brokers from here to the publisher."""
        while broker is not None:
            behind = 0
            for bits in self._own[broker]:
                behind |= bits
            for below in self._below[broker]:
                behind |= self._behind[below]
            self._behind[broker] = behind
            broker = self._above[broker]

    def added_without(
        self, own: BrokerId, bits: int
    ) -> tuple[dict[BrokerId, int], dict[BrokerId, float]]:
        """Messages that a subscriber would add at each broker, were it not where it is."""
        self.remove(own, bits)
        added: dict[BrokerId, int] = {}
        for broker in self._order:
            above = self._above[broker]
            so_far = 0 if above is None else added[above]
            added[broker] = so_far + (bits & ~self._behind[broker]).bit_count()
        self.add(own, bits)
        return added, self.way_ms

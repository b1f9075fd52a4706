"""Subscribers at brokers near the publishers whose traffic they share: GRAPE's missing half.

The paper moves publishers only and leaves subscribers to future work. Here a subscriber is moved
to the broker where it adds the fewest messages and has the least delay, by the same rule of
priority and weight, with one limit that publishers do not need: a broker takes no more than
``most_clients``. Without it everybody would end at the publisher's broker.

What a subscriber adds at a broker are, on the way from each of its publishers, the publications
that nobody at or behind a broker wants but it. One pass down the tree prices all brokers:
O(brokers x words of a bit vector) for each subscriber and publisher. A move must be strictly
better by the rule, so with a weight of 100 the cost falls with each, and it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pubweave.design.relocation.rules import Preference, Selection, choose
from pubweave.design.tree.traffic import DesignError
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.topology import Topology, validate_tree


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
    others: Mapping[ClientId, Mapping[BrokerId, int]] = field(default_factory=dict)
    """By publisher and broker: what clients want that stay where they are."""
    clients_at: Mapping[BrokerId, int] | None = None
    """All clients of each broker; None: only those named here."""
    weights: Mapping[ClientId, float] = field(default_factory=dict)
    """What a publication of a publisher's trace counts, if not 1: their rates may differ."""
    least_gain: float = 0.0
    """A move has to lower what decides it by this share at least."""

    def __post_init__(self) -> None:
        validate_tree(self.topology)
        if self.most_clients < 1:
            raise DesignError("most_clients must be at least 1")


class SubscriberPlacement:
    """The placement of a problem's subscribers, changed by one move after the other.

    >>> tree = Topology.from_links([("b1", "b2")])
    >>> far = PlacedSubscriber("s", "b2", {"p": 0b11}, {"b1": 0.0, "b2": 0.0})
    >>> problem = SubscriberProblem(tree, {}, {"p": "b1"}, (far,), 9, Preference())
    >>> SubscriberPlacement(problem).choose("s").choice
    'b1'
    """

    def __init__(self, problem: SubscriberProblem) -> None:
        self._problem = problem
        self.subscribers = {each.client: each for each in problem.subscribers}
        self._trees = {
            publisher: WantedTree(problem.topology, problem.hop_ms, broker)
            for publisher, broker in problem.publisher_at.items()
        }
        for publisher, wanted in problem.others.items():
            for broker, bits in wanted.items():
                self._trees[publisher].add(broker, bits)
        for subscriber in self.subscribers.values():
            for publisher, bits in subscriber.wanted.items():
                self._trees[publisher].add(subscriber.broker, bits)
        if problem.clients_at is not None:
            self.clients = Counter(problem.clients_at)
        else:
            self.clients = Counter(each.broker for each in self.subscribers.values())
            self.clients.update(problem.publisher_at.values())

    def choose(self, client: ClientId) -> Selection:
        """The broker by the rule, among those with room; only a strict improvement leaves the own.

        O(brokers x words of a bit vector) for each publisher of the subscriber."""
        problem, subscriber = self._problem, self.subscribers[client]
        own = subscriber.broker
        with_room = {b for b in subscriber.ping_ms if self.clients[b] < problem.most_clients}
        names = sorted(with_room & problem.topology.brokers | {own})
        load, delay = np.zeros(len(names)), np.zeros(len(names))
        deliveries = 0.0
        for publisher, bits in subscriber.wanted.items():
            tree, weight = self._trees[publisher], problem.weights.get(publisher, 1.0)
            added = tree.added_without(own, bits)
            load += weight * np.array([added[broker] for broker in names], dtype=np.float64)
            share = weight * bits.bit_count()
            delay += share * np.array([tree.way_ms[broker] for broker in names])
            deliveries += share
        preference, ping_ms = problem.preference, subscriber.ping_ms
        selection = choose(names, load, delay, deliveries, own, ping_ms, preference)
        return selection.unless_less_than(problem.least_gain)

    def move(self, client: ClientId, destination: BrokerId) -> None:
        """The subscriber is there from here on."""
        subscriber = self.subscribers[client]
        self.clients[subscriber.broker] -= 1
        self.clients[destination] += 1
        for publisher, bits in subscriber.wanted.items():
            self._trees[publisher].remove(subscriber.broker, bits)
            self._trees[publisher].add(destination, bits)
        self.subscribers[client] = replace(subscriber, broker=destination)


class WantedTree:
    """The tree of one publisher, rooted at its broker.

    >>> tree = WantedTree(Topology.from_links([("b1", "b2"), ("b2", "b3")]), {}, "b1")
    >>> tree.add("b3", 0b0111)
    >>> tree.added(0b1100)
    {'b1': 1, 'b2': 2, 'b3': 3}
    """

    def __init__(
        self, topology: Topology, hop_ms: Mapping[tuple[BrokerId, BrokerId], float], root: BrokerId
    ) -> None:
        self._above: dict[BrokerId, BrokerId | None] = {root: None}
        self.way_ms: dict[BrokerId, float] = {root: 0.0}
        """From the publisher's broker to each."""
        order = [root]
        for broker in order:
            for neighbor in topology.neighbors[broker]:
                if neighbor not in self._above:
                    self._above[neighbor] = broker
                    way_ms = self.way_ms[broker] + hop_ms.get((broker, neighbor), 0.0)
                    self.way_ms[neighbor] = way_ms
                    order.append(neighbor)
        self._order = order
        self._below: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in order}
        for broker, above in self._above.items():
            if above is not None:
                self._below[above].append(broker)
        self._own: dict[BrokerId, Counter[int]] = {broker: Counter() for broker in order}
        self._behind: dict[BrokerId, int] = dict.fromkeys(order, 0)

    def add(self, broker: BrokerId, bits: int) -> None:
        """A client there wants these publications. O(depth x degree)."""
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

    def added(self, bits: int) -> dict[BrokerId, int]:
        """Messages that one more client would add, by the broker it is at. O(brokers)."""
        added: dict[BrokerId, int] = {}
        for broker in self._order:
            above = self._above[broker]
            so_far = 0 if above is None else added[above]
            added[broker] = so_far + (bits & ~self._behind[broker]).bit_count()
        return added

    def added_without(self, own: BrokerId, bits: int) -> dict[BrokerId, int]:
        """The same for a client that is counted already, were it not where it is."""
        self.remove(own, bits)
        added = self.added(bits)
        self.add(own, bits)
        return added

"""What publications cost on any overlay with a route between any two brokers.

A topic has a root; its tree is the union of the routes from the root to all brokers that want it.
That is what rendezvous on Chord, Bayeux on Tapestry and GeoPS' hierarchy have in common, so that
they can be compared by the same counts: Eqs. 3 and 4 of DYNATOPS, and the way from a publisher to
the root besides.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import add

import numpy as np

from pubweave.design.dynatops._kernels import trees as kernels
from pubweave.design.dynatops._kernels.trees import Flags, Floats, Indices, Integers
from pubweave.design.dynatops.mapping.ring import Ring


@dataclass(frozen=True, eq=False)
class Publications:
    """Publications one by one: the publisher's broker, the topic, and what its access takes."""

    brokers: Integers
    topics: Integers
    access: Floats

    @classmethod
    def of(cls, brokers: Integers, topics: Integers) -> Publications:
        """From publishers at their brokers' doors."""
        return cls(brokers, topics, np.zeros(len(brokers)))


@dataclass(frozen=True)
class Notified:
    """What some publications have cost in all.

    >>> Notified(2, 10, 3, 6.0, 4.0, 4).messages_each
    5.0
    """

    publications: int
    messages: float
    """Those from publishers to roots among them."""
    relayed: float
    """Messages to brokers in a tree that do not want its topic."""
    delay: float
    """From publishers to users, summed over users."""
    tree_delay: float
    """From the roots on: what Eq. 4 counts. Without roots, all of it."""
    deliveries: float

    @property
    def messages_each(self) -> float:
        return self.messages / max(1, self.publications)

    @property
    def mean_delay(self) -> float:
        return self.delay / max(1.0, self.deliveries)

    @property
    def mean_tree_delay(self) -> float:
        return self.tree_delay / max(1.0, self.deliveries)

    def __add__(self, other: Notified) -> Notified:
        return Notified(*map(add, astuple(self), astuple(other)))


NOTHING = Notified(0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class RoutedOverlay:
    """Routes between all brokers, and the root of each topic."""

    parents: Indices
    """By start and end: the broker before the end."""
    hops: Indices
    delays: Floats
    roots: Integers
    """By topic."""

    @classmethod
    def of(cls, parents: Indices, roots: Integers, rtt: Floats | None = None) -> RoutedOverlay:
        """A hop takes its round trip, or 1 without any. O(n^2 * hops)."""
        hops = np.zeros(parents.shape, np.int32)
        kernels.count_hops(parents, hops)
        delays = np.zeros(parents.shape) if rtt is not None else hops.astype(np.float64)
        if rtt is not None:
            kernels.add_delays(parents, hops, rtt, delays)
        return cls(parents, hops, delays, roots)

    @classmethod
    def on_ring(
        cls, routes: RingRoutes, roots: Integers, mapping: Integers, rtt: Floats | None = None
    ) -> RoutedOverlay:
        """Brokers at the positions of a mapping; ``roots`` are positions."""
        broker_at = np.argsort(mapping)
        parents = broker_at[routes.parents[np.ix_(mapping, mapping)]].astype(np.int32)
        hops = routes.hops[np.ix_(mapping, mapping)]
        delays = np.zeros(hops.shape) if rtt is not None else hops.astype(np.float64)
        if rtt is not None:
            kernels.add_delays(parents, hops, rtt, delays)
        return cls(parents, hops, delays, broker_at[roots])

    @property
    def hops_to_roots(self) -> Floats:
        """By topic and broker; control messages of a broker that comes or goes."""
        return self.hops[self.roots].astype(np.float64)

    def notify(
        self,
        wanted: Flags,
        users: Indices,
        publications: Publications,
        access: Floats | None = None,
    ) -> Notified:
        """Send publications to all users that want them.

        ``wanted`` and ``users`` are by broker and topic, ``access`` by topic: what the ways
        between its users and their brokers take in all. O(tree sizes + n |P|)."""
        messages, relays = np.zeros(len(self.roots), np.int64), np.zeros(len(self.roots), np.int64)
        kernels.tree_sizes(self.parents, self.roots, wanted, messages, relays)
        topics, brokers = publications.topics, publications.brokers
        roots = self.roots[topics]
        reached = users.sum(axis=0, dtype=np.float64)
        waited = (users * self.delays[self.roots].T).sum(axis=0)
        if access is not None:
            waited = waited + access
        first_ways = self.delays[brokers, roots] + publications.access
        return Notified(
            len(topics),
            float((messages[topics] + self.hops[brokers, roots]).sum()),
            float(relays[topics].sum()),
            float((waited[topics] + reached[topics] * first_ways).sum()),
            float(waited[topics].sum()),
            float(reached[topics].sum()),
        )


@dataclass(frozen=True, eq=False)
class RingRoutes:
    """Chord's routes between all positions, whoever is there."""

    parents: Indices
    hops: Indices

    @classmethod
    def of(cls, ring: Ring) -> RingRoutes:
        """O(n^2 log n) time, 8 bytes for each pair."""
        parents = np.zeros((ring.size, ring.size), np.int32)
        hops = np.zeros((ring.size, ring.size), np.int32)
        everywhere = np.arange(ring.size, dtype=np.int64)
        kernels.grow_trees(ring.fingers, everywhere, parents, hops)
        return cls(parents, hops)

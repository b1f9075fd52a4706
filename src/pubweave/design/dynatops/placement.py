"""Which broker hosts which user (DYNATOPS section 4): similar ones together, none overloaded.

Utility is Sim - w_l L: Sim the share of the user's topics that the broker wants already, L the
broker's share of all subscriptions of the users placed so far. A user asks within one cluster of
brokers; of equal brokers it gets the least loaded one (otherwise the first users would all land on
one). With w_l > 0 a joining user never goes to a broker whose L is more than 1/w_l above the least
of the cluster; so after all have joined, the L of a cluster's brokers differ by at most
1/w_l + |s_u| / (all subscriptions).

Two additions to the paper's rule are here. A *careful* user goes elsewhere only if that spares more
topics there than its old broker would give up for it. A broker that *lingers* stays for some rounds
in the tree of a topic that none of its users wants any more: with r publications per round that
costs r messages each, leaving and coming back costs two ways to the rendezvous; who waits until
both are the same pays at most twice the least possible (ski rental).

**Lasting placement** goes by the rule of `placement_rule`, in large clusters that hear of each
other through one. The utility of a broker for a user is the mean worth of the user's topics there,
minus a weight times the broker's load over the mean load of its cluster. A user that has changed
its topics is placed by its own broker. That one knows itself as it is and without the user; of the
others it knows what it was told last. Whom it has sent to one of them since counts there, several
times: others have the same news and send users there, too (`senders`). A user stays unless another
broker has more utility by `least_gain`.

With a weight w > 0 a joining user never goes to a broker whose load is more than
`MOST_DIFFERENCE` / w means above the least of the cluster.

In place of everybody telling everybody, c(c - 1) messages per T_update, each broker tells one, and
that one tells all: 2(c - 1). A message then is as long as a cluster's digest. So clusters can have
a hundred brokers, and T_update can be half an hour.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from pubweave.design.dynatops._kernels import lasting as lasting_kernels
from pubweave.design.dynatops._kernels import users as kernels
from pubweave.design.dynatops._kernels.trees import Flags, Floats, Indices, Integers
from pubweave.design.dynatops._kernels.users import leave_idle
from pubweave.design.dynatops.placement_rule import LAST_ONE, WORTHS
from pubweave.design.tree.traffic import DesignError

STATIC = -1.0
"""In the place of w_l: users stay where they are, whatever they want (Bayeux, TCO)."""


@dataclass(frozen=True)
class PlacementRule:
    """w_l, and what goes beyond the paper; the defaults are the paper's."""

    load_weight: float
    least_gain: float = 0.0
    """How much more utility another broker must have for a user to move."""
    is_careful: bool = False
    linger: int = 0
    """Rounds; 0 leaves a tree at once."""

    @property
    def packed(self) -> kernels.UserRule:
        return kernels.UserRule(
            float(self.load_weight), float(self.least_gain), self.is_careful, self.linger
        )


STAY = PlacementRule(STATIC)


@dataclass(frozen=True, eq=False)
class Clusters:
    """Brokers in clusters of about the same size, neighbors together."""

    starts: Integers
    members: Integers

    @classmethod
    def of(cls, brokers: int, size: int) -> Clusters:
        """
        >>> clusters = Clusters.of(7, 3)
        >>> clusters.starts.tolist()
        [0, 4, 7]
        """
        count = max(1, brokers // size)
        parts = np.array_split(np.arange(brokers, dtype=np.int64), count)
        starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return cls(starts, np.arange(brokers, dtype=np.int64))

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def pairs(self) -> int:
        """Messages when each broker tells all others of its cluster something."""
        sizes = np.diff(self.starts)
        return int((sizes * (sizes - 1)).sum())

    @property
    def round_trips(self) -> int:
        """Messages when each broker tells one of its cluster, and that one tells all the others
        what it was told."""
        return int(2 * (np.diff(self.starts) - 1).sum())


def nobody_hosted(users: int, brokers: int, topics: int) -> kernels.Hosting:
    """Before anybody has joined."""
    shape = (brokers, topics)
    return kernels.Hosting(
        np.full(users, -1, np.int64),
        np.zeros(shape, np.int32),
        np.zeros(shape, np.uint8),
        np.zeros(shape, np.int32),
        np.zeros(brokers, np.int64),
        np.zeros(3, np.int64),
        np.zeros(shape, np.int32),
    )


@dataclass(frozen=True, eq=False)
class HostedUsers(ABC):
    """Users at brokers, and what has changed since they were first placed."""

    hosting: kernels.Hosting
    cluster_of: Integers
    """By user; whoever simulates people that travel changes it."""

    @abstractmethod
    def change(self, users: Integers, old: Indices, new: Indices) -> None:
        """Users take new topics for all their old ones, and are placed again."""

    @abstractmethod
    def tell(self) -> None:
        """Once per T_update: brokers of a cluster learn of each other. O(brokers * topics)."""

    @abstractmethod
    def end_round(self) -> None:
        """Brokers leave trees in which they have lingered long enough. O(brokers * topics)."""

    def host(self, users: Integers, old: Indices, new: Indices, brokers: Integers) -> None:
        """Users take new topics, and go to these brokers."""
        kernels.host_some(self.hosting, users, old, new, brokers)

    @property
    def broker_of(self) -> Integers:
        return self.hosting.broker_of

    @property
    def loads(self) -> Floats:
        """L_b by broker."""
        load = self.hosting.load
        return load / max(1, int(load.sum()))

    @property
    def subscription_changes(self) -> int:
        """How often a broker began or ended to want a topic since the first placement."""
        return int(self.hosting.changes[:2].sum())

    @property
    def handovers(self) -> int:
        return int(self.hosting.changes[2])

    def forget_changes(self) -> None:
        """What counts as change comes from here on."""
        self.hosting.changes[:] = 0
        self.hosting.change_counts[:] = 0

    def take_changes(self) -> Indices:
        """By broker and topic: how often it began or ended to be wanted since the last time."""
        counts = self.hosting.change_counts.copy()
        self.hosting.change_counts[:] = 0
        return counts

    def wanted_topics(self) -> list[Integers]:
        """The topics of each broker."""
        return [np.flatnonzero(row) for row in self.hosting.wanted]


@dataclass(frozen=True, eq=False)
class UserPlacement(HostedUsers):
    """Users at brokers by the paper's rule; kernels change the arrays.

    >>> users = np.array([[0, 1], [2, 3], [0, 1], [3, 2]], np.int32)
    >>> rule = PlacementRule(load_weight=1.0)
    >>> placed = UserPlacement.joined(users, np.zeros(4, np.int64), Clusters.of(2, 2), 4, rule)
    >>> placed.broker_of.tolist()
    [0, 1, 0, 1]
    """

    clusters: Clusters
    rule: PlacementRule
    seen_topics: Flags
    seen_load: Integers

    @classmethod
    def joined(
        cls,
        topics: Indices,
        cluster_of: Integers,
        clusters: Clusters,
        topic_count: int,
        rule: PlacementRule,
    ) -> UserPlacement:
        """All users join in their order (Algorithm 1). O(users * cluster size * topics each)."""
        if rule.load_weight < 0:
            raise DesignError("the weight of load is a number, 0 or more")
        placed = cls._empty(len(topics), clusters, cluster_of, topic_count, rule)
        kernels.join_all(
            placed.hosting, placed.seen_topics, topics, cluster_of, clusters.starts,
            clusters.members, float(rule.load_weight),
        )  # fmt: skip
        placed._begin()
        return placed

    @classmethod
    def static(
        cls,
        topics: Indices,
        broker_of: Integers,
        brokers: int,
        topic_count: int,
        rule: PlacementRule = STAY,
    ) -> UserPlacement:
        """Users where they happen to be, for good, or until they are told to go (`host`)."""
        everyone = np.zeros(len(topics), np.int64)
        clusters = Clusters.of(brokers, brokers)
        placed = cls._empty(len(topics), clusters, everyone, topic_count, rule)
        for user, broker in enumerate(broker_of.tolist()):
            kernels.begin(placed.hosting, broker, topics[user])
        placed.hosting.broker_of[:] = broker_of
        placed._begin()
        return placed

    @classmethod
    def _empty(
        cls, users: int, clusters: Clusters, cluster_of: Integers, topics: int, rule: PlacementRule
    ) -> UserPlacement:
        brokers = len(clusters.members)
        hosting = nobody_hosted(users, brokers, topics)
        seen = np.zeros((brokers, topics), np.uint8)
        return cls(hosting, cluster_of, clusters, rule, seen, np.zeros(brokers, np.int64))

    def _begin(self) -> None:
        """What counts as change comes after the first placement."""
        self.forget_changes()
        self.tell()

    def tell(self) -> None:
        kernels.tell(self.hosting, self.seen_topics, self.seen_load)

    def change(self, users: Integers, old: Indices, new: Indices) -> None:
        kernels.change_some(
            self.hosting, self.seen_topics, self.seen_load, users, old, new, self.cluster_of,
            self.clusters.starts, self.clusters.members, self.rule.packed,
        )  # fmt: skip

    def end_round(self) -> None:
        if self.rule.linger:
            kernels.leave_idle(self.hosting, self.rule.linger)


_WORTHS = np.array(WORTHS)


@dataclass(frozen=True)
class LastingRule:
    """How users are placed; one setting for all patterns of subscriptions."""

    load_weight: float = 3.0
    """What a broker's load counts, in mean loads of its cluster."""
    least_gain: float = 0.1
    """How much more utility another broker must have for a user to move."""
    linger: int = 0
    """Rounds that a broker stays in a topic's tree without users; 0 leaves it at once."""


@dataclass(frozen=True, eq=False)
class LastingPlacement(HostedUsers):
    """Users at brokers; kernels change the arrays.

    >>> users = np.array([[0, 1], [2, 3], [0, 1], [3, 2]], np.int32)
    >>> everyone = np.zeros(4, np.int64)
    >>> placed = LastingPlacement.joined(users, everyone, Clusters.of(2, 2), 4, LastingRule())
    >>> placed.broker_of.tolist()
    [0, 1, 0, 1]
    """

    rule: LastingRule
    packed: lasting_kernels.Lasting
    seen: lasting_kernels.Seen

    @classmethod
    def joined(
        cls, rows: Indices, cluster_of: Integers, clusters: Clusters, count: int, rule: LastingRule
    ) -> LastingPlacement:
        """All users join in their order; ``count`` is of topics. O(users * cluster * topics)."""
        if rule.load_weight < 0 or rule.least_gain < 0:
            raise DesignError("the weight of load and the least gain are numbers, 0 or more")
        brokers = len(clusters.members)
        packed = lasting_kernels.Lasting(
            float(rule.load_weight), float(rule.least_gain), rule.linger, _WORTHS, LAST_ONE,
            clusters.starts, clusters.members,
        )  # fmt: skip
        seen = lasting_kernels.Seen(
            np.zeros((brokers, count), np.int32),
            np.zeros(brokers, np.int64),
            np.zeros((brokers, brokers), np.int64),
        )
        hosting = nobody_hosted(len(rows), brokers, count)
        placed = cls(hosting, cluster_of, rule, packed, seen)
        lasting_kernels.join_all(hosting, rows, cluster_of, packed)
        placed.forget_changes()
        placed.tell()
        return placed

    def tell(self) -> None:
        lasting_kernels.tell(self.hosting, self.seen)

    def change(self, users: Integers, old: Indices, new: Indices) -> None:
        lasting_kernels.change_some(
            self.hosting, self.seen, users, old, new, self.cluster_of, self.packed
        )

    def end_round(self) -> None:
        if self.rule.linger:
            leave_idle(self.hosting, self.rule.linger)

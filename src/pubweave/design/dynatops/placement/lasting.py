"""Users at brokers by the rule of `placement_rule`, in large clusters that hear of each other
through one.

The utility of a broker for a user is the mean worth of the user's topics there, minus a weight
times the broker's load over the mean load of its cluster. A user that has changed its topics is
placed by its own broker. That one knows itself as it is and without the user; of the others it
knows what it was told last. Whom it has sent to one of them since counts there, several times:
others have the same news and send users there, too (`senders`). A user stays unless another broker
has more utility by `least_gain`.

With a weight w > 0 a joining user never goes to a broker whose load is more than
`MOST_DIFFERENCE` / w means above the least of the cluster.

In place of everybody telling everybody, c(c - 1) messages per T_update, each broker tells one, and
that one tells all: 2(c - 1). A message then is as long as a cluster's digest. So clusters can have
a hundred brokers, and T_update can be half an hour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubweave.design.dynatops._kernels import lasting as kernels
from pubweave.design.dynatops._kernels.trees import Indices, Integers
from pubweave.design.dynatops._kernels.users import leave_idle
from pubweave.design.dynatops.placement.similarity import Clusters, HostedUsers, nobody_hosted
from pubweave.design.dynatops.placement_rule import LAST_ONE, WORTHS
from pubweave.design.tree.traffic import DesignError

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
    packed: kernels.Lasting
    seen: kernels.Seen

    @classmethod
    def joined(
        cls, rows: Indices, cluster_of: Integers, clusters: Clusters, count: int, rule: LastingRule
    ) -> LastingPlacement:
        """All users join in their order; ``count`` is of topics. O(users * cluster * topics)."""
        if rule.load_weight < 0 or rule.least_gain < 0:
            raise DesignError("the weight of load and the least gain are numbers, 0 or more")
        brokers = len(clusters.members)
        packed = kernels.Lasting(
            float(rule.load_weight), float(rule.least_gain), rule.linger, _WORTHS, LAST_ONE,
            clusters.starts, clusters.members,
        )  # fmt: skip
        seen = kernels.Seen(
            np.zeros((brokers, count), np.int32),
            np.zeros(brokers, np.int64),
            np.zeros((brokers, brokers), np.int64),
        )
        hosting = nobody_hosted(len(rows), brokers, count)
        placed = cls(hosting, cluster_of, rule, packed, seen)
        kernels.join_all(hosting, rows, cluster_of, packed)
        placed.forget_changes()
        placed.tell()
        return placed

    def tell(self) -> None:
        kernels.tell(self.hosting, self.seen)

    def change(self, users: Integers, old: Indices, new: Indices) -> None:
        kernels.change_some(self.hosting, self.seen, users, old, new, self.cluster_of, self.packed)

    def end_round(self) -> None:
        if self.rule.linger:
            leave_idle(self.hosting, self.rule.linger)

"""Kernels of lasting placement (`placement_rule`, `placement/lasting`); naive twin in
``tests/naive/dynatops.py``.

Rows of topics are as in `_kernels/users`. Loads count against a broker by the mean of its cluster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from pubweave.design.dynatops._kernels.trees import Floats, Indices, Integers
from pubweave.design.dynatops._kernels.users import Hosting, begin, host_at, size_of
from pubweave.design.dynatops.placement_rule import senders

_senders = njit(cache=True)(senders)


class Seen(NamedTuple):
    """What brokers know of the others of their cluster."""

    users: Indices
    """By broker and topic, as they were last told."""
    load: Integers
    sent: Integers
    """By broker and broker: subscriptions that the one believes the other to have got since."""


class Lasting(NamedTuple):
    """The rule, and who may go where."""

    weight: float
    """What a broker's load counts, in means of its cluster."""
    least_gain: float
    linger: int
    worths: Floats
    """By others who want a topic; the last for all above."""
    last_one: float
    """What a topic that only the user wants counts for staying."""
    starts: Integers
    members: Integers


@njit(cache=True)
def worth_of(topics: Indices, size: int, users: Indices, worths: Floats) -> float:
    """Mean worth of a user's topics at a broker with so many users by topic."""
    total, most = 0.0, len(worths) - 1
    for topic in topics:
        if topic >= 0:
            total += worths[min(users[topic], most)]
    return total / max(1, size)


@njit(cache=True)
def worth_of_staying(old: Indices, new: Indices, users: Indices, rule: Lasting) -> float:
    """The same at the user's own broker, which has counted it with its old topics."""
    total, most = 0.0, len(rule.worths) - 1
    for topic in new:
        if topic < 0:
            continue
        is_kept = False
        for known in old:
            is_kept |= known == topic
        others = users[topic] - is_kept
        total += rule.worths[min(others, most)]
        if is_kept and others == 0:
            total += rule.last_one
    return total / max(1, size_of(new))


@njit(cache=True)
def _load_price(load: Integers, cluster: Integers, weight: float) -> float:
    """What one subscription of a broker counts against it: weight / mean load of the cluster."""
    total = 0
    for b in cluster:
        total += load[b]
    return weight * len(cluster) / total if total else 0.0


@njit(cache=True)
def join_all(hosting: Hosting, topics: Indices, cluster_of: Integers, rule: Lasting) -> None:
    """Everybody joins, one after the other, and is seen by the next."""
    totals = np.zeros(len(rule.starts) - 1)
    for u in range(len(topics)):
        c, size = cluster_of[u], size_of(topics[u])
        cluster = rule.members[rule.starts[c] : rule.starts[c + 1]]
        price = rule.weight * len(cluster) / totals[c] if totals[c] else 0.0
        chosen, highest = -1, 0.0
        for b in cluster:
            found = worth_of(topics[u], size, hosting.users[b], rule.worths)
            found -= price * hosting.load[b]
            is_lighter = found == highest and hosting.load[b] < hosting.load[chosen]
            if chosen < 0 or found > highest or is_lighter:
                chosen, highest = b, found
        begin(hosting, chosen, topics[u])
        hosting.broker_of[u] = chosen
        totals[c] += size


@njit(cache=True)
def change_some(
    hosting: Hosting,
    seen: Seen,
    who: Integers,
    old: Indices,
    new: Indices,
    cluster_of: Integers,
    rule: Lasting,
) -> None:
    """Users take other topics, and go where these last, if that pays."""
    prices = np.zeros(len(rule.starts) - 1)
    for c in range(len(prices)):
        cluster = rule.members[rule.starts[c] : rule.starts[c + 1]]
        prices[c] = _load_price(seen.load, cluster, rule.weight)
    for k in range(len(who)):
        u = who[k]
        b = _best_of(hosting, seen, u, old[k], new[k], cluster_of[u], prices, rule)
        was = hosting.broker_of[u]
        if b != was:
            c = cluster_of[u]
            size = size_of(new[k])
            seen.sent[was, b] += size * _senders(rule.starts[c + 1] - rule.starts[c])
        host_at(hosting, u, old[k], new[k], b, rule.linger)


@njit(cache=True)
def _best_of(
    hosting: Hosting,
    seen: Seen,
    u: int,
    old: Indices,
    new: Indices,
    c: int,
    prices: Floats,
    rule: Lasting,
) -> int:
    """A broker knows itself as it is, and without the user; others as they were told."""
    was, size, price = hosting.broker_of[u], size_of(new), prices[c]
    cluster = rule.members[rule.starts[c] : rule.starts[c + 1]]
    chosen, highest = -1, 0.0
    for b in cluster:
        if b == was:
            chosen = b
            highest = worth_of_staying(old, new, hosting.users[b], rule) + rule.least_gain
            highest -= price * (hosting.load[b] - size_of(old))
    for b in cluster:
        if b == was:
            continue
        found = worth_of(new, size, seen.users[b], rule.worths)
        found -= price * (seen.load[b] + seen.sent[was, b])
        if chosen < 0 or found > highest:
            chosen, highest = b, found
    return chosen


@njit(cache=True)
def tell(hosting: Hosting, seen: Seen) -> None:
    """All brokers of a cluster learn what each of them has; a topic it lingers in counts as one
    user's."""
    for b in range(len(seen.load)):
        seen.load[b] = hosting.load[b]
        for other in range(len(seen.load)):
            seen.sent[b, other] = 0
        for topic in range(seen.users.shape[1]):
            seen.users[b, topic] = max(hosting.users[b, topic], hosting.wanted[b, topic])

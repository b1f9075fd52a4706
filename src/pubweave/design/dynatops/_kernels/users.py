"""Kernels of user placement (DYNATOPS section 4); naive twin in ``tests/naive/dynatops.py``.

A user's topics are a row of different numbers; -1 fills what a shorter row leaves over.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from pubweave.design.dynatops._kernels.trees import Flags, Indices, Integers


class Hosting(NamedTuple):
    """Who is where: users by broker and topic, and each broker's users' subscriptions."""

    broker_of: Integers
    """By user; -1 before it has joined."""
    users: Indices
    """By broker and topic."""
    wanted: Flags
    """By broker and topic: is the broker in the topic's tree, be it without users for a while."""
    idle: Indices
    """By broker and topic: how many rounds there has been no user."""
    load: Integers
    """By broker: subscriptions of its users, Sum |s_u|."""
    changes: Integers
    """Topics that brokers began and ended to want; users that went elsewhere."""
    change_counts: Indices
    """By broker and topic: how often one or the other."""


class UserRule(NamedTuple):
    """When users go, and when brokers leave trees."""

    weight: float
    """w_l; below 0 nobody ever goes."""
    least_gain: float
    """How much more utility another broker must have."""
    is_careful: bool
    """Whether the topics that the old broker would no longer want count against going."""
    linger: int
    """How many rounds a broker stays in the tree of a topic that no user of it wants any more."""


@njit(cache=True)
def size_of(topics: Indices) -> int:
    """How many topics a row has."""
    count = 0
    for topic in topics:
        count += topic >= 0
    return count


@njit(cache=True)
def utility(
    topics: Indices, size: int, b: int, wanted: Flags, load: Integers, every: int, weight: float
) -> float:
    """Sim - w_l L."""
    common = 0
    for topic in topics:
        if topic >= 0:
            common += wanted[b, topic]
    similarity = common / size if size else 0.0
    return similarity - weight * (load[b] / every if every else 0.0)


@njit(cache=True)
def best_broker(
    topics: Indices, members: Integers, wanted: Flags, load: Integers, every: int, weight: float
) -> int:
    """The highest utility; of equal ones the least loaded, then the first."""
    chosen, highest, size = -1, 0.0, size_of(topics)
    for b in members:
        found = utility(topics, size, b, wanted, load, every, weight)
        if chosen < 0 or found > highest or (found == highest and load[b] < load[chosen]):
            chosen, highest = b, found
    return chosen


@njit(cache=True)
def begin(hosting: Hosting, b: int, topics: Indices) -> None:
    """A broker gets these subscriptions of a user."""
    for topic in topics:
        if topic < 0:
            continue
        hosting.users[b, topic] += 1
        hosting.load[b] += 1
        if not hosting.wanted[b, topic]:
            hosting.wanted[b, topic] = 1
            hosting.changes[0] += 1
            hosting.change_counts[b, topic] += 1


@njit(cache=True)
def end(hosting: Hosting, b: int, topics: Indices, linger: int) -> None:
    for topic in topics:
        if topic < 0:
            continue
        hosting.users[b, topic] -= 1
        hosting.load[b] -= 1
        if hosting.users[b, topic] == 0:
            hosting.idle[b, topic] = 0
            if not linger:
                _leave_tree(hosting, b, topic)


@njit(cache=True)
def _leave_tree(hosting: Hosting, b: int, topic: int) -> None:
    hosting.wanted[b, topic] = 0
    hosting.changes[1] += 1
    hosting.change_counts[b, topic] += 1


@njit(cache=True)
def join_all(
    hosting: Hosting,
    wanted: Flags,
    topics: Indices,
    cluster_of: Integers,
    starts: Integers,
    members: Integers,
    weight: float,
) -> None:
    """Everybody joins, one after the other, and is seen by the next."""
    every = hosting.load.sum()
    for u in range(len(topics)):
        cluster = members[starts[cluster_of[u]] : starts[cluster_of[u] + 1]]
        b = best_broker(topics[u], cluster, wanted, hosting.load, every, weight)
        begin(hosting, b, topics[u])
        hosting.broker_of[u] = b
        every += size_of(topics[u])
        for topic in topics[u]:
            if topic >= 0:
                wanted[b, topic] = 1


@njit(cache=True)
def change_some(
    hosting: Hosting,
    wanted: Flags,
    seen_load: Integers,
    who: Integers,
    old: Indices,
    new: Indices,
    cluster_of: Integers,
    starts: Integers,
    members: Integers,
    rule: UserRule,
) -> None:
    """Users take other topics; with a weight >= 0 they go where these fit best, if that pays.

    ``wanted`` and ``seen_load`` are what the brokers of a cluster last told each other."""
    every = seen_load.sum()
    for k in range(len(who)):
        u = who[k]
        b = hosting.broker_of[u]
        if rule.weight >= 0:
            cluster = members[starts[cluster_of[u]] : starts[cluster_of[u] + 1]]
            b = best_broker(new[k], cluster, wanted, seen_load, every, rule.weight)
            b = _worth_going(hosting, wanted, seen_load, every, u, old[k], new[k], b, cluster, rule)
        host_at(hosting, u, old[k], new[k], b, rule.linger)


@njit(cache=True)
def _worth_going(
    hosting: Hosting,
    wanted: Flags,
    seen_load: Integers,
    every: int,
    u: int,
    old: Indices,
    new: Indices,
    b: int,
    cluster: Integers,
    rule: UserRule,
) -> int:
    """The better broker, or the old one if it is of the cluster and the gain is too small."""
    was = hosting.broker_of[u]
    if rule.least_gain <= 0 and not rule.is_careful:
        return b
    is_near = False
    for member in cluster:
        is_near |= member == was
    if not is_near:
        return b
    price, size = rule.least_gain, size_of(new)
    if rule.is_careful:
        price += _ended_by_going(hosting, was, old, new) / max(1, size)
    gain = utility(new, size, b, wanted, seen_load, every, rule.weight)
    gain -= utility(new, size, was, wanted, seen_load, every, rule.weight)
    return b if gain > price else was


@njit(cache=True)
def _ended_by_going(hosting: Hosting, was: int, old: Indices, new: Indices) -> int:
    """Topics that the user keeps, and that nobody else at its broker wants."""
    found = 0
    for topic in old:
        if topic >= 0 and hosting.users[was, topic] == 1:
            for kept in new:
                found += kept == topic
    return found


@njit(cache=True)
def host_at(hosting: Hosting, u: int, old: Indices, new: Indices, b: int, linger: int) -> None:
    """A user with new topics is at this broker now."""
    was = hosting.broker_of[u]
    # New ones first: a topic that is both kept and given up was never not wanted.
    begin(hosting, b, new)
    end(hosting, was, old, linger)
    hosting.broker_of[u] = b
    hosting.changes[2] += b != was


@njit(cache=True)
def host_some(
    hosting: Hosting, who: Integers, old: Indices, new: Indices, brokers: Integers
) -> None:
    """Users take other topics, and go where they are told."""
    for k in range(len(who)):
        host_at(hosting, who[k], old[k], new[k], brokers[k], 0)


@njit(cache=True)
def leave_idle(hosting: Hosting, linger: int) -> None:
    """One round is over: brokers leave trees that no user of theirs has wanted for long enough."""
    for b in range(len(hosting.load)):
        for topic in range(hosting.users.shape[1]):
            if hosting.wanted[b, topic] and hosting.users[b, topic] == 0:
                hosting.idle[b, topic] += 1
                if hosting.idle[b, topic] >= linger:
                    _leave_tree(hosting, b, topic)


@njit(cache=True)
def tell(hosting: Hosting, wanted: Flags, seen_load: Integers) -> None:
    """Every broker tells its cluster what it wants and how loaded it is."""
    for b in range(len(seen_load)):
        seen_load[b] = hosting.load[b]
        for topic in range(wanted.shape[1]):
            wanted[b, topic] = hosting.wanted[b, topic]

"""Kernels of user placement (DYNATOPS section 4); naive twin in ``tests/naive/dynatops.py``."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from pubweave.design.dynatops._kernels_trees import Flags, Indices, Integers


class Hosting(NamedTuple):
    """Who is where: users by broker and topic, and each broker's users' subscriptions."""

    broker_of: Integers
    """By user; -1 before it has joined."""
    users: Indices
    """By broker and topic."""
    load: Integers
    """By broker: subscriptions of its users, Sum |s_u|."""
    changes: Integers
    """Topics that brokers began and ended to want; users that went elsewhere."""
    change_counts: Indices
    """By broker and topic: how often one or the other."""


@njit(cache=True)
def utility(
    topics: Indices, b: int, wanted: Flags, load: Integers, every: int, weight: float
) -> float:
    """Sim - w_l L."""
    common = 0
    for topic in topics:
        common += wanted[b, topic]
    similarity = common / len(topics) if len(topics) else 0.0
    return similarity - weight * (load[b] / every if every else 0.0)


@njit(cache=True)
def best_broker(
    topics: Indices,
    members: Integers,
    wanted: Flags,
    load: Integers,
    every: int,
    weight: float,
) -> int:
    """The highest utility; of equal ones the least loaded, then the first."""
    chosen, highest = -1, 0.0
    for b in members:
        found = utility(topics, b, wanted, load, every, weight)
        if chosen < 0 or found > highest or (found == highest and load[b] < load[chosen]):
            chosen, highest = b, found
    return chosen


@njit(cache=True)
def begin(hosting: Hosting, b: int, topics: Indices) -> None:
    """A broker gets these subscriptions of a user."""
    for topic in topics:
        hosting.users[b, topic] += 1
        if hosting.users[b, topic] == 1:
            hosting.changes[0] += 1
            hosting.change_counts[b, topic] += 1
    hosting.load[b] += len(topics)


@njit(cache=True)
def end(hosting: Hosting, b: int, topics: Indices) -> None:
    for topic in topics:
        hosting.users[b, topic] -= 1
        if hosting.users[b, topic] == 0:
            hosting.changes[1] += 1
            hosting.change_counts[b, topic] += 1
    hosting.load[b] -= len(topics)


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
        every += topics.shape[1]
        for topic in topics[u]:
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
    weight: float,
    least_gain: float,
) -> None:
    """Users take other topics; with a weight >= 0 they go where these fit best, if by so much.

    ``wanted`` and ``seen_load`` are what the brokers of a cluster last told each other."""
    every = seen_load.sum()
    for k in range(len(who)):
        u = who[k]
        was = hosting.broker_of[u]
        b = was
        if weight >= 0:
            cluster = members[starts[cluster_of[u]] : starts[cluster_of[u] + 1]]
            b = best_broker(new[k], cluster, wanted, seen_load, every, weight)
            if least_gain > 0:
                gain = utility(new[k], b, wanted, seen_load, every, weight)
                gain -= utility(new[k], was, wanted, seen_load, every, weight)
                b = b if gain > least_gain else was
        # New ones first: a topic that is both kept and given up was never not wanted.
        begin(hosting, b, new[k])
        end(hosting, was, old[k])
        hosting.broker_of[u] = b
        hosting.changes[2] += b != was


@njit(cache=True)
def tell(hosting: Hosting, wanted: Flags, seen_load: Integers) -> None:
    """Every broker tells its cluster what it wants and how loaded it is."""
    for b in range(len(seen_load)):
        seen_load[b] = hosting.load[b]
        for topic in range(wanted.shape[1]):
            wanted[b, topic] = hosting.users[b, topic] > 0

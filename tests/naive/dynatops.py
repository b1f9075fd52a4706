"""DYNATOPS by definition: routes hop by hop, trees as sets of positions, Algorithm 3 as printed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product

RING = 2**32


def fingers(ids: Sequence[int], position: int) -> list[int]:
    """Chord's: the first position at or after id + 2^k."""
    found = []
    for k in range(32):
        key = (ids[position] + 2**k) % RING
        found.append(min(range(len(ids)), key=lambda v: (ids[v] - key) % RING))
    return found


def route(ids: Sequence[int], start: int, end: int) -> list[int]:
    """Always the finger that is nearest before the end, or the end."""
    way = [start]
    while way[-1] != end:
        here = way[-1]
        left = (ids[end] - ids[here]) % RING
        ahead = {v: (ids[v] - ids[here]) % RING for v in fingers(ids, here) if v != here}
        way.append(max((gone, v) for v, gone in ahead.items() if gone <= left)[1])
    return way


class Instance:
    """Subscriptions by broker (sets of topics), roots and publications by topic."""

    def __init__(
        self,
        ids: Sequence[int],
        wanted: Sequence[set[int]],
        roots: Sequence[int],
        publications: Sequence[float],
        delay_weight: float,
    ) -> None:
        self.wanted, self.roots = wanted, roots
        self.publications, self.delay_weight = publications, delay_weight
        places = range(len(ids))
        self.routes = {(r, v): route(ids, r, v) for r, v in product(sorted(set(roots)), places)}

    def broker_costs(self, mapping: Sequence[int]) -> list[tuple[float, float]]:
        """Eqs. 10 and 11 by broker."""
        costs = [[0.0, 0.0] for _ in self.wanted]
        for topic, (root, count) in enumerate(zip(self.roots, self.publications, strict=True)):
            subscribers = [b for b, topics in enumerate(self.wanted) if topic in topics]
            tree: set[int] = set()
            for b in subscribers:
                way = self.routes[root, mapping[b]]
                costs[b][1] += count * (len(way) - 1)
                tree |= set(way)
            for b in range(len(self.wanted)):
                is_relay = mapping[b] in tree and b not in subscribers and mapping[b] != root
                costs[b][0] += count * is_relay
        return [(overhead, delay) for overhead, delay in costs]

    def broker_totals(self, mapping: Sequence[int]) -> list[float]:
        return [o + self.delay_weight * d for o, d in self.broker_costs(mapping)]

    def cost(self, mapping: Sequence[int]) -> float:
        """Eq. 5."""
        costs = self.broker_costs(mapping)
        return sum(o for o, _ in costs) + self.delay_weight * sum(d for _, d in costs)

    def least_cost(self) -> float:
        """By trying every mapping."""
        return min(self.cost(mapping) for mapping in permutations(range(len(self.wanted))))


def swapped(mapping: Sequence[int], a: int, b: int) -> list[int]:
    changed = list(mapping)
    changed[a], changed[b] = changed[b], changed[a]
    return changed


def ssbr_greedy(instance: Instance, mapping: Sequence[int]) -> Iterator[list[int]]:
    """Algorithm 3: every configuration of the improvement path, the first one included."""
    current: list[int] | None = list(mapping)
    while current is not None:
        yield current
        totals = instance.broker_totals(current)
        bottlenecks = [b for b, total in enumerate(totals) if total == max(totals)]
        steps = (best_neighbor(instance, current, b) for b in bottlenecks)
        current = next((step for step in steps if step is not None), None)


def best_neighbor(instance: Instance, current: list[int], bottleneck: int) -> list[int] | None:
    """The cheapest configuration of Nb(X) for one bottleneck; None if none is cheaper than X."""
    least, following = instance.cost(current), None
    for other in range(len(current)):
        if other == bottleneck:
            continue
        candidate = swapped(current, bottleneck, other)
        cost = instance.cost(candidate)
        if cost < least:
            least, following = cost, candidate
    return following


def place_users(
    users: Sequence[set[int]], brokers: int, load_weight: float, clusters: Sequence[Sequence[int]]
) -> list[int]:
    """Section 4, one user after the other, user u within cluster u modulo their number."""
    subscribed: list[set[int]] = [set() for _ in range(brokers)]
    load = [0] * brokers
    placed = []
    for number, topics in enumerate(users):
        every = sum(load)

        def utility(b: int, topics: set[int] = topics, every: int = every) -> float:
            similarity = len(subscribed[b] & topics) / len(topics) if topics else 0.0
            return similarity - load_weight * (load[b] / every if every else 0.0)

        cluster = clusters[number % len(clusters)]
        best = min(cluster, key=lambda b: (-utility(b), load[b], b))
        placed.append(best)
        subscribed[best] |= topics
        load[best] += len(topics)
    return placed


def best_home(
    wanted: set[str],
    own: int,
    brokers: Sequence[tuple[set[str], int]],
    load_weight: float,
    least_gain: float,
) -> int:
    """Algorithm 1 for a user who is at ``own``: by topics and subscriptions of each broker."""
    every = sum(load for _, load in brokers)
    worth = []
    for topics, load in brokers:
        similarity = len([t for t in wanted if t in topics]) / len(wanted) if wanted else 0.0
        worth.append(similarity - load_weight * (load / every if every else 0.0))
    order = sorted(range(len(brokers)), key=lambda b: (-worth[b], brokers[b][1], b))
    return order[0] if worth[order[0]] > worth[own] + least_gain else own


def upkeep_of(hosts: Sequence[Mapping[int, int]]) -> float:
    """What topics of brokers are expected to cost yet: Phi(n) = exp(1 - n) for n users."""
    return sum(math.exp(1 - n) for users in hosts for n in users.values() if n > 0)


def lasting_costs(
    hosts: Sequence[Mapping[int, int]],
    at: int | None,
    old: set[int],
    new: set[int],
    loads: Sequence[int],
    mean: float,
    load_weight: float,
) -> list[float]:
    """For a user that gives up ``old`` at a broker, if it is at one, and takes ``new`` at each
    broker in turn: topics that begin and end, and what topics are then expected to cost, per topic
    of the user; plus the weight of the broker's load without it, over the mean.

    ``hosts`` has users by topic, ``loads`` what counts against brokers."""
    without = [Counter(users) for users in hosts]
    if at is not None:
        without[at].subtract(old)
    costs = []
    for b in range(len(hosts)):
        after = [Counter(users) for users in without]
        after[b].update(new)
        changes = 0
        for before, now in zip(hosts, after, strict=True):
            had, has = {t for t, n in before.items() if n > 0}, {t for t, n in now.items() if n > 0}
            changes += len(had ^ has)
        cost = (changes + upkeep_of(after)) / max(1, len(new))
        costs.append(cost + load_weight * (loads[b] / mean if mean else 0.0))
    return costs


def net_choice(costs: Sequence[float], changed: Sequence[int], price: Mapping[int, float]) -> int:
    """Algorithm 4, step two: the place on the path with the most benefit after its price."""
    best, choice = 0.0, 0
    for place, (cost, count) in enumerate(zip(costs, changed, strict=True)):
        net = costs[0] - cost - price[count]
        if net > best:
            best, choice = net, place
    return choice

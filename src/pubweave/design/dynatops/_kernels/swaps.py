"""Kernels that price and make swaps of two brokers; twins in ``tests/naive/dynatops.py``.

Only topics that one of the two brokers wants and the other does not change. For a topic of the
broker at x that would go to v, the tree without x is known, and one pass over the ring tells for
all v at once how many positions the way to v adds to it. For a topic of a broker at y that would
come to x, what y alone needs goes, whatever x is, and the way to x comes, whatever y is; the two
overlap only for the one y that alone needs where x's way meets the tree. So the first is kept as a
sum for each y, the second is one number for each topic. The rendezvous counts as part of every
tree.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from pubweave.design.dynatops._kernels.trees import Flags, Floats, Indices, Integers


class SwapInputs(NamedTuple):
    """What stays: trees by row, the row of each topic, who wants what, both ways around."""

    parents: Indices
    depths: Indices
    roots: Integers
    row_of: Integers
    starts: Integers
    topics: Indices
    topic_starts: Integers
    topic_brokers: Indices
    publications: Floats
    weight: float


class Current(NamedTuple):
    """What swaps change; ``sums`` is the relay overhead and the delay of all."""

    position_of: Integers
    broker_at: Integers
    here: Flags
    below: Indices
    who: Indices
    """By topic and position: the positions of the subscribers below, put together by XOR. Where
    there is just one, this is it."""
    relayed: Floats
    """By position: Eq. 10 of its broker."""
    delayed: Floats
    """By position: Eq. 11 of its broker."""
    alone: Floats
    """By position: relays that nobody but its broker needs, times publications."""
    sums: Floats


class SwapPrices(NamedTuple):
    """Changes of overhead and delay by position of the other broker; the rest is scratch."""

    overhead: Floats
    delay: Floats
    added: Indices
    ways: Floats
    """By topic: what a subscriber more at x would add."""
    hops: Floats


@njit(cache=True)
def count_alone(given: SwapInputs, current: Current) -> None:
    """Fill in ``who`` and ``alone`` of a mapping whose subscribers are counted."""
    for p in range(len(given.row_of)):
        row, count = given.row_of[p], given.publications[p]
        root, parents = given.roots[row], given.parents[row]
        for slot in range(given.topic_starts[p], given.topic_starts[p + 1]):
            y = current.position_of[given.topic_brokers[slot]]
            v = y
            while v != root:
                current.who[p, v] ^= y
                v = parents[v]
            if y != root:
                current.alone[y] += count * (needed_alone(parents, current.below[p], root, y) - 1)


@njit(cache=True)
def needed_alone(parents: Indices, below: Indices, root: int, y: int) -> int:
    """How many positions are in the tree for the subscriber at y only, its own one included."""
    found = 0
    while y != root and below[y] == 1:
        found += 1
        y = parents[y]
    return found


@njit(cache=True)
def price_swaps(given: SwapInputs, current: Current, broker: int, prices: SwapPrices) -> None:
    """What all swaps of one broker would change. O(n |S_b| + subscriptions) time."""
    overhead, delay, ways, hops = prices.overhead, prices.delay, prices.ways, prices.hops
    x = current.position_of[broker]
    overhead[:] = 0.0
    delay[:] = 0.0
    slot, end = given.starts[broker], given.starts[broker + 1]
    for p in range(len(given.row_of)):
        is_own = slot < end and given.topics[slot] == p
        slot += is_own
        ways[p] = hops[p] = 0.0
        if given.publications[p] == 0.0 or given.topic_starts[p] == given.topic_starts[p + 1]:
            continue
        if is_own:
            _price_going(given, current, p, x, prices)
        else:
            _price_coming(given, current, p, x, prices)
    for b in range(len(current.position_of)):
        way, far = 0.0, 0.0
        for slot in range(given.starts[b], given.starts[b + 1]):
            way += ways[given.topics[slot]]
            far += hops[given.topics[slot]]
        v = current.position_of[b]
        overhead[v] += way - current.alone[v]
        delay[v] += far - current.delayed[v]


@njit(cache=True)
def _price_going(given: SwapInputs, current: Current, p: int, x: int, prices: SwapPrices) -> None:
    """A subscriber leaves x for any position where there is none."""
    row, count = given.row_of[p], given.publications[p]
    root, parents, depths = given.roots[row], given.parents[row], given.depths[row]
    here, below, added = current.here[p], current.below[p], prices.added
    base = -needed_alone(parents, below, root, x)
    # A subscriber at the rendezvous gets no message, so none is spared by relaying to it.
    base += x != root
    _shift_below(parents, below, root, x, -1)
    added[root] = 0
    if not here[root]:
        prices.overhead[root] += count * base
        prices.delay[root] -= count * depths[x]
    for first, last in ((root + 1, len(here)), (0, root)):
        for v in range(first, last):
            added[v] = 0 if below[v] else added[parents[v]] + 1
            if not here[v]:
                prices.overhead[v] += count * (base + added[v] - 1)
                prices.delay[v] += count * (depths[v] - depths[x])
    _shift_below(parents, below, root, x, 1)
    # Whoever wants it too keeps what the sums below count as gone.
    for slot in range(given.topic_starts[p], given.topic_starts[p + 1]):
        y = current.position_of[given.topic_brokers[slot]]
        if y != root:
            prices.overhead[y] += count * (needed_alone(parents, below, root, y) - 1)
            prices.delay[y] += count * depths[y]


@njit(cache=True)
def _shift_below(parents: Indices, below: Indices, root: int, x: int, by: int) -> None:
    """One subscriber more or less at x."""
    while x != root:
        below[x] += by
        x = parents[x]


@njit(cache=True)
def _price_coming(given: SwapInputs, current: Current, p: int, x: int, prices: SwapPrices) -> None:
    """A subscriber comes to x, where there is none, from any position that has one."""
    row, count = given.row_of[p], given.publications[p]
    root, parents, below = given.roots[row], given.parents[row], current.below[p]
    way, meeting = 0, x
    while meeting != root and below[meeting] == 0:
        way += 1
        meeting = parents[meeting]
    prices.ways[p] = count * (way - (x != root))
    prices.hops[p] = count * given.depths[row, x]
    shared = needed_alone(parents, below, root, meeting)
    if shared:
        prices.overhead[current.who[p, meeting]] += count * shared


@njit(cache=True)
def swap(given: SwapInputs, current: Current, a: int, b: int) -> None:
    """Let two brokers change places. O(topics of both * log n)."""
    x, y = current.position_of[a], current.position_of[b]
    i, last_i = given.starts[a], given.starts[a + 1]
    j, last_j = given.starts[b], given.starts[b + 1]
    while i < last_i or j < last_j:
        left = given.topics[i] if i < last_i else len(given.row_of)
        right = given.topics[j] if j < last_j else len(given.row_of)
        if left < right:
            _leave(given, current, left, x)
            _arrive(given, current, left, y)
        elif right < left:
            _leave(given, current, right, y)
            _arrive(given, current, right, x)
        i += left <= right
        j += right <= left
    current.position_of[a], current.position_of[b] = y, x
    current.broker_at[x], current.broker_at[y] = b, a


@njit(cache=True)
def _leave(given: SwapInputs, current: Current, p: int, x: int) -> None:
    """A subscriber of p is gone from x."""
    row, count = given.row_of[p], given.publications[p]
    root, parents, below = given.roots[row], given.parents[row], current.below[p]
    current.here[p, x] = 0
    if x == root:
        return
    _charge_relay(current, x, count)
    _charge_delay(current, x, -count * given.depths[row, x])
    current.alone[x] -= count * (needed_alone(parents, below, root, x) - 1)
    v = x
    while v != root:
        below[v] -= 1
        current.who[p, v] ^= x
        if below[v] == 0:
            _charge_relay(current, v, -count)
        elif below[v] == 1:
            # The last one below needs this position alone from now on.
            current.alone[current.who[p, v]] += count
        v = parents[v]


@njit(cache=True)
def _arrive(given: SwapInputs, current: Current, p: int, y: int) -> None:
    """There is a subscriber of p at y now."""
    row, count = given.row_of[p], given.publications[p]
    root, parents, below = given.roots[row], given.parents[row], current.below[p]
    current.here[p, y] = 1
    if y == root:
        return
    v = y
    while v != root:
        if below[v] == 0:
            _charge_relay(current, v, count)
        elif below[v] == 1:
            current.alone[current.who[p, v]] -= count
        below[v] += 1
        current.who[p, v] ^= y
        v = parents[v]
    _charge_relay(current, y, -count)
    _charge_delay(current, y, count * given.depths[row, y])
    current.alone[y] += count * (needed_alone(parents, below, root, y) - 1)


@njit(cache=True)
def _charge_relay(current: Current, v: int, count: float) -> None:
    current.relayed[v] += count
    current.sums[0] += count


@njit(cache=True)
def _charge_delay(current: Current, v: int, far: float) -> None:
    current.delayed[v] += far
    current.sums[1] += far


@njit(cache=True)
def best_swap(
    given: SwapInputs, current: Current, broker: int, prices: SwapPrices, least_gain: float
) -> int:
    """The broker to swap with that saves most, and more than so much; -1 if there is none.

    Ties go to the broker that comes first."""
    price_swaps(given, current, broker, prices)
    best, chosen = -least_gain, -1
    for other in range(len(current.position_of)):
        v = current.position_of[other]
        change = prices.overhead[v] + given.weight * prices.delay[v]
        if other != broker and change < best:
            best, chosen = change, other
    return chosen


# Kernels that choose swaps: a bottleneck's best one (Algorithm 3), or everybody's in turn.


@njit(cache=True)
def highest_cost(given: SwapInputs, current: Current) -> float:
    """The highest c_b (Eq. 12) of any broker."""
    highest = -1.0
    for v in range(len(current.position_of)):
        highest = max(highest, broker_cost(given, current, v))
    return highest


@njit(cache=True)
def broker_cost(given: SwapInputs, current: Current, v: int) -> float:
    """c_b (Eq. 12) of the broker at a position."""
    cost: float = current.relayed[v] + given.weight * current.delayed[v]
    return cost


@njit(cache=True)
def improve_bottleneck(
    given: SwapInputs,
    current: Current,
    prices: SwapPrices,
    least_gain: float,
    swaps: Integers,
    sums: Floats,
) -> int:
    """Iterations of Algorithm 3 into the given room; fewer than the room when it has stopped."""
    for step in range(len(swaps)):
        highest = highest_cost(given, current)
        chosen = -1
        for a in range(len(current.position_of)):
            if broker_cost(given, current, current.position_of[a]) < highest:
                continue
            chosen = best_swap(given, current, a, prices, least_gain)
            if chosen >= 0:
                swap(given, current, a, chosen)
                swaps[step, 0], swaps[step, 1] = a, chosen
                sums[step] = current.sums
                break
        if chosen < 0:
            return step
    return len(swaps)


@njit(cache=True)
def sweep(
    given: SwapInputs,
    current: Current,
    prices: SwapPrices,
    least_gain: float,
    order: Integers,
    swaps: Integers,
    sums: Floats,
) -> int:
    """Each broker of the order takes its best swap; returns how many were made."""
    made = 0
    for step in range(len(order)):
        b = best_swap(given, current, order[step], prices, least_gain)
        if b >= 0:
            swap(given, current, order[step], b)
            swaps[made, 0], swaps[made, 1] = order[step], b
            sums[made] = current.sums
            made += 1
    return made

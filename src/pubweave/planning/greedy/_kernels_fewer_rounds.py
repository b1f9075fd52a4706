"""One token's way through a plan, laid anew while all others stay; arrays only.

A token is on one link before each step: ``places[token, step]``, a pair with the smaller number
first. Between two steps it rests or slides one of its ends along a pivot (`planning.problem`).
The naive twin is in ``tests/naive/quiet_steps.py``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SHIFT_PRICE = 1e6
"""Above all that rounds and noise can add up to: a way never gets more shifts."""


@njit(cache=True)
def slide(before: Ints, after: Ints) -> tuple[int, int, int]:
    """The shift (i, j, k) between two places of a token; i is -1 where it rests."""
    a, b = before[0], before[1]
    c, d = after[0], after[1]
    if a == c:
        return (-1, 0, 0) if b == d else (a, b, d)
    if a == d:
        return a, b, c
    if b == c:
        return b, a, d
    return b, a, c


@njit(cache=True)
def occupy(way: Ints, busy: Ints, by: int) -> None:
    """Add ``by`` to the actions of each broker in each step, for one token's way."""
    for step in range(len(way) - 1):
        i, j, k = slide(way[step], way[step + 1])
        if i >= 0:
            busy[step, i] += by
            busy[step, j] += by
            busy[step, k] += by


@njit(cache=True)
def _pivots(token: int, step: int, places: Ints, kept: Ints, start: Ints, to: Ints) -> None:
    """Neighbors over links that stay through the step: kept, or under another resting token."""
    start[:] = 0
    for turn in range(2):
        for e in range(len(kept) + len(places)):
            if e < len(kept):
                u, v = kept[e, 0], kept[e, 1]
            else:
                other = e - len(kept)
                u, v = places[other, step, 0], places[other, step, 1]
                rests = u == places[other, step + 1, 0] and v == places[other, step + 1, 1]
                if other == token or not rests:
                    continue
            if turn == 0:
                start[u + 1] += 1
                start[v + 1] += 1
            else:
                start[u] -= 1
                to[start[u]] = v
                start[v] -= 1
                to[start[v]] = u
        if turn == 0:
            for u in range(len(start) - 1):
                start[u + 1] += start[u]
            # Filled from the back: a row's start comes down to where it belongs.
            for u in range(len(start) - 1):
                start[u] = start[u + 1]


@njit(cache=True)
def _is_pivot(token: int, step: int, places: Ints) -> bool:
    """Whether another token slides along this one's link in the step."""
    u, v = places[token, step, 0], places[token, step, 1]
    for other in range(len(places)):
        if other == token:
            continue
        i, j, k = slide(places[other, step], places[other, step + 1])
        if i >= 0 and min(j, k) == u and max(j, k) == v:
            return True
    return False


@njit(cache=True)
def _price(
    busy: Ints, peak: int, i: int, j: int, k: int, prices: Floats, noise: Floats, at: int
) -> float:
    """Of a shift in a step: itself, the round it adds, and the company it keeps.

    ``prices[0]`` is of a round; ``prices[1 + n]`` of a broker that has n other actions."""
    most = max(busy[i], busy[j], busy[k])
    price = SHIFT_PRICE
    if most + 1 > peak:
        price += prices[0]
    last = len(prices) - 2
    company = 0.0
    for broker in (i, j, k):
        company += prices[1 + min(busy[broker], last)]
    return price + company * float(noise[at % len(noise)])


@njit(cache=True)
def _relax(
    step: int, link: int, came_from: int, total: float, room: tuple[Floats, Ints, Ints, Ints]
) -> None:
    """Remember the cheapest way to a link before a step."""
    cost, came, reached, sizes = room
    if total >= cost[step, link]:
        return
    if cost[step, link] == np.inf:
        reached[step, sizes[step]] = link
        sizes[step] += 1
    cost[step, link] = total
    came[step, link] = came_from


@njit(cache=True)
def _shifts(way: Ints) -> int:
    count = 0
    for step in range(len(way) - 1):
        if slide(way[step], way[step + 1])[0] >= 0:
            count += 1
    return count


@njit(cache=True)
def reroute(
    token: int,
    places: Ints,
    kept: Ints,
    closed: Bools,
    busy: Ints,
    prices: Floats,
    noise: Floats,
    room: tuple[Floats, Ints, Ints, Ints],
) -> None:
    """The cheapest way of a token to the link where it ends, with no more shifts than it has.

    ``closed[u, v]``: no token may pass here (links of the target, forbidden ones). A link that
    another token slides along stays where it is in that step, so all that others do remains
    valid. Exact for these prices: what a shift adds to the rounds depends on its own step alone.
    ``room`` has an entry for every step and link, cost infinite everywhere, and is left so.
    O(steps x links within reach x degree)."""
    steps, count = busy.shape
    cost, came, reached, sizes = room
    way = places[token]
    occupy(way, busy, -1)
    end = way[steps, 0] * count + way[steps, 1]
    limit = SHIFT_PRICE * (_shifts(way) + 1)
    start = np.empty(count + 1, np.int64)
    to = np.empty(2 * (len(kept) + len(places)), np.int64)
    sizes[:] = 0
    first = way[0, 0] * count + way[0, 1]
    _relax(0, first, first, 0.0, room)
    for step in range(steps):
        is_pivot = _is_pivot(token, step, places)
        here = way[step, 0] * count + way[step, 1]
        _pivots(token, step, places, kept, start, to)
        peak = busy[step].max()
        for place in range(sizes[step]):
            link = reached[step, place]
            if is_pivot and link != here:
                continue
            spent = cost[step, link]
            _relax(step + 1, link, link, spent, room)
            if is_pivot or link == end:
                continue
            for side in range(2):
                i, j = (link // count, link % count) if side else (link % count, link // count)
                for at in range(start[j], start[j + 1]):
                    k = to[at]
                    then = min(i, k) * count + max(i, k)
                    if k == i or (closed[i, k] and then != end):
                        continue
                    total = spent + _price(
                        busy[step], peak, i, j, k, prices, noise, then * steps + step
                    )
                    if total < limit:
                        _relax(step + 1, then, link, total, room)
    # Beside a broker with a dozen actions its company alone can cost more than the limit, the old
    # way's too; then that one stays.
    link, last = end, steps * int(cost[steps, end] < np.inf)
    for step in range(last, 0, -1):
        link = came[step, link]
        way[step - 1, 0] = link // count
        way[step - 1, 1] = link % count
    occupy(way, busy, 1)
    for step in range(steps + 1):
        for place in range(sizes[step]):
            cost[step, reached[step, place]] = np.inf

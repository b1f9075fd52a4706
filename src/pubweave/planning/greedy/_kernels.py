"""The greedy's inner loop: one whole plan from given priorities; arrays only.

Links are numbered: tokens first (0 .. M-1), kept links after them. Each step rebuilds the rooted
tree, walks the path between the ends of each unfinished goal link, and weighs each slide by the
paths it shortens (both the token and its pivot lie on them) and lengthens (only the token does).
A goal counts the more the less slack its path leaves it before a deadline.

Why it ends: when the sum of all path lengths finds no new minimum, one goal is guarded until it is
done. Its own slides come first and its tokens may not leave its path, so each step shortens it.

`_kernels` of fewer rounds: one token's way through a plan is laid anew while all others stay. A
token is on one link before each step: ``places[token, step]``, a pair with the smaller number
first. Between two steps it rests or slides one of its ends along a pivot (`planning.problem`). The
naive twin is in ``tests/naive/quiet_steps.py``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

FAILED = -1


@njit(cache=True)
def adjacency(links: Ints, start: Ints, to: Ints, by: Ints) -> None:
    """Neighbors in rows: broker u's are ``to[start[u]:start[u + 1]]``, over links ``by[...]``."""
    start[:] = 0
    for e in range(len(links)):
        start[links[e, 0] + 1] += 1
        start[links[e, 1] + 1] += 1
    for u in range(len(start) - 1):
        start[u + 1] += start[u]
    fill = start[:-1].copy()
    for e in range(len(links)):
        u, v = links[e, 0], links[e, 1]
        to[fill[u]] = v
        by[fill[u]] = e
        fill[u] += 1
        to[fill[v]] = u
        by[fill[v]] = e
        fill[v] += 1


@njit(cache=True)
def root(
    start: Ints, to: Ints, by: Ints, parent: Ints, over: Ints, depth: Ints, queue: Ints
) -> None:
    """Parents, the links to them and depths, from broker 0 down."""
    parent[0] = -1
    over[0] = -1
    depth[0] = 0
    queue[0] = 0
    head, tail = 0, 1
    while head < tail:
        u = queue[head]
        head += 1
        for place in range(start[u], start[u + 1]):
            v = to[place]
            if v != parent[u]:
                parent[v] = u
                over[v] = by[place]
                depth[v] = depth[u] + 1
                queue[tail] = v
                tail += 1


@njit(cache=True)
def walk(a: int, b: int, parent: Ints, over: Ints, depth: Ints, way: Ints, rest: Ints) -> int:
    """The links from a to b in order into ``way``; their number."""
    count, back = 0, 0
    while a != b:
        if depth[a] >= depth[b]:
            way[count] = over[a]
            count += 1
            a = parent[a]
        else:
            rest[back] = over[b]
            back += 1
            b = parent[b]
    for k in range(back):
        way[count + k] = rest[back - 1 - k]
    return count + back


@njit(cache=True)
def _shared(links: Ints, e: int, f: int) -> int:
    """The broker that two neighboring links share."""
    u = int(links[e, 0])
    return u if u == links[f, 0] or u == links[f, 1] else int(links[e, 1])


@njit(cache=True)
def _slot(links: Ints, start: Ints, by: Ints, e: int, f: int) -> tuple[int, int]:
    """Token e's end at link f, and the place of f among the links of the broker they share."""
    j = _shared(links, e, f)
    end = 0 if links[e, 0] == j else 1
    for place in range(start[j], start[j + 1]):
        if by[place] == f:
            return end, place - start[j]
    return end, FAILED


@njit(cache=True)
def paths(
    goals: Ints, done_at: Ints, parent: Ints, over: Ints, depth: Ints, first: Ints, flat: Ints
) -> Ints:
    """The links of each unfinished goal's path: ``flat[first[g]:first[g + 1]]``; returns flat."""
    way = np.empty(len(depth), np.int64)
    rest = np.empty(len(depth), np.int64)
    for g in range(len(goals)):
        length = 0
        if done_at[g] < 0:
            length = walk(goals[g, 0], goals[g, 1], parent, over, depth, way, rest)
        first[g + 1] = first[g] + length
        if first[g + 1] > len(flat):
            larger = np.empty(2 * first[g + 1], np.int64)
            larger[: first[g]] = flat[: first[g]]
            flat = larger
        flat[first[g] : first[g + 1]] = way[:length]
    return flat


@njit(cache=True)
def weights(first: Ints, flat: Ints, frozen: Bools, spare: int, haste: Floats) -> Floats:
    """How much each goal counts: 1, and far more once its path is as long as the steps left.

    A path of d links with one token needs d - 1 steps; of k tokens each may shorten it in the same
    step. ``spare`` steps are left to the deadline. ``haste`` = (how much a goal without slack
    counts, how fast that falls with its slack, how much is hoped of several tokens: k to the power
    of this times the pace of one).
    """
    out = np.zeros(len(first) - 1, np.float64)
    for g in range(len(out)):
        length = first[g + 1] - first[g]
        if length > 1:
            tokens = 0
            for place in range(first[g], first[g + 1]):
                tokens += not frozen[flat[place]]
            slack = max(spare - (length - 1) / float(tokens) ** haste[2], -2.0)
            out[g] = 1.0 + haste[0] * haste[1] ** -slack
    return out


@njit(cache=True)
def offsets(links: Ints, start: Ints, frozen: Bools, tokens: int) -> Ints:
    """Where the candidates of each token's end begin: one for each link at that end."""
    offset = np.zeros(2 * tokens + 1, np.int64)
    for e in range(tokens):
        for end in range(2):
            size = 0 if frozen[e] else start[links[e, end] + 1] - start[links[e, end]]
            offset[2 * e + end + 1] = offset[2 * e + end] + size
    return offset


@njit(cache=True)
def weigh(
    links: Ints,
    start: Ints,
    by: Ints,
    offset: Ints,
    first: Ints,
    flat: Ints,
    frozen: Bools,
    weight: Floats,
) -> Floats:
    """The gain of each candidate slide: what it shortens less what it lengthens."""
    tokens = len(weight)
    gain = np.zeros(offset[2 * tokens], np.float64)
    through = np.zeros(tokens, np.float64)
    for g in range(tokens):
        for k in range(first[g], first[g + 1]):
            e = flat[k]
            if frozen[e]:
                continue
            through[e] += weight[g]
            for near in (k - 1, k + 1):
                if first[g] <= near < first[g + 1]:
                    end, place = _slot(links, start, by, e, flat[near])
                    gain[offset[2 * e + end] + place] += 2.0 * weight[g]
    for e in range(tokens):
        for c in range(offset[2 * e], offset[2 * e + 2]):
            gain[c] -= through[e]
    return gain


@njit(cache=True)
def _allowed(i: int, k: int, count: int, forbidden: Ints) -> bool:
    if len(forbidden) == 0:
        return True
    key = min(i, k) * count + max(i, k)
    at = np.searchsorted(forbidden, key)
    return not (at < len(forbidden) and forbidden[at] == key)


@njit(cache=True)
def choose(
    links: Ints,
    start: Ints,
    to: Ints,
    by: Ints,
    offset: Ints,
    gain: Floats,
    on_guard: Bools,
    noise: Floats,
    limits: Ints,
    forbidden: Ints,
    chosen: Ints,
) -> int:
    """Take slides by falling gain as long as they get along; rows (2 * token + end, i, j, k)."""
    count = len(start) - 1
    tokens = (len(offset) - 1) // 2
    owner = np.empty(len(gain), np.int64)
    rank = np.empty(len(gain), np.float64)
    order = np.empty(len(gain), np.int64)
    size = 0
    for side in range(2 * tokens):
        e = side // 2
        for c in range(offset[side], offset[side + 1]):
            owner[c] = side
            f = by[start[links[e, side % 2]] + c - offset[side]]
            value = gain[c]
            if on_guard[e]:
                value = value + 1e18 if on_guard[f] else 0.0
            if value > 0.0:
                rank[size] = -value * noise[c % len(noise)]
                order[size] = c
                size += 1
    moved = np.zeros(len(links), np.bool_)
    leaned = np.full(len(links), -1, np.int64)
    degree = start[1:] - start[:-1]
    busy = np.zeros(count, np.bool_)
    taken = 0
    for position in np.argsort(rank[:size], kind="mergesort"):
        c = order[position]
        side = owner[c]
        e, end = side // 2, side % 2
        place = start[links[e, end]] + c - offset[side]
        i, j, k, f = links[e, 1 - end], links[e, end], to[place], by[place]
        if f == e or moved[e] or leaned[e] >= 0 or moved[f]:
            continue
        # Two slides over one link in opposite directions undo each other.
        if leaned[f] >= 0 and leaned[f] != k:
            continue
        if limits[2] and (busy[i] or busy[j] or busy[k]):
            continue
        if limits[1] and degree[k] + 1 > limits[1]:
            continue
        if not _allowed(i, k, count, forbidden):
            continue
        moved[e] = True
        leaned[f] = k
        degree[k] += 1
        degree[j] -= 1
        busy[i] = busy[j] = busy[k] = True
        chosen[taken, 0], chosen[taken, 1], chosen[taken, 2], chosen[taken, 3] = side, i, j, k
        taken += 1
    return taken


@njit(cache=True)
def survey(
    step: int, first: Ints, flat: Ints, done_at: Ints, frozen: Bools
) -> tuple[int, int, int]:
    """Freeze what is done; how many goals are left, their moves in all, the one nearest to done."""
    left, total, nearest = 0, 0, -1
    for g in range(len(done_at)):
        length = int(first[g + 1] - first[g])
        if length == 1:
            done_at[g] = step
            frozen[flat[first[g]]] = True
        elif length > 1:
            left += 1
            total += length - 1
            if nearest < 0 or length < first[nearest + 1] - first[nearest]:
                nearest = g
    return left, total, nearest


@njit(cache=True)
def links_on(guarded: int, first: Ints, flat: Ints, size: int) -> Bools:
    """Which links lie on the guarded goal's path."""
    found = np.zeros(size, np.bool_)
    if guarded >= 0:
        for place in range(first[guarded], first[guarded + 1]):
            found[flat[place]] = True
    return found


@njit(cache=True)
def greedy_plan(
    links_in: Ints,
    goals: Ints,
    count: int,
    priority: Floats,
    deadline: int,
    haste: Floats,
    noise: Floats,
    limits: Ints,
    forbidden: Ints,
    out: Ints,
) -> tuple[int, int, Ints]:
    """Fill ``out`` with rows (step, i, j, k); return steps, actions and each goal's last step.

    ``limits`` = (most steps, degree limit or 0, disjoint brokers 0/1). Steps are FAILED where the
    priorities lead nowhere within the limits. ``forbidden`` holds sorted keys low * count + high.
    """
    links = links_in.copy()
    tokens = len(goals)
    start = np.zeros(count + 1, np.int64)
    to = np.empty(2 * len(links), np.int64)
    by = np.empty(2 * len(links), np.int64)
    parent = np.empty(count, np.int64)
    over = np.empty(count, np.int64)
    depth = np.empty(count, np.int64)
    queue = np.empty(count, np.int64)
    first = np.zeros(tokens + 1, np.int64)
    flat = np.empty(16 * tokens + 16, np.int64)
    chosen = np.empty((tokens, 4), np.int64)
    done_at = np.full(tokens, -1, np.int64)
    frozen = np.zeros(len(links), np.bool_)
    frozen[tokens:] = True
    guarded = -1
    least = 1 << 60
    actions = 0
    for step in range(limits[0] + 1):
        adjacency(links, start, to, by)
        root(start, to, by, parent, over, depth, queue)
        flat = paths(goals, done_at, parent, over, depth, first, flat)
        left, total, nearest = survey(step, first, flat, done_at, frozen)
        if left == 0:
            return step, actions, done_at
        if step == limits[0] or actions + tokens > len(out):
            break
        if guarded >= 0 and done_at[guarded] >= 0:
            guarded = -1
        elif guarded < 0 and total >= least:
            guarded = nearest
        least = min(least, total)
        offset = offsets(links, start, frozen, tokens)
        weight = priority * weights(first, flat, frozen, deadline - step, haste)
        gain = weigh(links, start, by, offset, first, flat, frozen, weight)
        on_guard = links_on(guarded, first, flat, len(links))
        taken = choose(
            links, start, to, by, offset, gain, on_guard, noise, limits, forbidden, chosen
        )
        if taken == 0 and guarded >= 0:
            break
        if taken == 0:
            guarded = nearest
        for row in range(taken):
            links[chosen[row, 0] // 2, chosen[row, 0] % 2] = chosen[row, 3]
            out[actions, 0] = step
            out[actions, 1:] = chosen[row, 1:]
            actions += 1
    return FAILED, actions, done_at


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

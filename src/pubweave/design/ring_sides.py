"""What a ring costs when each of its links is removed, relayed notifications included.

CI prices a ring by what its brokers' own clients have in common (Eqs. 7-9). Most of what crosses a
link in the middle of a tree is of interest to neither end: it is relayed, and invisible to that
estimate. Here every broker of the ring contributes its *side*: the notifications that concern it
or come or go over any of its links outside the ring. That is local knowledge, and all there is to
know: without one link the ring is a path, a link of it carries what has a side on either end, a
broker what passes it or is its own.

Those counts need no intersections. Let u(X) be the number of different notifications in the sides
of an arc X of the ring. With arcs F and B left and right of a link, it carries
u(F) + u(B) - u(ring); a broker, being in both its arcs, handles the same sum of them.
So whoever can count unions of neighboring sides, exactly or by the bits of Bloom filters, can
price all removals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Union = Callable[[int, int], float]
"""How many different notifications the sides of ``count`` members from ``first`` on have, members
being numbered along the ring and round it."""


def removal_costs_by_sides(
    processing: Sequence[float], link_costs: Sequence[float], union: Union
) -> list[float]:
    """Cost of the whole ring after each link's removal, by ring link (compare CI Eq. 9).

    Ring link r joins the members r and r + 1; the last one is the proposed one, and what its
    "removal" costs is what the ring costs now. O(members^2) sums and unions.

    >>> sides = [{1, 2}, {2}, {1}]   # 1 goes from the first broker to the last, 2 to the next
    >>> def union(first, count):
    ...     return len(set().union(*(sides[(first + m) % 3] for m in range(count))))
    >>> removal_costs_by_sides([0, 0, 0], [5, 5, 3], union)
    [11.0, 8.0, 15.0]
    """
    size = len(processing)
    arcs = [[0.0, *(union(first, count) for count in range(1, size + 1))] for first in range(size)]
    return [_path_cost(removed, processing, link_costs, arcs) for removed in range(size)]


def _path_cost(
    removed: int,
    processing: Sequence[float],
    link_costs: Sequence[float],
    arcs: Sequence[Sequence[float]],
) -> float:
    """What the ring costs as a path, from behind the removed link round to before it."""
    size = len(processing)
    first = (removed + 1) % size
    everything = arcs[first][size]
    cost = 0.0
    for place in range(size):
        member = (first + place) % size
        up_to, from_here = arcs[first][place + 1], arcs[member][size - place]
        # Counts by filters err: no load is below nothing.
        cost += processing[member] * max(0.0, up_to + from_here - everything)
        if place + 1 < size:
            behind = arcs[(member + 1) % size][size - place - 1]
            cost += link_costs[member] * max(0.0, up_to + behind - everything)
    return cost


def link_promise(
    path_processing: Sequence[float], path_link_costs: Sequence[float], direct_cost: float
) -> float:
    """How much less a direct link between a path's ends would cost than the dearest on the path.

    A link is priced with half the processing of both its ends: who is cheap to pass through is
    worth a link. More than that is not to be known before the ring has been asked.
    """

    def price(link_cost: float, one: float, other: float) -> float:
        return link_cost + (one + other) / 2

    dearest = max(
        price(cost, path_processing[m], path_processing[m + 1])
        for m, cost in enumerate(path_link_costs)
    )
    return dearest - price(direct_cost, path_processing[0], path_processing[-1])

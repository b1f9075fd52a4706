"""The arithmetic of the CI heuristic (Eqs. 3-10) and of lMST and lMIT, for brokers and offline.

Pure functions of numbers that a broker has learned: no protocol, no topology, no broker ids. The
core's brokers, the offline design and the experiments all decide by these, so what was measured
is what runs.

A **cycle** (CI: ring) is a path and the link that closes it. Members are numbered 0 .. n-1 from the
asking broker (0) to the broker it wants a link to (n-1), and cycle link r joins the members r and
(r + 1) mod n. So the last cycle link is the proposed one. Common interest is counted in
notifications, costs in whatever unit the prices have.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence

TripleEstimate = Callable[[int, int], float]
"""From one broker's view: I(own, via, far) for two members of the cycle (or of a path)."""


class Heuristic(enum.Enum):
    """By which rule links are exchanged."""

    CI = "ci"
    MST = "mst"
    MIT = "mit"


class Estimate(enum.Enum):
    """How CI finds out what a cycle's brokers have in common."""

    OVERLAP = "overlap"
    """As printed: pairs by Bloom filters, triples by phi (Eq. 6)."""
    CONJUNCTION = "conjunction"
    """Triples, too, by what both Bloom filters have: the paper's future work."""
    SIDES = "sides"
    """By all that passes the cycle, relayed notifications included: see `ci/cycle_traffic`."""


def neighborhood_overlap(own: float, common: Sequence[float]) -> float | None:
    """CI's phi (Eq. 6), never below zero; None with fewer than two brokers in the neighborhood.

    ``own`` is I_i, ``common`` the I_ij of every broker in the neighborhood.
    """
    if len(common) < 2:
        return None
    return max(0.0, (sum(common) - own) / (len(common) - 1))


def triple_by_overlap(overlap: float, common: Sequence[float]) -> TripleEstimate:
    """The paper's I(i,k,j) = min(phi, I_ij, I_ik); ``common[m]`` is I(own, member m)."""

    def estimate(via: int, far: int) -> float:
        return min(overlap, common[via], common[far])

    return estimate


def indirect_cost(
    cost_via: float, processing_via: float, link_cost: float, common_far: float, triple: float
) -> float:
    """One step of Eq. 7: the cost of reaching j behind k, given that of reaching k.

    What k wants anyhow comes to k anyhow, so only the rest of the common traffic pays for the way
    to k. Where own and j share nothing Eq. 7 divides by zero; then nothing is saved at k.
    """
    alone = 1.0 if common_far <= 0.0 else max(0.0, 1.0 - triple / common_far)
    return alone * (cost_via + processing_via) + link_cost


def path_costs(
    processing: Sequence[float],
    link_costs: Sequence[float],
    common: Sequence[float],
    triple: TripleEstimate,
) -> list[float]:
    """C_ij (Eq. 7) of every member of a path, the first being the broker that asks.

    ``link_costs[m]`` is the price of the link between the members m and m + 1.
    """
    costs = [0.0]
    for far in range(1, len(processing)):
        via = far - 1
        if via == 0:
            costs.append(link_costs[0])
        else:
            costs.append(
                indirect_cost(
                    costs[via], processing[via], link_costs[via], common[far], triple(via, far)
                )
            )
    return costs


def wants_link(direct_cost: float, cost: float, common: float) -> bool:
    """Whether a broker prefers a direct link (Eq. 5, and its general form after Eq. 7)."""
    return common > 0.0 and direct_cost < cost


def removal_costs(
    member: int,
    processing: Sequence[float],
    link_costs: Sequence[float],
    common: Sequence[float],
    triple: TripleEstimate,
) -> list[float]:
    """What each cycle link's removal would leave this member to pay (Eq. 8), by cycle link.

    All sequences follow the cycle; ``common[m]`` is I(member, m). One walk in each direction
    serves all links: whoever is reached before the gap is reached as if there were none.
    """
    size = len(processing)
    ahead = _sums_along(member, 1, processing, link_costs, common, triple)
    behind = _sums_along(member, -1, processing, link_costs, common, triple)
    costs = [0.0] * size
    for reached in range(size):
        costs[(member + reached) % size] = ahead[reached] + behind[size - 1 - reached]
    return costs


def _sums_along(
    member: int,
    step: int,
    processing: Sequence[float],
    link_costs: Sequence[float],
    common: Sequence[float],
    triple: TripleEstimate,
) -> list[float]:
    """Sums of I_ij * C_ij over the first 0, 1, .. members met when walking round one way."""
    size = len(processing)
    sums = [0.0]
    cost, via = 0.0, member
    for reached in range(1, size):
        far = (member + step * reached) % size
        # Ring link r leads from member r to the next: walking back it has the far one's number.
        link_cost = link_costs[via if step > 0 else far]
        if reached == 1:
            cost = link_cost
        else:
            cost = indirect_cost(cost, processing[via], link_cost, common[far], triple(via, far))
        sums.append(sums[-1] + common[far] * cost)
        via = far
    return sums


def choose_removal(costs: Sequence[float], least_gain: float = 0.0) -> int | None:
    """The cycle link to remove (Eq. 10), or None if the tree should stay as it is.

    ``costs`` are the members' sums (Eq. 9); the last one, of the proposed link, is the cost of
    changing nothing. The gain must be strict, and more than the share ``least_gain`` of that
    cost; of equal links the first along the cycle goes.
    """
    unchanged = costs[-1]
    best = min(range(len(costs)), key=costs.__getitem__)
    gain = unchanged - costs[best]
    # Sums in another order differ in their last bits: that is no gain, and brokers would flap.
    if gain <= max(least_gain, 1e-12) * abs(unchanged):
        return None
    return best


def add_costs(vectors: Iterable[Sequence[float]]) -> list[float]:
    """The members' cost vectors added up (Eq. 9)."""
    return [sum(column) for column in zip(*vectors, strict=True)]


def link_weight(heuristic: Heuristic, link_cost: float, common: float) -> float:
    """What lMST and lMIT want little of in a link: its price; or common interest, negated."""
    return -common if heuristic is Heuristic.MIT else link_cost


def wants_lighter_link(weight: float, path_weights: Sequence[float]) -> bool:
    """Whether lMST or lMIT prefer a new link to the heaviest on the path that it would close."""
    return weight < max(path_weights)


def removal_weights(member: int, weight: float, size: int) -> list[float]:
    """lMST's and lMIT's share of Eq. 9: the member accounts for the cycle link with its number.

    Added up, the removal of a link leaves the weight of all others, so `choose_removal` drops the
    heaviest if the proposed one is lighter.
    """
    return [0.0 if link == member else weight for link in range(size)]

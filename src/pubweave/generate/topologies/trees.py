"""Trees of brokers ``b1 .. bn``, with ``b1`` as a root; targets that differ from a tree.

Each generator returns a tree of exactly the brokers asked for; those that draw take the random
generator as an argument and depend on nothing else.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from pubweave.generate.topologies.latencies import draw_latencies
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology, TopologyError, validate_tree

IPITT_DEGREES = (5, 6, 7)
ROOT: BrokerId = "b1"


def broker_name(number: int) -> BrokerId:
    """The id of the broker with this number; numbers start at 1."""
    return f"b{number}"


def hierarchical_tree(
    broker_count: int, max_degree: int, balanced: bool, rng: np.random.Generator
) -> Topology:
    """A tree as in IPITT VI-A: each broker's degree is drawn uniformly up to ``max_degree``.

    Degrees are drawn from 2 on, so that growth never stalls; leaves are the brokers that were
    still waiting for children when the brokers ran out. A balanced tree is filled level by level
    (its leaves lie on two neighboring levels at most), an unbalanced one grows at uniformly
    random brokers with room. Latencies are uniform between 10 and 50 ms.
    """
    _validate_count(broker_count)
    if max_degree < 2 and broker_count > max_degree + 1:
        raise ValueError(f"max degree {max_degree} cannot hold {broker_count} brokers together")
    pairs: list[tuple[int, int]] = []
    # Brokers with room for children, and for how many each.
    waiting = [1]
    room = [_draw_degree(max_degree, rng)]
    first = 0
    for child in range(2, broker_count + 1):
        place = first if balanced else int(rng.integers(len(waiting)))
        pairs.append((waiting[place], child))
        room[place] -= 1
        if not room[place]:
            if balanced:
                first += 1
            else:
                waiting[place], room[place] = waiting[-1], room[-1]
                waiting.pop()
                room.pop()
        # One link of a child's degree is the one to its parent.
        spare = _draw_degree(max_degree, rng) - 1
        if spare:
            waiting.append(child)
            room.append(spare)
    return _tree(broker_count, pairs, rng)


def ipitt_topologies(broker_count: int, seed: int) -> dict[str, Topology]:
    """The 12 evaluation topologies of IPITT VI-A by name, such as ``degree5-balanced-1``."""
    topologies = {}
    for max_degree in IPITT_DEGREES:
        for balanced in (True, False):
            for variant in (1, 2):
                rng = np.random.default_rng([seed, max_degree, int(balanced), variant])
                shape = "balanced" if balanced else "unbalanced"
                name = f"degree{max_degree}-{shape}-{variant}"
                topologies[name] = hierarchical_tree(broker_count, max_degree, balanced, rng)
    return topologies


def fanout_tree(
    broker_count: int, fanout: int = 2, rng: np.random.Generator | None = None
) -> Topology:
    """A balanced tree in which each broker has ``fanout`` children until the brokers run out.

    POP/GRAPE 5.1 uses a fan-out of 2. Latencies are drawn only if ``rng`` is given.
    """
    if fanout < 1:
        raise ValueError(f"a fan-out of {fanout} joins nothing: use 1 or more")
    pairs = [((child - 2) // fanout + 1, child) for child in range(2, broker_count + 1)]
    return _tree(broker_count, pairs, rng)


def chain(broker_count: int, rng: np.random.Generator | None = None) -> Topology:
    """Brokers in a row; latencies are drawn only if ``rng`` is given."""
    return fanout_tree(broker_count, 1, rng)


def star(broker_count: int, rng: np.random.Generator | None = None) -> Topology:
    """All brokers around ``b1``; latencies are drawn only if ``rng`` is given."""
    return fanout_tree(broker_count, max(1, broker_count - 1), rng)


def random_tree(broker_count: int, rng: np.random.Generator) -> Topology:
    """A tree drawn uniformly from all labelled trees; latencies uniform between 10 and 50 ms."""
    return _tree(broker_count, random_tree_pairs(broker_count, rng), rng)


def random_tree_pairs(broker_count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """The links of a uniformly random tree as pairs of broker numbers, through a Pruefer code."""
    _validate_count(broker_count)
    if broker_count == 1:
        return []
    code = rng.integers(1, broker_count + 1, size=broker_count - 2).tolist()
    degree = [1] * (broker_count + 1)
    for number in code:
        degree[number] += 1
    leaves = [number for number in range(1, broker_count + 1) if degree[number] == 1]
    pairs = []
    for number in code:
        pairs.append((heapq.heappop(leaves), number))
        degree[number] -= 1
        if degree[number] == 1:
            heapq.heappush(leaves, number)
    pairs.append((heapq.heappop(leaves), heapq.heappop(leaves)))
    return pairs


def _draw_degree(max_degree: int, rng: np.random.Generator) -> int:
    return int(rng.integers(2, max_degree + 1)) if max_degree > 2 else max_degree


def _tree(
    broker_count: int, pairs: Iterable[tuple[int, int]], rng: np.random.Generator | None
) -> Topology:
    _validate_count(broker_count)
    named = [(broker_name(a), broker_name(b)) for a, b in pairs]
    shape = Topology.from_links(named, brokers=[ROOT])
    if rng is None:
        return shape
    return Topology(shape.brokers, shape.links, draw_latencies(shape.links, rng))


def _validate_count(broker_count: int) -> None:
    if broker_count < 1:
        raise ValueError(f"a topology needs at least 1 broker, got {broker_count}")


_DRAWS_AT_ONCE = 256


def change_links(topology: Topology, ratio: float, rng: np.random.Generator) -> Topology:
    """A tree in which ``round(ratio * links)`` links of a tree have been replaced by others.

    The links are deleted at once, then the parts are joined by uniformly random pairs of brokers,
    never by a deleted link. Kept links keep their latencies, new ones get one drawn.
    """
    validate_tree(topology)
    if not 0 <= ratio <= 1:
        raise ValueError(f"the change ratio is a share between 0 and 1, got {ratio}")
    present = sorted(topology.links)
    count = round(ratio * len(present))
    chosen = rng.choice(len(present), size=count, replace=False).tolist()
    deleted = frozenset(present[index] for index in chosen)
    _validate_joinable(topology, deleted)
    kept = topology.links - deleted
    added = _join(sorted(topology.brokers), kept, deleted, rng)
    latency_ms = {link: ms for link, ms in topology.latency_ms.items() if link in kept}
    latency_ms.update(draw_latencies(added, rng))
    return replace(topology, links=kept | set(added), latency_ms=latency_ms)


def _validate_joinable(topology: Topology, deleted: frozenset[Link]) -> None:
    # Deleted links of a tree form a forest. Parts that only deleted links could join would make
    # it complete bipartite, and the only such forests are stars: one broker lost every pair.
    lost = Counter(end for link in sorted(deleted) for end in link)
    for broker, count in lost.items():
        if count == len(topology.brokers) - 1:
            raise TopologyError(
                f"changing {len(deleted)} of {len(topology.links)} links leaves broker {broker!r} "
                "no other broker to link to; use a smaller ratio"
            )


def _join(
    brokers: list[BrokerId],
    kept: Iterable[Link],
    deleted: frozenset[Link],
    rng: np.random.Generator,
) -> list[Link]:
    parts = DisjointSets(brokers)
    for link in kept:
        parts.join(link)
    added: list[Link] = []
    while len(added) < len(deleted):
        for i, j in rng.integers(len(brokers), size=(_DRAWS_AT_ONCE, 2)).tolist():
            if parts.together(brokers[i], brokers[j]):
                continue
            link = Link.between(brokers[i], brokers[j])
            if link not in deleted:
                parts.join(link)
                added.append(link)
                if len(added) == len(deleted):
                    break
    return added


class DisjointSets:
    """Parts of a set of brokers that only ever grow together; near-constant time per call."""

    def __init__(self, brokers: Iterable[BrokerId]) -> None:
        self._nearer = {broker: broker for broker in brokers}

    def join(self, link: Link) -> bool:
        """Join the parts of a link's two ends; False if they were one already."""
        one, other = self._representative(link.a), self._representative(link.b)
        self._nearer[one] = other
        return one != other

    def together(self, one: BrokerId, other: BrokerId) -> bool:
        """Whether two brokers are in the same part."""
        return self._representative(one) == self._representative(other)

    def _representative(self, broker: BrokerId) -> BrokerId:
        nearer = self._nearer
        while nearer[broker] != broker:
            nearer[broker] = nearer[nearer[broker]]
            broker = nearer[broker]
        return broker

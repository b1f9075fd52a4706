"""A target topology that differs from its source by a given share of the links (IPITT VI-A)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from pubweave.generate.topologies.latencies import draw_latencies
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology, TopologyError, validate_tree

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

"""Hybrid networks: a ring in the middle, and clusters that reach it through gateways."""

from __future__ import annotations

import numpy as np

from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology


def hybrid_network(
    brokers: int, clusters: int, gateways: int, rng: np.random.Generator
) -> Topology:
    """Brokers b1, b2, ...: the first ones on the ring, the rest in clusters of about that size.

    In each part everybody has a link with somebody before it, and those of a cluster say in their
    attribute ``cluster`` which one it is. The first ``gateways`` of a cluster have a link with a
    broker of the ring each. ValueError if there are too few brokers. O(brokers).

    >>> made = hybrid_network(9, clusters=2, gateways=1, rng=np.random.default_rng(1))
    >>> sorted(made.broker_attributes.items())[:2]
    [('b4', {'cluster': 'c1'}), ('b5', {'cluster': 'c1'})]
    >>> len(made.links)
    8
    """
    if brokers < (clusters + 1) * max(1, gateways):
        raise ValueError(
            f"{brokers} brokers are too few for a ring and {clusters} clusters with {gateways} "
            f"gateway(s) each: take {(clusters + 1) * max(1, gateways)} at least"
        )
    sizes = [len(part) for part in np.array_split(np.arange(brokers), clusters + 1)]
    links: set[Link] = set()
    attributes: dict[BrokerId, dict[str, str]] = {}
    first = 1
    for part, size in enumerate(sizes):
        names = [f"b{number}" for number in range(first, first + size)]
        first += size
        for place in range(1, size):
            links.add(Link.between(names[place], names[int(rng.integers(place))]))
        if part:
            attributes |= {name: {"cluster": f"c{part}"} for name in names}
            ends = rng.permutation(sizes[0])
            for place, name in enumerate(names[:gateways]):
                links.add(Link.between(name, f"b{int(ends[place % sizes[0]]) + 1}"))
    everybody = frozenset(f"b{number}" for number in range(1, brokers + 1))
    return Topology(everybody, frozenset(links), broker_attributes=attributes)

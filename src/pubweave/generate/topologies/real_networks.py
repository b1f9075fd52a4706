"""Spanning trees of real networks, read from GraphML maps such as those of the Topology Zoo.

Only the largest connected part of a map is used. Its sites become brokers ``b1 .. bn`` in the
order of their ids in the map, and keep label and coordinates as broker attributes. Latencies
follow from distances: light in fibre covers 200 km in a millisecond.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path

import numpy as np

from pubweave.generate.topologies.latencies import LEAST_LATENCY_MS
from pubweave.generate.topologies.trees import DisjointSets, broker_name
from pubweave.model.files.topology import read_topology
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology, TopologyError

EARTH_RADIUS_KM = 6371.0
KM_PER_MS = 200.0
_KEPT_ATTRIBUTES = {
    "label": "label",
    "Country": "country",
    "Latitude": "latitude",
    "Longitude": "longitude",
}


class SpanningTree(Enum):
    """Which tree to take of a network that has many."""

    MINIMUM = "minimum"
    UNIFORM = "uniform"


def read_network(path: str | Path) -> Topology:
    """The largest connected part of a GraphML map, links with latencies from distances.

    A link with an unknown end gets the median latency of the others, 0.1 ms if none is known.
    """
    whole = read_topology(path)
    if not whole.brokers:
        raise TopologyError(f"{path}: the map has no nodes")
    sites = sorted(whole.components[0], key=_numbers_first)
    name_of = {site: broker_name(number) for number, site in enumerate(sites, start=1)}
    attributes = {
        name_of[site]: {
            ours: whole.broker_attributes[site][theirs]
            for theirs, ours in _KEPT_ATTRIBUTES.items()
            if theirs in whole.broker_attributes.get(site, {})
        }
        for site in sites
    }
    links = frozenset(
        Link.between(name_of[link.a], name_of[link.b]) for link in whole.links if link.a in name_of
    )
    place = {broker: found for broker, kept in attributes.items() if (found := _coordinates(kept))}
    return Topology(frozenset(attributes), links, _latencies(links, place), attributes)


def spanning_tree(network: Topology, kind: SpanningTree, rng: np.random.Generator) -> Topology:
    """A tree over all brokers of a connected network, with the network's latencies.

    The minimum tree has the least total latency and draws nothing; the uniform one is drawn from
    all spanning trees of the network alike.
    """
    if not network.is_connected:
        raise TopologyError("the network is not connected, so no tree spans it")
    if kind is SpanningTree.MINIMUM:
        links = _minimum_links(network)
    else:
        links = _uniform_links(network, rng)
    known = {link: network.latency_ms[link] for link in sorted(links) if link in network.latency_ms}
    return replace(network, links=frozenset(links), latency_ms=known)


def great_circle_km(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The distance of two places given by latitude and longitude in degrees (haversine)."""
    lat1, lon1, lat2, lon2 = map(math.radians, (*one, *other))
    half = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(half)))


def _coordinates(attributes: Mapping[str, object]) -> tuple[float, float] | None:
    latitude, longitude = attributes.get("latitude"), attributes.get("longitude")
    if isinstance(latitude, int | float) and isinstance(longitude, int | float):
        return float(latitude), float(longitude)
    return None


def _latencies(
    links: Iterable[Link], place: Mapping[BrokerId, tuple[float, float]]
) -> dict[Link, float]:
    ordered = sorted(links)
    known: dict[Link, float] = {}
    for link in ordered:
        if link.a in place and link.b in place:
            ms = great_circle_km(place[link.a], place[link.b]) / KM_PER_MS
            known[link] = max(LEAST_LATENCY_MS, round(ms, 3))
    typical = statistics.median(known.values()) if known else LEAST_LATENCY_MS
    return {link: known.get(link, typical) for link in ordered}


def _minimum_links(network: Topology) -> list[Link]:
    """Kruskal's algorithm: shortest links first, ties in the order of the links."""
    parts = DisjointSets(network.brokers)
    shortest_first = sorted(
        network.links, key=lambda link: (network.latency_ms.get(link, 0.0), link)
    )
    return [link for link in shortest_first if parts.join(link)]


def _uniform_links(network: Topology, rng: np.random.Generator) -> list[Link]:
    """Wilson's algorithm: random walks with their loops erased, each until it meets the tree."""
    brokers = sorted(network.brokers)
    inside = {brokers[0]}
    toward: dict[BrokerId, BrokerId] = {}
    chosen = []
    for start in brokers:
        walker = start
        while walker not in inside:
            ends = network.neighbors[walker]
            # Overwriting an earlier departure is what erases the loop.
            toward[walker] = ends[int(rng.integers(len(ends)))]
            walker = toward[walker]
        walker = start
        while walker not in inside:
            inside.add(walker)
            chosen.append(Link.between(walker, toward[walker]))
            walker = toward[walker]
    return chosen


def _numbers_first(site: str) -> tuple[int, int, str]:
    return (0, int(site), site) if site.isdecimal() else (1, 0, site)


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

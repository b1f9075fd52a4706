"""Underlays: the physical networks below an overlay, as CI's evaluation needs them.

A top-down network in the manner of BRITE: domains grow by preferential attachment
(Barabasi-Albert), the routers of a domain by nearness (Waxman), and a link between two domains
ends at a random router of each. Brokers sit at random routers, and what counts between two of
them is the shortest path below.

How long a link is depends on the geometry (`Geometry`): one plane for all, a plane for each domain
as BRITE has it, or hops.

Routers are numbered, not named: they are no brokers. Every underlay is connected.
"""

from __future__ import annotations

import enum
import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pubweave.generate.topologies.trees import broker_name, random_tree_pairs
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Geometry(enum.Enum):
    """Where routers are, and so how long links are."""

    PLANAR = "planar"
    """Domains are small squares at random places of one plane: the distance there."""
    BRITE = "brite"
    """Every domain has its own plane, as large as all others and not shifted: a link between two
    domains is as long as its routers' own coordinates are apart."""
    HOPS = "hops"
    """Planar, but every link has the same length."""


@dataclass(frozen=True)
class UnderlayParameters:
    """The scale of CI section 5 and the numbers of BRITE's top-down sample configuration.

    Distances are in units of the plane on which domains (or, in BRITE's geometry, the routers of
    each domain) lie. BRITE also has an alpha of 0.15; it
    scales all of Waxman's probabilities alike and cancels where each router draws its links.
    """

    domains: int = 100
    routers_per_domain: int = 101
    domain_links: int = 2
    router_links: int = 2
    waxman_beta: float = 0.2
    plane_side: float = 1000.0
    domain_side: float = 100.0
    """Of a domain's square in one plane; BRITE's domains are as large as the plane."""
    ms_per_unit: float = 0.025
    """One unit is taken as 5 km, and light in fibre needs 1 ms for 200 km."""
    geometry: Geometry = Geometry.PLANAR
    hop_ms: float = 1.0
    """The latency of every link where hops count."""

    @property
    def square_side(self) -> float:
        """Of the square in which the routers of one domain lie."""
        return self.plane_side if self.geometry is Geometry.BRITE else self.domain_side

    def __post_init__(self) -> None:
        for name in ("domains", "routers_per_domain", "domain_links", "router_links"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("waxman_beta", "plane_side", "domain_side", "ms_per_unit", "hop_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class Underlay:
    """Routers 0, 1, ... with their domains and places, and links with one-way latencies."""

    domain: Integers
    position: Floats
    links: Integers
    latency_ms: Floats

    @property
    def router_count(self) -> int:
        return len(self.domain)


@dataclass(frozen=True, eq=False)
class PlacedBrokers:
    """Brokers at routers; ``distance_ms[i, j]`` is the shortest path of brokers i and j."""

    brokers: tuple[BrokerId, ...]
    routers: tuple[int, ...]
    distance_ms: Floats

    def link_costs(self, lowest: float = 0.0, highest: float = 10.0) -> Floats:
        """The distances scaled linearly so that the least and greatest become these (CI 5)."""
        pairs = ~np.eye(len(self.brokers), dtype=bool)
        costs = np.zeros_like(self.distance_ms)
        if not pairs.any():
            return costs
        least, greatest = self.distance_ms[pairs].min(), self.distance_ms[pairs].max()
        spread = greatest - least or 1.0
        costs[pairs] = lowest + (self.distance_ms[pairs] - least) * (highest - lowest) / spread
        return costs

    def random_overlay(self, rng: np.random.Generator) -> Topology:
        """A uniformly random tree of the brokers, with the latencies of the underlay."""
        pairs = random_tree_pairs(len(self.brokers), rng)
        return self._overlay([(a - 1, b - 1) for a, b in pairs])

    def minimum_overlay(self) -> Topology:
        """The tree of least total distance (Prim's algorithm); ties go to the smaller index."""
        nearest = self.distance_ms[0].copy()
        parent = np.zeros(len(self.brokers), dtype=np.int64)
        inside = np.zeros(len(self.brokers), dtype=bool)
        inside[0] = True
        pairs = []
        for _ in self.brokers[1:]:
            joined = int(np.argmin(np.where(inside, np.inf, nearest)))
            pairs.append((int(parent[joined]), joined))
            inside[joined] = True
            closer = self.distance_ms[joined] < nearest
            nearest = np.where(closer, self.distance_ms[joined], nearest)
            parent[closer] = joined
        return self._overlay(pairs)

    def _overlay(self, pairs: list[tuple[int, int]]) -> Topology:
        latency_ms = {
            Link.between(self.brokers[i], self.brokers[j]): round(float(self.distance_ms[i, j]), 3)
            for i, j in pairs
        }
        return Topology(frozenset(self.brokers), frozenset(latency_ms), latency_ms)


def make_underlay(
    rng: np.random.Generator, parameters: UnderlayParameters | None = None
) -> Underlay:
    """A connected underlay. O(routers * routers per domain)."""
    chosen = parameters or UnderlayParameters()
    per_domain = chosen.routers_per_domain
    centres = rng.uniform(0, chosen.plane_side, size=(chosen.domains, 2))
    offsets = rng.uniform(-0.5, 0.5, size=(chosen.domains, per_domain, 2)) * chosen.square_side
    if chosen.geometry is Geometry.BRITE:
        centres[:] = chosen.plane_side / 2
    position = (centres[:, None, :] + offsets).reshape(-1, 2)
    links: list[tuple[int, int]] = []
    for domain in range(chosen.domains):
        first = domain * per_domain
        inside = _waxman_links(offsets[domain], chosen, rng)
        links.extend((first + a, first + b) for a, b in inside)
    for a, b in _preferential_links(chosen.domains, chosen.domain_links, rng):
        ends = rng.integers(per_domain, size=2).tolist()
        links.append((a * per_domain + ends[0], b * per_domain + ends[1]))
    pairs = np.array(links, dtype=np.int64).reshape(-1, 2)
    length = np.linalg.norm(position[pairs[:, 0]] - position[pairs[:, 1]], axis=1)
    domain_of = np.repeat(np.arange(chosen.domains), per_domain)
    latency_ms = length * chosen.ms_per_unit
    if chosen.geometry is Geometry.HOPS:
        latency_ms = np.full(len(pairs), chosen.hop_ms)
    return Underlay(domain_of, position, pairs, latency_ms)


def place_brokers(underlay: Underlay, broker_count: int, rng: np.random.Generator) -> PlacedBrokers:
    """Brokers ``b1 .. bn`` at different random routers, and all distances between them."""
    if not 1 <= broker_count <= underlay.router_count:
        raise ValueError(
            f"{underlay.router_count} routers have room for 1 to {underlay.router_count} brokers, "
            f"not {broker_count}"
        )
    routers = rng.choice(underlay.router_count, size=broker_count, replace=False).tolist()
    brokers = tuple(broker_name(number) for number in range(1, broker_count + 1))
    return PlacedBrokers(brokers, tuple(routers), _distances(underlay, routers))


def _waxman_links(
    places: Floats, parameters: UnderlayParameters, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Each router in turn links to earlier ones, nearer ones with greater probability.

    Waxman's probability for two routers is proportional to exp(-distance / (beta * L)), L being
    the greatest distance the domain's square allows.
    """
    scale = parameters.waxman_beta * parameters.square_side * np.sqrt(2)
    links: list[tuple[int, int]] = []
    for router in range(1, len(places)):
        distance = np.linalg.norm(places[:router] - places[router], axis=1)
        weight = np.exp(-distance / scale)
        count = min(parameters.router_links, router)
        # The k largest of log(weight) + Gumbel noise are k weighted draws without replacement.
        keys = np.log(weight) + rng.gumbel(size=router)
        links.extend((int(earlier), router) for earlier in np.argsort(-keys)[:count])
    return links


def _preferential_links(
    domain_count: int, links_each: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Each domain in turn links to earlier ones, in proportion to the links they have."""
    links: list[tuple[int, int]] = []
    # Every domain stands here once per link, so a uniform draw is a draw by degree.
    ends: list[int] = [0]
    for domain in range(1, domain_count):
        chosen: list[int] = []
        while len(chosen) < min(links_each, domain):
            earlier = ends[int(rng.integers(len(ends)))]
            if earlier not in chosen:
                chosen.append(earlier)
        links.extend((earlier, domain) for earlier in chosen)
        ends.extend(chosen)
        ends.extend([domain] * len(chosen))
    return links


def _distances(underlay: Underlay, routers: list[int]) -> Floats:
    """Shortest paths between the given routers: one Dijkstra search from each."""
    ways: list[list[tuple[int, float]]] = [[] for _ in range(underlay.router_count)]
    for (a, b), ms in zip(underlay.links.tolist(), underlay.latency_ms.tolist(), strict=True):
        ways[a].append((b, ms))
        ways[b].append((a, ms))
    distance_ms = np.zeros((len(routers), len(routers)))
    for index, start in enumerate(routers):
        reached = _shortest_from(start, ways)
        # One direction of each pair, mirrored: sums in the other order differ in the last bit.
        for other in range(index + 1, len(routers)):
            distance_ms[index, other] = distance_ms[other, index] = reached[routers[other]]
    return distance_ms


def _shortest_from(start: int, ways: list[list[tuple[int, float]]]) -> list[float]:
    distance_ms = [float("inf")] * len(ways)
    distance_ms[start] = 0.0
    heap = [(0.0, start)]
    while heap:
        so_far, router = heapq.heappop(heap)
        if so_far > distance_ms[router]:
            continue
        for neighbor, ms in ways[router]:
            longer = so_far + ms
            if longer < distance_ms[neighbor]:
                distance_ms[neighbor] = longer
                heapq.heappush(heap, (longer, neighbor))
    return distance_ms

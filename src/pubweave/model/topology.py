"""A topology: brokers and undirected links, as an immutable value.

Questions about one topology and small changes that give another live here; files are in
`files/topology`, generators in `pubweave.generate`. Every link has both ends among the brokers,
and whatever has an order is in the order of the ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pubweave.model.ids import BrokerId, Link, natural_order

NAMED_AT_MOST = 12
"""A message names no more brokers of one cycle than this."""


class TopologyError(ValueError):
    """A topology that cannot be used, with the reason in words for its author."""


@dataclass(frozen=True)
class Topology:
    """Brokers and links; ``latency_ms`` holds what is known of the links' one-way latencies.

    ``broker_attributes`` holds what a file says of a broker besides its id (a runtime reads its
    address there). Neither takes part in comparisons: equal means the same brokers and links.

    >>> chain = Topology.from_links([("b1", "b2"), ("b2", "b3")])
    >>> chain.path("b1", "b3")
    ('b1', 'b2', 'b3')
    """

    brokers: frozenset[BrokerId]
    links: frozenset[Link]
    latency_ms: Mapping[Link, float] = field(default_factory=dict, compare=False)
    broker_attributes: Mapping[BrokerId, Mapping[str, Any]] = field(
        default_factory=dict, compare=False
    )

    def __post_init__(self) -> None:
        for link in self.links:
            if link.a >= link.b:
                raise TopologyError(f"link {link} is not in order: use Link.between")
        strangers = {end for link in self.links for end in link} - self.brokers
        if strangers:
            unknown = min(strangers)
            link = min(link for link in self.links if unknown in link)
            raise TopologyError(f"link {link} names the unknown broker {unknown!r}")

    @classmethod
    def from_links(
        cls,
        pairs: Iterable[tuple[BrokerId, BrokerId]],
        brokers: Iterable[BrokerId] = (),
        latency_ms: Mapping[Link, float] | None = None,
    ) -> Topology:
        """A topology from pairs in any order, plus brokers that have no link."""
        links = frozenset(Link.between(a, b) for a, b in pairs)
        ends = {end for link in links for end in link}
        return cls(frozenset(ends | set(brokers)), links, latency_ms or {})

    @cached_property
    def neighbors(self) -> Mapping[BrokerId, tuple[BrokerId, ...]]:
        """Each broker's neighbors, in the order of their ids."""
        found: dict[BrokerId, list[BrokerId]] = {b: [] for b in sorted(self.brokers)}
        for a, b in self.links:
            found[a].append(b)
            found[b].append(a)
        return {broker: tuple(sorted(ends)) for broker, ends in found.items()}

    def degree(self, broker: BrokerId) -> int:
        """How many links a broker has."""
        return len(self.neighbors[broker])

    @property
    def leaves(self) -> tuple[BrokerId, ...]:
        """The brokers with at most one link, in the order of their ids."""
        return tuple(broker for broker, ends in self.neighbors.items() if len(ends) <= 1)

    @cached_property
    def is_connected(self) -> bool:
        if not self.brokers:
            return False
        return len(self._reachable(min(self.brokers))) == len(self.brokers)

    @property
    def is_tree(self) -> bool:
        return len(self.links) == len(self.brokers) - 1 and self.is_connected

    @cached_property
    def components(self) -> tuple[tuple[BrokerId, ...], ...]:
        """The connected parts, each in the order of its ids, largest first."""
        parts: list[tuple[BrokerId, ...]] = []
        seen: set[BrokerId] = set()
        for broker in self.neighbors:
            if broker not in seen:
                part = tuple(sorted(self._reachable(broker)))
                seen.update(part)
                parts.append(part)
        return tuple(sorted(parts, key=lambda part: (-len(part), part)))

    def path(self, start: BrokerId, end: BrokerId) -> tuple[BrokerId, ...]:
        """The brokers from start to end over the fewest links. O(brokers + links)."""
        came_from = self._reachable(start)
        if end not in came_from:
            raise TopologyError(f"no path from {start!r} to {end!r}")
        way = [end]
        while way[-1] != start:
            way.append(came_from[way[-1]])
        return tuple(reversed(way))

    def hops_from(self, start: BrokerId) -> dict[BrokerId, int]:
        """The fewest links to each reachable broker, nearest first. O(brokers + links)."""
        hops: dict[BrokerId, int] = {}
        for broker, nearer in self._reachable(start).items():
            hops[broker] = hops[nearer] + 1 if broker != start else 0
        return hops

    def ms_from(self, start: BrokerId) -> dict[BrokerId, float]:
        """The latency to each reachable broker along its path of fewest links.

        Raises TopologyError where a link on the way has no known latency.
        """
        delay_ms: dict[BrokerId, float] = {}
        for broker, nearer in self._reachable(start).items():
            if broker == start:
                delay_ms[broker] = 0.0
                continue
            link = Link.between(broker, nearer)
            if link not in self.latency_ms:
                raise TopologyError(f"the latency of link {link} is not known")
            delay_ms[broker] = delay_ms[nearer] + self.latency_ms[link]
        return delay_ms

    def with_link(self, link: Link, latency_ms: float | None = None) -> Topology:
        """This topology and one link more, between brokers it has."""
        if link in self.links:
            raise TopologyError(f"link {link} is already there")
        known = dict(self.latency_ms)
        if latency_ms is not None:
            known[link] = latency_ms
        return replace(self, links=self.links | {link}, latency_ms=known)

    def without_link(self, link: Link) -> Topology:
        """This topology and one link less."""
        if link not in self.links:
            raise TopologyError(f"link {link} is not there")
        known = {other: ms for other, ms in self.latency_ms.items() if other != link}
        return replace(self, links=self.links - {link}, latency_ms=known)

    def _reachable(self, start: BrokerId) -> dict[BrokerId, BrokerId]:
        """For each broker reachable from start, the broker one hop nearer to it; nearest first."""
        if start not in self.neighbors:
            raise TopologyError(f"no broker {start!r} in the topology")
        came_from = {start: start}
        queue = deque([start])
        while queue:
            broker = queue.popleft()
            for neighbor in self.neighbors[broker]:
                if neighbor not in came_from:
                    came_from[neighbor] = broker
                    queue.append(neighbor)
        return came_from


def validate_tree(topology: Topology) -> None:
    """Raise TopologyError, saying what is wrong, unless the topology is a tree."""
    if not topology.brokers:
        raise TopologyError("the topology has no brokers")
    if not topology.is_connected:
        reached = topology._reachable(min(topology.brokers))
        lost = sorted(topology.brokers - set(reached))
        raise TopologyError(
            f"not a tree: {len(lost)} broker(s) cannot be reached from {min(topology.brokers)!r}, "
            f"for example {lost[0]!r}; add a link to them"
        )
    if not topology.is_tree:
        cycle = _one_cycle(topology)
        others = len(topology.links) - len(topology.brokers)
        more = f", and {others} more link(s) for other cycles" if others else ""
        raise TopologyError(
            f"not a tree: {cycle[-1]}-{cycle[0]} closes a cycle; "
            f"remove one link of {_shortened(cycle)}{more}"
        )


def _one_cycle(topology: Topology) -> list[BrokerId]:
    """The brokers around one cycle of what is connected and no tree, the first in front."""
    nearer = topology._reachable(min(topology.brokers))
    closing = min(
        link for link in topology.links if link.b != nearer[link.a] and link.a != nearer[link.b]
    )
    around = topology.without_link(closing).path(*closing)
    start = around.index(min(around, key=natural_order))
    first, *rest = around[start:] + around[:start]
    if natural_order(rest[0]) > natural_order(rest[-1]):
        rest.reverse()
    return [first, *rest]


def _shortened(cycle: list[BrokerId]) -> str:
    shown = (
        cycle if len(cycle) <= NAMED_AT_MOST else [*cycle[: NAMED_AT_MOST - 1], "...", cycle[-1]]
    )
    return "-".join(shown)

"""A topology: brokers and undirected links, as an immutable value."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pubweave.model.ids import BrokerId, Link


class TopologyError(ValueError):
    """A topology that cannot be used, with the reason in words for its author."""


@dataclass(frozen=True)
class Topology:
    """Brokers and links; ``latency_ms`` holds what is known of the links' one-way latencies.

    >>> chain = Topology.from_links([("b1", "b2"), ("b2", "b3")])
    >>> chain.path("b1", "b3")
    ('b1', 'b2', 'b3')
    """

    brokers: frozenset[BrokerId]
    links: frozenset[Link]
    latency_ms: Mapping[Link, float] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for link in self.links:
            for end in link:
                if end not in self.brokers:
                    raise TopologyError(f"link {link} names the unknown broker {end!r}")

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
        for a, b in sorted(self.links):
            found[a].append(b)
            found[b].append(a)
        return {broker: tuple(sorted(ends)) for broker, ends in found.items()}

    @property
    def is_connected(self) -> bool:
        if not self.brokers:
            return False
        return len(self._reachable(min(self.brokers))) == len(self.brokers)

    @property
    def is_tree(self) -> bool:
        return len(self.links) == len(self.brokers) - 1 and self.is_connected

    def path(self, start: BrokerId, end: BrokerId) -> tuple[BrokerId, ...]:
        """The brokers from start to end over the fewest links. O(brokers + links)."""
        came_from = self._reachable(start)
        if end not in came_from:
            raise TopologyError(f"no path from {start!r} to {end!r}")
        way = [end]
        while way[-1] != start:
            way.append(came_from[way[-1]])
        return tuple(reversed(way))

    def _reachable(self, start: BrokerId) -> dict[BrokerId, BrokerId]:
        """For each broker reachable from start, the broker one hop nearer to it."""
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
        extra = len(topology.links) - len(topology.brokers) + 1
        raise TopologyError(f"not a tree: {extra} link(s) too many close a cycle")

"""Who subscribes to which topics: the input of everything that builds topic-connected overlays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pubweave.model.topology import Topology

Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Subscriptions:
    """Nodes with the topics that each of them wants; a node here is a client of the input files.

    The topics of node i are ``topics[starts[i]:starts[i + 1]]``, ascending, none twice.

    >>> wanted = Subscriptions.of({"a": ["x", "y"], "b": ["y"]})
    >>> wanted.node_count, wanted.topic_count, wanted.size
    (2, 2, 3)
    >>> wanted.topics_of(0).tolist()
    [0, 1]
    """

    nodes: tuple[str, ...]
    topic_names: tuple[str, ...]
    starts: Integers
    topics: Indices

    @classmethod
    def of(cls, wanted: Mapping[str, Iterable[str]]) -> Subscriptions:
        """From topics by node, in the given order of nodes; topics in the order of their names."""
        sets = [sorted(set(topics)) for topics in wanted.values()]
        names = tuple(sorted({topic for topics in sets for topic in topics}))
        number = {topic: place for place, topic in enumerate(names)}
        starts = np.cumsum([0, *map(len, sets)], dtype=np.int64)
        flat = [number[topic] for topics in sets for topic in topics]
        return cls(tuple(wanted), names, starts, np.array(flat, dtype=np.int32))

    @classmethod
    def from_pairs(
        cls,
        nodes: Sequence[str],
        topic_names: Sequence[str],
        owners: npt.NDArray[np.integer],
        topics: npt.NDArray[np.integer],
    ) -> Subscriptions:
        """From pairs of node and topic by number, in any order; repeated ones count once."""
        width = max(1, len(topic_names))
        keys = owners.astype(np.int64) * width + topics.astype(np.int64)
        keys.sort()  # several times quicker than np.unique's table of 25 million pairs
        keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
        counts = np.bincount(keys // width, minlength=len(nodes))
        starts = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        return cls(tuple(nodes), tuple(topic_names), starts, (keys % width).astype(np.int32))

    @property
    def node_count(self) -> int:
        return len(self.nodes)

    @property
    def topic_count(self) -> int:
        return len(self.topic_names)

    @property
    def size(self) -> int:
        """How many subscriptions there are."""
        return len(self.topics)

    @cached_property
    def sizes(self) -> Integers:
        """How many topics each node wants."""
        return np.diff(self.starts)

    @cached_property
    def node_number(self) -> Mapping[str, int]:
        return {node: place for place, node in enumerate(self.nodes)}

    def topics_of(self, node: int) -> Indices:
        return self.topics[self.starts[node] : self.starts[node + 1]]

    def links_of(self, overlay: Topology) -> Indices:
        """The links between these nodes, by number; others connect nobody."""
        number = self.node_number
        pairs = [
            (number[link.a], number[link.b])
            for link in sorted(overlay.links)
            if link.a in number and link.b in number
        ]
        return np.array(pairs, np.int32).reshape(-1, 2)

    def overlay(self, links: Indices) -> Topology:
        """The nodes with links that are given by number."""
        pairs = ((self.nodes[a], self.nodes[b]) for a, b in links.tolist())
        return Topology.from_links(pairs, brokers=self.nodes)

    def canonical_order(self) -> Integers:
        """Nodes by descending number of topics, then as they come: the order that settles ties."""
        return np.argsort(-self.sizes, kind="stable")

    def taken(self, nodes: npt.NDArray[np.integer]) -> Subscriptions:
        """Some of the nodes, in this order, with the same topics."""
        starts, places = gathered(self.starts, nodes)
        names = tuple(self.nodes[node] for node in nodes)
        return Subscriptions(names, self.topic_names, starts, self.topics[places])


def gathered(starts: Integers, rows: npt.NDArray[np.integer]) -> tuple[Integers, Integers]:
    """The starts of some rows put one after the other, and where their entries are."""
    sizes = starts[rows + 1] - starts[rows]
    new = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sizes, out=new[1:])
    return new, np.arange(new[-1]) + np.repeat(starts[rows] - new[:-1], sizes)

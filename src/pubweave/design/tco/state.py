"""What is known of a maintained overlay: nodes by number, their topics, links and backups.

Numbers of nodes that left are given again. Everything is in arrays that the kernels change; this
module is the only one that knows names and numbers both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pubweave.design.tco._kernels import churn as kernels
from pubweave.design.tco._kernels.pieces import Wishes
from pubweave.design.tco._kernels.rows import Bags, bags_of, empty_bags, widened
from pubweave.design.tco.changes import Pair
from pubweave.design.tco.interests import Indices, Integers, Subscriptions
from pubweave.design.tco.low_oda import indexed


class OverlayArrays:
    """The arrays of an overlay; O(1) Python objects whatever its size."""

    def __init__(self, wanted: Subscriptions, links: Indices) -> None:
        self.names = list(wanted.nodes)
        self.number_of = dict(wanted.node_number)
        self.topic_names = list(wanted.topic_names)
        self._topic_number = {name: place for place, name in enumerate(wanted.topic_names)}
        self._free: list[int] = []
        count = wanted.node_count
        self.topics_of = bags_of(wanted.starts, wanted.topics)
        by_topic = indexed(wanted.starts, wanted.topics, wanted.topic_count)
        self.nodes_of = bags_of(by_topic.topic_starts, by_topic.owners[by_topic.topic_places])
        self.neighbors = _neighbor_bags(count, links)
        self.backups, self.primaries = empty_bags(count, 64), empty_bags(count, 64)
        self.link_count = len(links)
        self._bits = np.zeros(count // 64 + 1, np.uint64)
        self.marks = np.zeros(count, np.int64)
        self.following = np.zeros(count, np.int32)
        self.less = np.zeros(count, np.int32)
        self.gains = np.zeros(count, np.int32)
        self.stamps = np.ones(1, np.int64)
        self.degree_counts = _degree_counts(self.neighbors.sizes)

    @property
    def max_degree(self) -> int:
        return int(self.degree_counts[-1])

    @property
    def wishes(self) -> Wishes:
        """Who wants what, for searches."""
        return Wishes(self.topics_of, self.nodes_of, self._bits)

    def renew(self, items: Sequence[Indices]) -> None:
        """Take over lists that may have moved, given by their items."""
        lists = self.topics_of, self.nodes_of, self.neighbors, self.backups, self.primaries
        self.topics_of, self.nodes_of, self.neighbors, self.backups, self.primaries = (
            Bags(new, *old[1:]) for new, old in zip(items, lists, strict=True)
        )

    def next_stamp(self) -> int:
        """A mark that no node has."""
        self.stamps[0] += 1
        return int(self.stamps[0])

    def listed(self, bags: Bags, bag: int) -> Indices:
        start = bags.starts[bag]
        return bags.items[start : start + bags.sizes[bag]]

    def topic_numbers(self, topics: Iterable[str]) -> Indices:
        """Topics by number, ascending; those never heard of are new topics."""
        known = self._topic_number
        numbers = []
        for topic in topics:
            number = known.get(topic)
            if number is None:
                number = known[topic] = len(self.topic_names)
                self.topic_names.append(topic)
            numbers.append(number)
        if len(self.topic_names) > len(self.nodes_of.sizes):
            self.nodes_of = widened(self.nodes_of, 2 * len(self.topic_names))
        return np.array(sorted(numbers), np.int32)

    def enter(self, name: str) -> int:
        """A number for a new node, which has nothing yet."""
        if not self._free:
            self._grow()
        number = self._free.pop()
        self.names[number] = name
        self.number_of[name] = number
        self.degree_counts[0] += 1
        return number

    def depart(self, name: str) -> None:
        """Give up the number of a node that has nothing any more."""
        number = self.number_of.pop(name)
        self.degree_counts[0] -= 1
        self._free.append(number)

    def link(self, pairs: Indices) -> None:
        self.neighbors = kernels.link_all(self.neighbors, self.degree_counts, pairs)
        self.link_count += len(pairs)

    def unlink(self, pairs: Indices) -> None:
        kernels.unlink_all(self.neighbors, self.degree_counts, pairs)
        self.link_count -= len(pairs)

    def named(self, pairs: Indices) -> tuple[Pair, ...]:
        names = self.names
        return tuple((names[a], names[b]) for a, b in pairs.tolist())

    def labels_of_cut(
        self, topics: Indices, starts: Integers, seeds: Indices, shadows: Indices
    ) -> Indices:
        """Of each topic in pieces, which piece each shadow is in; searched from the seeds."""
        labels: Indices = kernels.labels_of_cut(
            self.wishes,
            self.neighbors,
            topics,
            starts,
            seeds,
            shadows,
            self.marks,
            self.following,
            self.stamps,
        )
        return labels

    def snapshot(self) -> tuple[Subscriptions, Indices]:
        """Who wants what now, and the links, as they are handed to a builder or a verifier."""
        present = np.array(list(self.number_of.values()), np.int64)
        starts, topics = _unpacked(self.topics_of, present)
        wanted = Subscriptions(tuple(self.number_of), tuple(self.topic_names), starts, topics)
        row_of = np.zeros(len(self.names), np.int32)
        row_of[present] = np.arange(len(present))
        starts, others = _unpacked(self.neighbors, present)
        ones = np.repeat(np.arange(len(present), dtype=np.int32), np.diff(starts))
        links = np.stack([ones, row_of[others]], axis=1)
        return wanted, links[links[:, 0] < links[:, 1]]

    def _grow(self) -> None:
        """Room for as many nodes again."""
        old = len(self.names)
        count = max(16, 2 * old)
        self.names += [""] * (count - old)
        self._free = list(range(count - 1, old - 1, -1))
        for bags in ("topics_of", "neighbors", "backups", "primaries"):
            setattr(self, bags, widened(getattr(self, bags), count))
        self._bits = np.zeros(count // 64 + 1, np.uint64)
        for array in ("marks", "following", "less", "gains"):
            grown = np.zeros(count, getattr(self, array).dtype)
            grown[:old] = getattr(self, array)
            setattr(self, array, grown)
        counts = np.zeros(count + 2, np.int64)
        counts[: len(self.degree_counts) - 1] = self.degree_counts[:-1]
        counts[-1] = self.degree_counts[-1]
        self.degree_counts = counts


def _degree_counts(degrees: Indices) -> npt.NDArray[np.int64]:
    """How many nodes have each degree, and last of all the highest."""
    counts = np.zeros(len(degrees) + 2, np.int64)
    counts[: len(degrees) + 1] = np.bincount(degrees, minlength=len(degrees) + 1)
    counts[-1] = degrees.max(initial=0)
    return counts


def _neighbor_bags(count: int, links: Indices) -> Bags:
    ends = np.concatenate([links, links[:, ::-1]]) if len(links) else np.zeros((0, 2), np.int32)
    order = np.argsort(ends[:, 0], kind="stable")
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ends[:, 0], minlength=count), out=starts[1:])
    return bags_of(starts, ends[order, 1].astype(np.int32))


def _unpacked(bags: Bags, rows: Integers) -> tuple[Integers, Indices]:
    """Some lists one after the other: where each begins, and the items."""
    sizes = bags.sizes[rows].astype(np.int64)
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    places = np.arange(starts[-1]) + np.repeat(bags.starts[rows] - starts[:-1], sizes)
    return starts, bags.items[places]

"""A made-up overlay and its traffic, drawn with arrays: what `pipeline_records` writes down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SAMPLE_PUBLICATIONS = 5_000
"""Drawn without writing, to know how many records a publication makes."""


@dataclass(frozen=True)
class Workload:
    """How much of what; ``records`` is the goal for all tables together, met within a percent."""

    records: int
    brokers: int = 50
    clients: int = 2_000
    publishers: int = 500
    topics: int = 1_000
    topics_per_client: int = 3
    content_share: float = 0.05
    duration_s: float = 900.0
    chunk_publications: int = 250_000
    seed: int = 1


class Overlay:
    """The tree, the placements and, per broker and topic, who receives over which links."""

    def __init__(self, workload: Workload, rng: np.random.Generator) -> None:
        self.workload = workload
        n = workload.brokers
        self.parent = np.array([0] + [(i - 1) // 4 for i in range(1, n)])
        self.rtt_ms = rng.uniform(1.0, 40.0, n)
        self.client_broker = rng.integers(0, n, workload.clients)
        self.publisher_broker = rng.integers(0, n, workload.publishers)
        popularity = 1.0 / np.arange(1, workload.topics + 1) ** 0.6
        popularity /= popularity.sum()
        pairs = np.stack(
            [
                np.repeat(np.arange(workload.clients), workload.topics_per_client),
                rng.choice(
                    workload.topics, workload.clients * workload.topics_per_client, p=popularity
                ),
            ],
            axis=1,
        )
        self.pairs = np.unique(pairs, axis=0)
        self.threshold = np.where(
            rng.random(len(self.pairs)) < workload.content_share,
            rng.integers(20, 80, len(self.pairs)).astype(float),
            -1.0,
        )
        order = np.argsort(self.pairs[:, 1], kind="stable")
        self.pairs, self.threshold = self.pairs[order], self.threshold[order]
        self.topic_start = np.searchsorted(self.pairs[:, 1], np.arange(workload.topics + 1))
        self.publisher_topics = rng.integers(0, workload.topics, (workload.publishers, 4))
        self.depth = np.zeros(n, dtype=int)
        for i in range(1, n):
            self.depth[i] = self.depth[self.parent[i]] + 1
        self._trees: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def path(self, a: int, b: int) -> list[tuple[int, int]]:
        """The directed links from a to b."""
        up, down = [], []
        while a != b:
            if self.depth[a] >= self.depth[b]:
                up.append((a, int(self.parent[a])))
                a = int(self.parent[a])
            else:
                down.append((int(self.parent[b]), b))
                b = int(self.parent[b])
        return up + down[::-1]

    def tree(self, root: int, brokers: frozenset[int]) -> np.ndarray:
        links = dict.fromkeys(link for b in sorted(brokers) for link in self.path(root, b))
        return np.array(list(links), dtype=int).reshape(-1, 2)


@dataclass(frozen=True)
class Drawn:
    """Publications, and by row of these who gets them and which links they cross."""

    publisher: np.ndarray
    topic: np.ndarray
    price: np.ndarray
    root: np.ndarray
    row: np.ndarray
    client: np.ndarray
    link_row: np.ndarray
    link_from: np.ndarray
    link_to: np.ndarray


def draw(overlay: Overlay, rng: np.random.Generator, size: int) -> Drawn:
    publisher = rng.integers(0, overlay.workload.publishers, size)
    topic = overlay.publisher_topics[publisher, rng.integers(0, 4, size)]
    price = np.round(rng.uniform(0, 100, size), 2)
    root = overlay.publisher_broker[publisher]
    row, subscription = _expanded(
        overlay.topic_start[topic], overlay.topic_start[topic + 1] - overlay.topic_start[topic]
    )
    wanted = price[row] > overlay.threshold[subscription]
    row, subscription = row[wanted], subscription[wanted]
    client = overlay.pairs[subscription, 0]
    links = _links(overlay, row, overlay.client_broker[client], root, size)
    return Drawn(publisher, topic, price, root, row, client, *links)


def records_per_publication(overlay: Overlay) -> float:
    drawn = draw(overlay, np.random.default_rng(0), SAMPLE_PUBLICATIONS)
    return 1.0 + (len(drawn.row) + len(drawn.link_row)) / SAMPLE_PUBLICATIONS


def _expanded(start: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For rows with ranges: the row of each element, and the element."""
    row = np.repeat(np.arange(len(start)), count)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    return row, np.arange(len(row)) - first[row] + start[row]


def _links(
    overlay: Overlay, row: np.ndarray, broker: np.ndarray, root: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The delivery tree of every publication: one tree for each set of receivers."""
    words = (overlay.workload.brokers + 62) // 63
    mask = np.zeros((size, words), dtype=np.int64)
    for word in range(words):
        here = broker // 63 == word
        np.bitwise_or.at(mask[:, word], row[here], np.int64(1) << (broker[here] % 63))
    keys = np.column_stack([root, mask])
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.reshape(-1)
    trees = []
    for key in distinct:
        brokers = frozenset(
            word * 63 + bit
            for word in range(words)
            for bit in range(63)
            if int(key[1 + word]) >> bit & 1
        )
        trees.append(overlay.tree(int(key[0]), brokers))
    counts = np.array([len(tree) for tree in trees])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(int)
    flat = np.concatenate(trees) if trees else np.zeros((0, 2), dtype=int)
    link_row, element = _expanded(starts[which], counts[which])
    return link_row, flat[element, 0], flat[element, 1]

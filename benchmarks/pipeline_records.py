"""Telemetry of a made-up overlay, written fast: what the pipeline's benchmark reads.

A tree of brokers, clients with topic subscriptions (some with a content filter besides), publishers
on a few topics each. Every publication has its record, a hop for each link of its delivery tree and
a delivery for each subscriber, so that the audit of the whole is clean. Everything is drawn and
expanded with arrays; a chunk of publications at a time bounds the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pubweave.telemetry.parquet import arrow_schema
from pubweave.telemetry.run_description import RunClock, RunDescription, write_run_description

SAMPLE_PUBLICATIONS = 5_000
"""Drawn without writing, to know how many records a publication makes."""
EPOCH = 1_000


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


class _Overlay:
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


def write_telemetry(directory: Path, workload: Workload) -> int:
    """Write all tables; the number of records."""
    rng = np.random.default_rng(workload.seed)
    overlay = _Overlay(workload, rng)
    write_run_description(
        directory,
        RunDescription("benchmark", RunClock.VIRTUAL, 0.0, 1.0, {"seed": workload.seed}),
    )
    writer = _Writer(directory, workload)
    written = _write_slow_tables(writer, overlay, rng)
    publications = int((workload.records - written) / _records_per_publication(overlay))
    done = 0
    chunk = 0
    while done < publications:
        size = min(workload.chunk_publications, publications - done)
        span = workload.duration_s - 20.0
        begins, ends = 10.0 + span * done / publications, 10.0 + span * (done + size) / publications
        written += _write_chunk(writer, overlay, rng, chunk, size, begins, ends)
        done += size
        chunk += 1
    return written


class _Writer:
    def __init__(self, directory: Path, workload: Workload) -> None:
        self.directory = directory
        self.brokers = [f"b{i + 1}" for i in range(workload.brokers)]
        self.clients = [f"client-{i}" for i in range(workload.clients)]
        self.publishers = [f"publisher-{i}" for i in range(workload.publishers)]
        self.topics = [f"topic-{i}" for i in range(workload.topics)]
        self.next_number: dict[str, np.ndarray] = {}
        self.next_sequence = np.zeros(workload.publishers, dtype=np.int64)

    def numbers(self, table: str, broker: np.ndarray) -> np.ndarray:
        """Record numbers of rows sorted by broker, counting on from the chunk before."""
        counters = self.next_number.setdefault(table, np.zeros(len(self.brokers), dtype=np.int64))
        counts = np.bincount(broker, minlength=len(self.brokers))
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        numbers = np.arange(len(broker)) - starts[broker] + counters[broker]
        counters += counts
        return numbers

    def write(self, table: str, chunk: int, columns: dict[str, Any]) -> int:
        schema = arrow_schema(table)
        arrays = [columns[name] for name in schema.names]
        content = pa.Table.from_arrays(
            [a if isinstance(a, pa.Array) else pa.array(a) for a in arrays],
            names=schema.names,
        ).cast(schema)
        folder = self.directory / table
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"all-{chunk:06d}-bench.parquet"
        pq.write_table(content, path, compression="zstd", row_group_size=1 << 20)
        return len(content)


def _names(names: list[str], index: np.ndarray) -> pa.Array:
    dictionary = pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), pa.array(names))
    return dictionary.cast(pa.string())


def _write_chunk(
    writer: _Writer,
    overlay: _Overlay,
    rng: np.random.Generator,
    chunk: int,
    size: int,
    begins: float,
    ends: float,
) -> int:
    workload = overlay.workload
    drawn = _draw(overlay, rng, size)
    publisher, topic, price, root = drawn.publisher, drawn.topic, drawn.price, drawn.root
    at = np.sort(rng.uniform(begins, ends, size))
    order = np.argsort(publisher, kind="stable")
    sequence = np.empty(size, dtype=np.int64)
    counts = np.bincount(publisher, minlength=workload.publishers)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    sequence[order] = np.arange(size) - starts[publisher[order]]
    sequence += writer.next_sequence[publisher] + 1
    writer.next_sequence += counts
    written = _write_publications(writer, chunk, publisher, sequence, topic, at, price, root, rng)
    written += _write_hops(
        writer, chunk, publisher, sequence, topic, at, rng,
        drawn.link_row, drawn.link_from, drawn.link_to,
    )  # fmt: skip
    written += _write_deliveries(
        writer, chunk, publisher, sequence, topic, at, overlay, rng, drawn.row, drawn.client
    )
    return written


@dataclass(frozen=True)
class _Drawn:
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


def _draw(overlay: _Overlay, rng: np.random.Generator, size: int) -> _Drawn:
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
    return _Drawn(publisher, topic, price, root, row, client, *links)


def _records_per_publication(overlay: _Overlay) -> float:
    drawn = _draw(overlay, np.random.default_rng(0), SAMPLE_PUBLICATIONS)
    return 1.0 + (len(drawn.row) + len(drawn.link_row)) / SAMPLE_PUBLICATIONS


def _expanded(start: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For rows with ranges: the row of each element, and the element."""
    row = np.repeat(np.arange(len(start)), count)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    return row, np.arange(len(row)) - first[row] + start[row]


def _links(
    overlay: _Overlay, row: np.ndarray, broker: np.ndarray, root: np.ndarray, size: int
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


def _write_publications(
    writer: _Writer,
    chunk: int,
    publisher: np.ndarray,
    sequence: np.ndarray,
    topic: np.ndarray,
    at: np.ndarray,
    price: np.ndarray,
    root: np.ndarray,
    rng: np.random.Generator,
) -> int:
    by = np.argsort(root, kind="stable")
    size = len(by)
    values = pa.StructArray.from_arrays(
        [pa.nulls(size, pa.string()), pa.array(price[by]), pa.nulls(size, pa.bool_())],
        names=["text", "number", "boolean"],
    )
    attributes = pa.MapArray.from_arrays(
        pa.array(np.arange(size + 1), pa.int32()),
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(size), pa.int32()), ["price"]).cast(
            pa.string()
        ),
        values,
    )
    return writer.write(
        "publications",
        chunk,
        {
            "published_at": at[by],
            "accepted_at": at[by] + 0.001,
            "broker": _names(writer.brokers, root[by]),
            "epoch": np.full(size, EPOCH),
            "record_number": writer.numbers("publications", root[by]),
            "publisher": _names(writer.publishers, publisher[by]),
            "sequence": sequence[by],
            "topic": _names(writer.topics, topic[by]),
            "size_bytes": rng.integers(100, 400, size),
            "attributes": attributes,
            "sample_ratio": np.ones(size),
            "queueing_ms": rng.exponential(0.5, size),
            "matching_ms": rng.exponential(0.1, size),
        },
    )


def _write_hops(
    writer: _Writer,
    chunk: int,
    publisher: np.ndarray,
    sequence: np.ndarray,
    topic: np.ndarray,
    at: np.ndarray,
    rng: np.random.Generator,
    row: np.ndarray,
    link_from: np.ndarray,
    link_to: np.ndarray,
) -> int:
    by = np.argsort(link_to, kind="stable")
    row, link_from, link_to = row[by], link_from[by], link_to[by]
    size = len(row)
    return writer.write(
        "hops",
        chunk,
        {
            "received_at": at[row] + rng.exponential(0.02, size),
            "to_broker": _names(writer.brokers, link_to),
            "epoch": np.full(size, EPOCH),
            "record_number": writer.numbers("hops", link_to),
            "from_broker": _names(writer.brokers, link_from),
            "publisher": _names(writer.publishers, publisher[row]),
            "sequence": sequence[row],
            "topic": _names(writer.topics, topic[row]),
            "size_bytes": np.full(size, 200),
            "queueing_ms": rng.exponential(0.5, size),
            "matching_ms": rng.exponential(0.1, size),
        },
    )


def _write_deliveries(
    writer: _Writer,
    chunk: int,
    publisher: np.ndarray,
    sequence: np.ndarray,
    topic: np.ndarray,
    at: np.ndarray,
    overlay: _Overlay,
    rng: np.random.Generator,
    row: np.ndarray,
    client: np.ndarray,
) -> int:
    broker = overlay.client_broker[client]
    by = np.argsort(broker, kind="stable")
    row, client, broker = row[by], client[by], broker[by]
    latency_ms = rng.gamma(2.0, 15.0, len(row))
    return writer.write(
        "deliveries",
        chunk,
        {
            "delivered_at": at[row] + latency_ms / 1e3,
            "broker": _names(writer.brokers, broker),
            "epoch": np.full(len(row), EPOCH),
            "record_number": writer.numbers("deliveries", broker),
            "publisher": _names(writer.publishers, publisher[row]),
            "sequence": sequence[row],
            "topic": _names(writer.topics, topic[row]),
            "client": _names(writer.clients, client),
            "latency_ms": latency_ms,
        },
    )


def _write_slow_tables(writer: _Writer, overlay: _Overlay, rng: np.random.Generator) -> int:
    """Subscriptions, links, round trips and loads: complete, and few beside the others."""
    workload = overlay.workload
    written = _write_subscriptions(writer, overlay)
    child = np.arange(1, workload.brokers)
    ends = np.stack([child, overlay.parent[1:]])
    broker, neighbor = np.concatenate([ends[0], ends[1]]), np.concatenate([ends[1], ends[0]])
    by = np.argsort(broker, kind="stable")
    broker, neighbor = broker[by], neighbor[by]

    def row(at: np.ndarray, table: str, who: np.ndarray) -> dict[str, Any]:
        column = "changed_at" if table.endswith("changes") else "sampled_at"
        return {
            column: at,
            "broker": _names(writer.brokers, who),
            "epoch": np.full(len(who), EPOCH),
            "record_number": writer.numbers(table, who),
        }

    links = row(np.zeros(len(broker)), "link_changes", broker)
    links |= {"neighbor": _names(writer.brokers, neighbor), "change": ["added"] * len(broker)}
    written += writer.write("link_changes", 0, links)
    ticks = np.arange(5.0, workload.duration_s, 5.0)
    many_broker, many_neighbor = np.repeat(broker, len(ticks)), np.repeat(neighbor, len(ticks))
    many_at = np.tile(ticks, len(broker))
    rtt = overlay.rtt_ms[np.maximum(many_broker, many_neighbor)] * rng.gamma(
        20, 1 / 20, len(many_at)
    )
    rtts = row(many_at, "link_rtts", many_broker)
    rtts |= {"neighbor": _names(writer.brokers, many_neighbor), "rtt_ms": rtt}
    written += writer.write("link_rtts", 0, rtts)
    loads = row(many_at, "link_loads", many_broker)
    loads |= {
        "neighbor": _names(writer.brokers, many_neighbor),
        "window_s": np.full(len(many_at), 5.0),
    }
    for name in ("messages_in", "messages_out", "bytes_in", "bytes_out"):
        loads[name] = rng.integers(0, 2_000, len(many_at))
    for name in ("queue_messages", "queue_bytes"):
        loads[name] = rng.integers(0, 10, len(many_at))
    written += writer.write("link_loads", 0, loads)
    who = np.repeat(np.arange(workload.brokers), len(ticks))
    at = np.tile(ticks, workload.brokers)
    brokers = row(at, "broker_loads", who)
    brokers |= {"window_s": np.full(len(at), 5.0), "sample_ratio": np.ones(len(at))}
    brokers["cpu_s"] = rng.uniform(0, 2, len(at))
    for name in arrow_schema("broker_loads").names:
        brokers.setdefault(name, rng.integers(0, 1_000, len(at)))
    brokers["dropped_records"] = np.zeros(len(at), dtype=np.int64)
    return written + writer.write("broker_loads", 0, brokers)


def _write_subscriptions(writer: _Writer, overlay: _Overlay) -> int:
    client, topic = overlay.pairs[:, 0], overlay.pairs[:, 1]
    broker = overlay.client_broker[client]
    by = np.argsort(broker, kind="stable")
    client, topic, broker, threshold = client[by], topic[by], broker[by], overlay.threshold[by]
    filters = [
        f"class = 'topic-{t}'" + (f" and price > {limit:.0f}" if limit >= 0 else "")
        for t, limit in zip(topic.tolist(), threshold.tolist(), strict=True)
    ]
    size = len(by)
    return writer.write(
        "subscription_changes",
        0,
        {
            "changed_at": np.full(size, 1.0),
            "broker": _names(writer.brokers, broker),
            "epoch": np.full(size, EPOCH),
            "record_number": writer.numbers("subscription_changes", broker),
            "client": _names(writer.clients, client),
            "subscription": [f"s{i}" for i in range(size)],
            "filter": filters,
            "topic": _names(writer.topics, topic),
            "change": ["added"] * size,
        },
    )

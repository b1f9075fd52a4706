"""Telemetry of a made-up overlay, written fast: what the pipeline's benchmark reads.

A tree of brokers, clients with topic subscriptions (some with a content filter besides), publishers
on a few topics each. Every publication has its record, a hop for each link of its delivery tree and
a delivery for each subscriber, so that the audit of the whole is clean. Everything is drawn and
expanded with arrays; a chunk of publications at a time bounds the memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.pipeline_overlay import Overlay, Workload, draw, records_per_publication
from pubweave.telemetry.parquet import arrow_schema
from pubweave.telemetry.run_description import RunClock, RunDescription, write_run_description

EPOCH = 1_000


def write_telemetry(directory: Path, workload: Workload) -> int:
    """Write all tables; the number of records."""
    rng = np.random.default_rng(workload.seed)
    overlay = Overlay(workload, rng)
    write_run_description(
        directory,
        RunDescription("benchmark", RunClock.VIRTUAL, 0.0, 1.0, {"seed": workload.seed}),
    )
    writer = _Writer(directory, workload)
    written = _write_slow_tables(writer, overlay, rng)
    publications = int((workload.records - written) / records_per_publication(overlay))
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
    overlay: Overlay,
    rng: np.random.Generator,
    chunk: int,
    size: int,
    begins: float,
    ends: float,
) -> int:
    workload = overlay.workload
    drawn = draw(overlay, rng, size)
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
    overlay: Overlay,
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


def _write_slow_tables(writer: _Writer, overlay: Overlay, rng: np.random.Generator) -> int:
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


def _write_subscriptions(writer: _Writer, overlay: Overlay) -> int:
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

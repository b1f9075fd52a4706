"""A small made-up overlay and its telemetry, drawn from a seed: what the pipeline's tests read.

Everything a broker could record is recorded, then some of it goes wrong on purpose: deliveries are
lost, doubled or go astray, records are dropped. The world keeps what it did, so that tests know.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Publication, Value, make_publication
from pubweave.model.telemetry import TABLES, Record
from pubweave.telemetry.parquet import write_records
from pubweave.telemetry.run_description import RunClock, RunDescription, write_run_description

TOPICS = ("ALPHA", "BETA", "it's", "GAMMA")
ENDS_AT = 60.0


@dataclass
class World:
    """The records by table, as tuples in the order of its columns."""

    rng: np.random.Generator
    brokers: list[str]
    parents: dict[str, str]
    sample_ratio: float = 1.0
    records: dict[str, list[Record]] = field(default_factory=lambda: {t: [] for t in TABLES})
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    lost: set[tuple[str, int, str]] = field(default_factory=set)

    def record(self, table: str, broker: str, epoch: int = 7, **values: Any) -> None:
        number = self.numbers.get((table, broker), 0)
        self.numbers[table, broker] = number + 1
        described = TABLES[table]
        values |= {described.recorded_by: broker, "epoch": epoch, "record_number": number}
        self.records[table].append(tuple(values[name] for name in described.column_names))

    def drop(self, table: str, broker: str) -> None:
        """A record that was never written: its number is used up."""
        self.numbers[table, broker] = self.numbers.get((table, broker), 0) + 1

    def path(self, a: str, b: str) -> list[tuple[str, str]]:
        """The links from one broker to another."""
        up, down = self._to_top(a), self._to_top(b)
        common = next(x for x in up if x in down)
        way = up[: up.index(common) + 1] + down[: down.index(common)][::-1]
        return list(pairwise(way))

    def _to_top(self, broker: str) -> list[str]:
        way = [broker]
        while way[-1] in self.parents:
            way.append(self.parents[way[-1]])
        return way


def make_world(
    seed: int,
    *,
    publications: int = 60,
    faulty: bool = True,
    brokers: int | None = None,
    sample_ratio: float = 1.0,
) -> World:
    """An overlay at work for a minute, of three to seven brokers unless told otherwise.

    With a ``sample_ratio`` below one the publications are those that were recorded of more.
    """
    rng = np.random.default_rng(seed)
    drawn = int(rng.integers(4, 9)) - 1
    names = [f"b{i}" for i in range(1, (brokers or drawn) + 1)]
    parents = {b: names[int(rng.integers(0, i))] for i, b in enumerate(names) if i}
    world = World(rng, names, parents, sample_ratio)
    for broker, parent in parents.items():
        for one, other in ((broker, parent), (parent, broker)):
            world.record("link_changes", one, changed_at=0.1, neighbor=other, change="added")
    _watch(world)
    subscriptions = _subscribe(world)
    publishers = {f"p{i}": str(rng.choice(names)) for i in range(3)}
    for publisher, broker in publishers.items():
        world.record("advertisement_changes", broker, changed_at=1.0, client=publisher,
                     advertisement="a1", filter="*", topic=None, change="added")  # fmt: skip
    _publish(world, publishers, subscriptions, publications, faulty)
    return world


def as_rows(records: Iterable[Record], table: str) -> list[dict[str, Any]]:
    """Records as dictionaries."""
    names = TABLES[table].column_names
    return [dict(zip(names, record, strict=True)) for record in records]


def write_world(world: World, directory: Path, parts: int = 2, unique: str = "world") -> None:
    """Write the records, each table in several files."""
    write_description(directory)
    for table, records in world.records.items():
        for part in range(parts):
            chunk = records[part::parts]
            if chunk:
                write_records(directory, "all", part, table, chunk, unique=unique)


def write_description(directory: Path) -> None:
    write_run_description(directory, RunDescription("world", RunClock.VIRTUAL, 0.0, 1.0))


def _watch(world: World) -> None:
    rng = world.rng
    for at in (5.0, 25.0, ENDS_AT):
        for broker in world.brokers:
            loads = _counters(rng, "broker_loads")
            loads |= {"dropped_records": 0}
            world.record("broker_loads", broker, **loads | {
                "sampled_at": at, "window_s": 20.0, "sample_ratio": 1.0,
                "cpu_s": None if broker == "b1" else float(rng.uniform(0, 3)),
            })  # fmt: skip
            neighbors = [world.parents[broker]] if broker in world.parents else []
            neighbors += [b for b, p in world.parents.items() if p == broker]
            for neighbor in neighbors:
                world.record("link_rtts", broker, sampled_at=at, neighbor=neighbor,
                             rtt_ms=float(rng.uniform(1, 30)))  # fmt: skip
                traffic = _counters(rng, "link_loads")
                world.record("link_loads", broker, **traffic | {
                    "sampled_at": at, "neighbor": neighbor, "window_s": 20.0,
                })  # fmt: skip


def _counters(rng: np.random.Generator, table: str) -> dict[str, Any]:
    named = ("broker", "neighbor", "epoch", "record_number")
    names = [name for name in TABLES[table].column_names if name not in named]
    return {name: int(rng.integers(0, 99)) for name in names}


def _sometimes(rng: np.random.Generator) -> float | None:
    return None if rng.random() < 0.1 else float(rng.exponential())


@dataclass(frozen=True)
class Held:
    """A subscription that a client held for a time."""

    client: str
    broker: str
    filter: str
    added_at: float
    removed_at: float


def _subscribe(world: World) -> list[Held]:
    rng = world.rng
    held = []
    for number in range(int(rng.integers(6, 14))):
        client, broker = f"c{number}", str(rng.choice(world.brokers))
        world.record("client_changes", broker, changed_at=0.9, client=client, change="attached")
        for index in range(int(rng.integers(1, 4))):
            topic = str(rng.choice(TOPICS))
            quoted = topic.replace("'", "''")
            filter_ = f"class = '{quoted}'"
            shape = rng.random()
            if shape < 0.2:
                filter_ += f" and price > {int(rng.integers(0, 10))}"
            elif shape < 0.3:
                filter_, topic = f"name prefix 'n{int(rng.integers(0, 2))}'", None  # type: ignore[assignment]
            added_at = (
                float(rng.uniform(1, 4)) if rng.random() < 0.8 else float(rng.uniform(20, 40))
            )
            removed_at = math.inf if rng.random() < 0.7 else added_at + float(rng.uniform(5, 20))
            common = {"client": client, "subscription": f"s{index}", "filter": filter_,
                      "topic": topic}  # fmt: skip
            held.append((added_at, "added", broker, common))
            if removed_at < math.inf:
                held.append((removed_at, "removed", broker, common))
    held.sort(key=lambda change: change[0])
    found: dict[tuple[str, str], Held] = {}
    for at, change, broker, common in held:
        world.record("subscription_changes", broker, changed_at=at, change=change, **common)
        key = (common["client"], common["subscription"])
        if change == "added":
            found[key] = Held(common["client"], broker, common["filter"], at, math.inf)
        else:
            old = found[key]
            found[key] = Held(old.client, old.broker, old.filter, old.added_at, at)
    return list(found.values())


def _publish(
    world: World,
    publishers: dict[str, str],
    subscriptions: list[Held],
    count: int,
    faulty: bool,
) -> None:
    rng = world.rng
    sequences = dict.fromkeys(publishers, 1_000_000)
    for at in np.sort(rng.uniform(8.0, ENDS_AT - 4.0, count)).tolist():
        publisher = str(rng.choice(sorted(publishers)))
        sequences[publisher] += int(rng.integers(1, 3))
        attributes: dict[str, Value] = {
            "price": int(rng.integers(0, 12)), "name": f"n{int(rng.integers(0, 4))}",
        }  # fmt: skip
        publication = make_publication(
            publisher, sequences[publisher], str(rng.choice(TOPICS)), attributes, b"", at
        )
        _deliver(world, publication, publishers[publisher], subscriptions, faulty)


def _deliver(
    world: World, publication: Publication, root: str, subscriptions: list[Held], faulty: bool
) -> None:
    rng = world.rng
    at = publication.published_at
    name = {"publisher": publication.publisher, "sequence": publication.sequence,
            "topic": publication.topic}  # fmt: skip
    world.record("publications", root, **name, published_at=at, accepted_at=at + 0.001,
                 size_bytes=publication.size_bytes, attributes=publication.attributes,
                 sample_ratio=world.sample_ratio, queueing_ms=float(rng.exponential()),
                 matching_ms=float(rng.exponential()))  # fmt: skip
    clients = {
        held.client: held.broker
        for held in subscriptions
        if held.added_at <= at < held.removed_at and parse_filter(held.filter).matches(publication)
    }
    if faulty and rng.random() < 0.05:
        clients["stranger"] = str(rng.choice(world.brokers))
    reached = dict.fromkeys(
        link for broker in clients.values() for link in world.path(root, broker)
    )
    for from_broker, to_broker in reached:
        world.record("hops", to_broker, **name, received_at=at + 0.01, from_broker=from_broker,
                     size_bytes=publication.size_bytes, queueing_ms=float(rng.exponential()),
                     matching_ms=_sometimes(rng))  # fmt: skip
    for client, broker in clients.items():
        fate = rng.random() if faulty else 1.0
        if fate < 0.03:
            world.lost.add((publication.publisher, publication.sequence, client))
            continue
        if fate < 0.06:
            world.drop("deliveries", broker)
            continue
        for _ in range(2 if fate < 0.1 else 1):
            latency_ms = float(rng.gamma(2, 20))
            world.record("deliveries", broker, **name, delivered_at=at + latency_ms / 1e3,
                         client=client, latency_ms=latency_ms)  # fmt: skip

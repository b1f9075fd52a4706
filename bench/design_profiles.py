"""Profiles for ``pubweave design``, written without an overlay or Spark: any size, from a seed.

Only the tables that design reads have rows that mean something; the others are empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pubweave.generate.topologies.trees import random_tree_pairs
from pubweave.model.files.topology import write_topology
from pubweave.model.ids import Link
from pubweave.model.profile import (
    PROFILE_FILE,
    PROFILE_TABLES,
    ProfileDescription,
    TableSummary,
)
from pubweave.model.telemetry import ColumnKind
from pubweave.model.topology import Topology

_TYPES = {
    ColumnKind.FLOAT: pa.float64(),
    ColumnKind.INTEGER: pa.int64(),
    ColumnKind.TEXT: pa.string(),
    ColumnKind.BOOLEAN: pa.bool_(),
    ColumnKind.WORDS: pa.list_(pa.int64()),
}


def write_profile(directory: Path, tables: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
    """A profile with these columns; columns that are not given are zero, empty or null."""
    directory.mkdir(parents=True, exist_ok=True)
    summaries = {}
    for name, declared in PROFILE_TABLES.items():
        given = tables.get(name, {})
        rows = len(next(iter(given.values()))) if given else 0
        columns = {}
        for column in declared.columns:
            kind = _TYPES[column.kind]
            values = given.get(column.name)
            if values is None:
                empty = None if column.nullable else _zero(column.kind)
                columns[column.name] = pa.array([empty] * rows, type=kind)
            else:
                columns[column.name] = pa.array(values, type=kind)
        folder = directory / "tables" / name
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), folder / "part-0.parquet")
        summaries[name] = TableSummary(f"tables/{name}", rows)
    description = ProfileDescription(
        source="generated",
        run="generated",
        clock="virtual",
        window_started_at=0.0,
        window_ended_at=100.0,
        settings={},
        sources={},
        quarantine={},
        tables=summaries,
        spark_version="",
        master="",
        stage_seconds={},
    )
    (directory / PROFILE_FILE).write_bytes(msgspec.json.encode(description))


def _zero(kind: ColumnKind) -> Any:
    return {ColumnKind.TEXT: "", ColumnKind.BOOLEAN: False, ColumnKind.WORDS: []}.get(kind, 0)


@dataclass(frozen=True)
class ProfileSize:
    """Topics have subscribers near one of them; filters let each publication reach some."""

    brokers: int = 1000
    notifications: int = 1_000_000
    topics: int = 500
    patterns: int = 200
    """Distinct sets of receivers per topic."""
    receivers_mean: float = 8.0


def write_large_profile(directory: Path, size: ProfileSize, seed: int) -> dict[str, Path]:
    """A profile, a random tree and a matrix of round trips; returns where they are."""
    rng = np.random.default_rng(seed)
    names = [f"b{number}" for number in range(1, size.brokers + 1)]
    places = rng.uniform(0, 1, (size.brokers, 2))
    one_way = 1.0 + 50.0 * np.linalg.norm(places[:, None] - places[None], axis=2)
    processing = rng.uniform(0.05, 2.0, size.brokers)
    pairs = [(names[a - 1], names[b - 1]) for a, b in random_tree_pairs(size.brokers, rng)]
    index_of = {name: index for index, name in enumerate(names)}
    tree = Topology.from_links(pairs)
    write_profile(
        directory,
        {
            **_trees(size, names, places, rng),
            "broker_costs": {"broker": names, "processing_ms": processing.tolist()},
            "links": _links(sorted(tree.links), index_of, one_way),
        },
    )
    files = {"profile": directory, "topology": directory / "tree.json"}
    files["latency"] = directory / "round_trips.csv"
    write_topology(tree, files["topology"])
    np.savetxt(files["latency"], 2 * one_way * (1 - np.eye(size.brokers)), "%.4f", delimiter=",")
    return files


def _links(links: list[Link], index_of: dict[str, int], one_way: Any) -> dict[str, Any]:
    return {
        "broker_a": [link.a for link in links],
        "broker_b": [link.b for link in links],
        "is_present": [True] * len(links),
        "cost_ms": [float(one_way[index_of[link.a], index_of[link.b]]) for link in links],
    }


def _trees(
    size: ProfileSize, names: list[str], places: Any, rng: np.random.Generator
) -> dict[str, dict[str, Any]]:
    popularity = 1.0 / np.arange(1, size.topics + 1)
    counts = rng.multinomial(size.notifications, popularity / popularity.sum())
    columns: dict[str, list[Any]] = {"tree": [], "topic": [], "broker": [], "weight": []}
    receivers: dict[str, list[Any]] = {"tree": [], "broker": []}
    for topic, count in enumerate(counts.tolist()):
        root = int(rng.integers(size.brokers))
        distance = np.linalg.norm(places - places[root], axis=1)
        share = np.exp(-4.0 * distance)
        reach = min(60, size.brokers // 2)
        interested = rng.choice(size.brokers, size=reach, replace=False, p=share / share.sum())
        spread = rng.multinomial(count, rng.dirichlet(np.full(size.patterns, 0.5)))
        for weight in spread[spread > 0].tolist():
            tree = len(columns["tree"])
            number = int(np.clip(rng.poisson(size.receivers_mean), 1, reach))
            chosen = rng.permutation(interested)[:number].tolist()
            for name, value in zip(
                columns, (tree, f"t{topic}", names[root], float(weight)), strict=True
            ):
                columns[name].append(value)
            receivers["tree"].extend([tree] * number)
            receivers["broker"].extend(names[member] for member in chosen)
    columns["publications"] = [int(weight) for weight in columns["weight"]]
    return {"delivery_trees": columns, "tree_receivers": receivers}

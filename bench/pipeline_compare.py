"""Whether Spark's profile and DuckDB's say the same, table by table.

Counts must be equal, sums of floats to nine digits. Percentiles come from different sketches (KLL,
t-digest) and are only held near each other; Bloom filters have different hashes, theta sketches
only Spark has. Trees are named by each engine's own hash: they are compared by what they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.profile import PROFILE_TABLES

Row = dict[str, Any]
_NOT_COMPARED = frozenset({"theta_estimate", "theta_error", "theta_std", "bloom_estimate", "tree"})
_NEAR = {"p50": 0.05, "p95": 0.05, "p99": 0.25}
_BY_CONTENT = {
    "delivery_trees": ("topic", "broker", "publications", "brokers", "links", "receivers",
                       "relays", "cost_ms"),
    "tree_links": ("from_broker", "to_broker"),
    "tree_receivers": ("broker",),
}  # fmt: skip


def differences(profile: WorkloadProfile, folder: Path) -> dict[str, str]:
    """By table what is different; empty if both say the same."""
    found = {}
    for name in PROFILE_TABLES:
        ours = _ordered(name, profile.table(name).to_pylist())
        theirs = _ordered(name, pq.read_table(folder / f"{name}.parquet").to_pylist())
        told = _different(name, ours, theirs)
        if told is not None:
            found[name] = told
    return found


def _different(name: str, ours: list[Row], theirs: list[Row]) -> str | None:
    if len(ours) != len(theirs):
        return f"{len(ours)} rows by Spark, {len(theirs)} by DuckDB"
    columns = [c for c in PROFILE_TABLES[name].column_names if c not in _NOT_COMPARED]
    for one, other in zip(ours, theirs, strict=True):
        for column in columns:
            if not _is_same(column, one[column], other[column]):
                return f"{column} is {one[column]} by Spark, {other[column]} by DuckDB in {other}"
    return None


def _ordered(name: str, rows: Iterable[Row]) -> list[Row]:
    key = _BY_CONTENT.get(name, PROFILE_TABLES[name].key)
    return sorted(rows, key=lambda row: [_sortable(row[column]) for column in key])


def _sortable(value: Any) -> Any:
    """Floats that differ in their last digits sort alike."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _is_same(column: str, one: Any, other: Any) -> bool:
    if column == "bit_vector":
        return [word % 2**64 for word in one] == [word % 2**64 for word in other]
    if one is None or other is None or isinstance(one, str | bool):
        return bool(one == other)
    near = _NEAR.get(column.rpartition("_")[2], 1e-9)
    return math.isclose(one, other, rel_tol=near, abs_tol=1e-9)

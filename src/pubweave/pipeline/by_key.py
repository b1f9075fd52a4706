"""Frames about the same things brought together without a join.

A join of small frames is a Spark job for its smaller side, or a sort and a move of both. Frames
with the same key and different columns need neither: their rows are put below each other, and one
aggregate makes a row of each key. For frames of brokers, links and delivery trees, not of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def together(keys: Sequence[str], *frames: DataFrame) -> DataFrame:
    """One row per key that any frame has, null where a frame has nothing for it.

    Like full outer joins by the keys. Each frame has at most one row per key, no key is null, and
    no column but the keys is in two frames. Without keys, all frames are one row.

    Takes one sort of all rows: O(n log n).
    """
    stacked = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    values = [name for name in stacked.columns if name not in keys]
    return stacked.groupBy(*keys).agg(*(F.expr(f"max({name}) AS {name}") for name in values))

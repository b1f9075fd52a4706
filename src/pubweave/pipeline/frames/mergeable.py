"""Sums: frames whose rows of one key merge, so that what is counted once need not be read again.

Each is made by a transform from records and merges with what the same transform made of other
records. A followed run keeps the sums of all publications that are over (see
`profile/carried_state`) and adds those of the few that are not; a batch has nothing to add and
merges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SUM, MIN, MAX = "sum", "min", "max"
"""As Spark calls them."""
KLL, THETA = "kll", "theta"

_SKETCH_MERGES = {KLL: "kll_merge_agg_double", THETA: "theta_union_agg"}


@dataclass(frozen=True)
class Sums:
    """How the rows of one frame merge; without columns to merge, all rows stay."""

    keys: tuple[str, ...] = ()
    columns: Mapping[str, str] | None = None
    sketch_size: int = 0
    """What its sketches were made with."""

    def merged(self, new: DataFrame, old: DataFrame | None) -> DataFrame:
        """The sums of both; ``old`` is what other records gave, None without any."""
        if old is None:
            return new
        together = new.unionByName(old)
        if self.columns is None:
            return together
        merges = (F.expr(f"{self._merge(name, how)} AS {name}")
                  for name, how in self.columns.items())  # fmt: skip
        return together.groupBy(*self.keys).agg(*merges)

    def _merge(self, name: str, how: str) -> str:
        if how in _SKETCH_MERGES:
            return f"{_SKETCH_MERGES[how]}({name}, {self.sketch_size})"
        return f"{how}({name})"


# Frames about the same things brought together without a join.
#
# A join of small frames is a Spark job for its smaller side, or a sort and a move of both. Frames
# with the same key and different columns need neither: their rows are put below each other, and
# one aggregate makes a row of each key. For frames of brokers, links and delivery trees, not of
# records.


def together(keys: Sequence[str], *frames: DataFrame) -> DataFrame:
    """One row per key that any frame has, null where a frame has nothing for it.

    Like full outer joins by the keys. Each frame has at most one row per key, no key is null, and
    no column but the keys is in two frames. Without keys, all frames are one row.

    Takes one sort of all rows: O(n log n).
    """
    stacked = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    values = [name for name in stacked.columns if name not in keys]
    return stacked.groupBy(*keys).agg(*(F.expr(f"max({name}) AS {name}") for name in values))

"""Percentiles by KLL sketches: one pass, mergeable, with a stated error of rank."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

PERCENTS = (50, 95, 99)


def sketched(column: str, kll_k: int, alias: str = "sketch") -> Column:
    return F.kll_sketch_agg_double(F.col(column), kll_k).alias(alias)


def quantile_columns(sketch: str, name: str) -> list[str]:
    """``<name>_ms_p50``, ``_p95`` and ``_p99`` of a sketch, as texts; null where there is none."""
    return [
        f"kll_sketch_get_quantile_double({sketch}, {percent / 100.0}D) AS {name}_ms_p{percent}"
        for percent in PERCENTS
    ]


def rank_error(kll_k: int) -> float:
    """How far the rank of an answer may be from the asked one, with 99 % confidence.

    The published fit for KLL sketches (single-sided) with a factor for three quantiles at a time.
    """
    return float(2.296 / kll_k**0.9021)

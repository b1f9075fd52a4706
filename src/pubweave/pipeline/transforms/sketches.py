"""Common interest of pairs by theta sketches: for windows whose exact sets would be too many.

A sketch keeps the 2^k smallest hashes of a broker's notifications; two sketches intersect without
looking at the notifications again. The error is measured against the exact count beside it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.frames.mergeable import THETA, Sums
from pubweave.pipeline.transforms.publications import KEY


def interest_sketches(
    publications: DataFrame, deliveries: DataFrame, log2_entries: int
) -> DataFrame:
    """One theta sketch per broker over what its clients published or consumed: see `merging`."""
    seen = publications.select("broker", F.xxhash64(*KEY).alias("notification")).unionByName(
        deliveries.select("broker", F.xxhash64(*KEY).alias("notification"))
    )
    return seen.groupBy("broker").agg(
        F.theta_sketch_agg("notification", log2_entries).alias("sketch")
    )


def merging(log2_entries: int) -> Sums:
    """How sketches of the same broker over different notifications merge."""
    return Sums(("broker",), {"sketch": THETA}, log2_entries)


def pair_estimates(sketches: DataFrame, log2_entries: int) -> DataFrame:
    """broker_a < broker_b, the estimate of what they share, and its standard deviation.

    An intersection keeps each common notification with the probability theta of the larger set,
    2^k / size: the count that is scaled up is binomial.
    """
    sized = sketches.withColumn("size", F.theta_sketch_estimate("sketch").cast("double"))
    one = sized.toDF("broker_a", "sketch_a", "size_a")
    other = sized.toDF("broker_b", "sketch_b", "size_b")
    estimate = F.theta_sketch_estimate(F.theta_intersection("sketch_a", "sketch_b"))
    larger = F.greatest("size_a", "size_b")
    spread = F.greatest(larger / float(2**log2_entries) - 1.0, F.lit(0.0))
    return (
        one.join(F.broadcast(other), F.col("broker_a") < F.col("broker_b"))
        .withColumn("theta_estimate", estimate.cast("double"))
        .withColumn("theta_std", F.sqrt(F.col("theta_estimate") * spread))
        .select("broker_a", "broker_b", "theta_estimate", "theta_std")
    )


PERCENTS = (50, 95, 99)


def sketched(column: str, kll_k: int, alias: str = "sketch") -> Column:
    return F.kll_sketch_agg_double(F.col(column), kll_k).alias(alias)


def quantile_columns(sketch: str, name: str) -> list[str]:
    """``<name>_ms_p50``, ``_p95`` and ``_p99`` of a sketch, as texts; null where there is none."""
    return [
        f"kll_sketch_get_quantile_double({sketch}, {percent / 100.0}D) AS {name}_ms_p{percent}"
        for percent in PERCENTS
    ]

"""Publication rates of topics and publishers, with DYNATOPS' exponential filter (Eq. 8).

R'(k+1) = (1 - a) R'(k) + a R(k); the first slot's rate is taken as it is. Slots without
publications count as zero though they have no row: a row's weight fades by (1 - a) for every slot
that passes. The filter runs over complete slots; the last, incomplete one keeps the estimate.
All tables here come from one look at the publications, `traffic`.
"""

from __future__ import annotations

import math

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pubweave.pipeline.schemas import as_declared
from pubweave.pipeline.sums import MAX, MIN, SUM, Sums
from pubweave.pipeline.time_slots import ProfileWindow

_EXPONENT_MAX = 250.0
"""Weights are scaled up to 10^250 within a block of slots: doubles go to 10^308."""


TRAFFIC = Sums(
    ("slot", "topic", "publisher", "broker"),
    {"publications": SUM, "weight": SUM, "size_bytes": SUM, "sample_ratio": MIN,
     "last_accepted_at": MAX, "last_sequence": MAX},
)  # fmt: skip


def traffic(publications: DataFrame, window: ProfileWindow) -> DataFrame:
    """Publications by slot, topic, publisher and broker."""
    slot = window.slot(F.col("published_at")).alias("slot")
    return publications.groupBy(slot, "topic", "publisher", "broker").agg(
        F.count(F.lit(1)).alias("publications"),
        F.sum(1.0 / F.col("sample_ratio")).alias("weight"),
        F.sum("size_bytes").alias("size_bytes"),
        F.min("sample_ratio").alias("sample_ratio"),
        F.max("accepted_at").alias("last_accepted_at"),
        F.max("sequence").alias("last_sequence"),
    )


def topic_rates(traffic: DataFrame, window: ProfileWindow, alpha: float) -> DataFrame:
    """Rates per slot and topic."""
    return as_declared(_rates(traffic, "topic", window, alpha), "topic_rates")


def publisher_rates(traffic: DataFrame, window: ProfileWindow, alpha: float) -> DataFrame:
    """Rates per slot and publisher."""
    return as_declared(_rates(traffic, "publisher", window, alpha), "publisher_rates")


def topics(traffic: DataFrame, rates: DataFrame, window: ProfileWindow, alpha: float) -> DataFrame:
    """Each topic over the whole window, with the estimate for the next slot."""
    totals = traffic.groupBy("topic").agg(
        F.sum("publications").alias("publications"),
        F.sum("weight").alias("weight"),
        F.countDistinct("publisher").alias("publishers"),
        (F.sum("size_bytes") / F.sum("publications")).alias("size_bytes_mean"),
    )
    return as_declared(_with_estimate(totals, rates, "topic", window, alpha), "topics")


def publishers(
    traffic: DataFrame, rates: DataFrame, window: ProfileWindow, alpha: float
) -> DataFrame:
    """Each publisher over the whole window, with the estimate for the next slot."""
    totals = traffic.groupBy("publisher").agg(
        F.max_by("broker", F.struct("last_accepted_at", "last_sequence")).alias("broker"),
        F.sum("publications").alias("publications"),
        F.sum("weight").alias("weight"),
        F.countDistinct("topic").alias("topics"),
    )
    return as_declared(_with_estimate(totals, rates, "publisher", window, alpha), "publishers")


def _rates(traffic: DataFrame, key: str, window: ProfileWindow, alpha: float) -> DataFrame:
    per_slot = (
        traffic.groupBy("slot", key)
        .agg(F.sum("publications").alias("publications"), F.sum("weight").alias("weight"))
        .withColumn("slot_started_at", window.slot_started_at())
        .withColumn("rate_per_s", F.col("weight") / window.slot_length_s())
    )
    return _filtered(per_slot, key, window, alpha)


def _filtered(rates: DataFrame, key: str, window: ProfileWindow, alpha: float) -> DataFrame:
    fade = 1.0 - alpha
    complete = window.complete_slots
    if fade == 0.0 or complete == 0:
        return rates.withColumn("filtered_rate_per_s", F.col("rate_per_s"))
    block_slots = max(1, int(_EXPONENT_MAX / -math.log10(fade)))
    counted = F.when(F.col("slot") >= complete, 0.0).when(F.col("slot") == 0, 1.0).otherwise(alpha)
    placed = (
        rates.withColumn("block", F.floor(F.col("slot") / block_slots))
        .withColumn("place", F.col("slot") - F.col("block") * block_slots)
        .withColumn("scaled", F.col("rate_per_s") * counted * F.pow(F.lit(fade), -F.col("place")))
    )
    # What was before the previous block has faded by 10^-250.
    carried = placed.groupBy(key, (F.col("block") + 1).alias("block")).agg(
        (F.sum("scaled") * fade**block_slots).alias("carried")
    )
    so_far = Window.partitionBy(key, "block").orderBy("slot")
    value = F.pow(F.lit(fade), F.col("place")) * (
        F.sum("scaled").over(so_far) + F.coalesce("carried", F.lit(0.0))
    )
    # A slot that is not complete does not fade what came before either.
    held = F.when(F.col("slot") >= complete, value / fade).otherwise(value)
    return placed.join(carried, [key, "block"], "left").withColumn("filtered_rate_per_s", held)


def _with_estimate(
    totals: DataFrame, rates: DataFrame, key: str, window: ProfileWindow, alpha: float
) -> DataFrame:
    """Totals with the mean rate and what the filter says after the last complete slot."""
    last_complete = max(0, window.complete_slots - 1)
    passed = F.greatest(F.lit(last_complete) - F.col("slot"), F.lit(0))
    last = (
        rates.groupBy(key)
        .agg(F.max_by(F.struct("slot", "filtered_rate_per_s"), "slot").alias("last"))
        .select(key, "last.*")
        .withColumn("filtered_rate_per_s",
                    F.col("filtered_rate_per_s") * F.pow(F.lit(1.0 - alpha), passed))
        .drop("slot")
    )  # fmt: skip
    mean = F.col("weight") / window.duration_s
    return totals.withColumn("rate_per_s", mean).join(last, key)

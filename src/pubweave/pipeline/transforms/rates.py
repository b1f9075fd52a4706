"""Publication rates of topics and publishers, with DYNATOPS' exponential filter (Eq. 8).

R'(k+1) = (1 - a) R'(k) + a R(k); the first slot's rate is taken as it is. Slots without
publications count as zero though they have no row: a row's weight fades by (1 - a) for every slot
that passes. The filter runs over complete slots; the last, incomplete one keeps the estimate.
All tables here come from one look at the publications, `traffic`.
"""

from __future__ import annotations

import math

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.frames.mergeable import MAX, MIN, SUM, Sums
from pubweave.pipeline.frames.schemas import as_declared
from pubweave.pipeline.frames.settings import ProfileWindow, moving

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
        F.expr("count(1) AS publications"),
        F.expr("sum(1.0D / sample_ratio) AS weight"),
        F.expr("sum(size_bytes) AS size_bytes"),
        F.expr("min(sample_ratio) AS sample_ratio"),
        F.expr("max(accepted_at) AS last_accepted_at"),
        F.expr("max(sequence) AS last_sequence"),
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
        F.expr("sum(publications) AS publications"),
        F.expr("sum(weight) AS weight"),
        F.expr("count(DISTINCT publisher) AS publishers"),
        F.expr("sum(size_bytes) / sum(publications) AS size_bytes_mean"),
    )
    return as_declared(_with_estimate(totals, rates, "topic", window, alpha), "topics")


def publishers(
    traffic: DataFrame, rates: DataFrame, window: ProfileWindow, alpha: float
) -> DataFrame:
    """Each publisher over the whole window, with the estimate for the next slot."""
    totals = traffic.groupBy("publisher").agg(
        F.expr("max_by(broker, struct(last_accepted_at, last_sequence)) AS broker"),
        F.expr("sum(publications) AS publications"),
        F.expr("sum(weight) AS weight"),
        F.expr("count(DISTINCT topic) AS topics"),
    )
    return as_declared(_with_estimate(totals, rates, "publisher", window, alpha), "publishers")


def _rates(traffic: DataFrame, key: str, window: ProfileWindow, alpha: float) -> DataFrame:
    per_slot = (
        traffic.groupBy("slot", key)
        .agg(F.expr("sum(publications) AS publications"), F.expr("sum(weight) AS weight"))
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
    is_counted = f"slot < {moving(complete)}"
    counted = f"if({is_counted}, if(slot = 0, 1.0D, {alpha}D), 0.0D)"
    place = f"slot % {block_slots}"
    placed = rates.selectExpr(
        "*",
        f"slot div {block_slots} AS block",
        f"{place} AS place",
        f"rate_per_s * {counted} * pow({fade}D, -({place})) AS scaled",
    )
    if window.last_slot < block_slots:
        carrying = placed.selectExpr("*", "0.0D AS carried")
    else:
        # What was before the previous block has faded by 10^-250.
        carried = placed.groupBy(key, F.expr("block + 1 AS block")).agg(
            F.expr(f"sum(scaled) * {fade**block_slots}D AS carried")
        )
        carrying = placed.join(carried, [key, "block"], "left")
    so_far = f"sum(scaled) OVER (PARTITION BY {key}, block ORDER BY slot)"
    value = f"pow({fade}D, place) * ({so_far} + coalesce(carried, 0.0D))"
    # A slot that is not complete does not fade what came before either.
    held = f"if({is_counted}, 1.0D, 1.0D / {fade}D) * {value} AS filtered_rate_per_s"
    return carrying.selectExpr("*", held)


def _with_estimate(
    totals: DataFrame, rates: DataFrame, key: str, window: ProfileWindow, alpha: float
) -> DataFrame:
    """Totals with the mean rate and what the filter says after the last complete slot."""
    last_complete = max(0, window.complete_slots - 1)
    faded = f"pow({1.0 - alpha}D, greatest({moving(last_complete)} - last.slot, 0L))"
    last = (
        rates.groupBy(key)
        .agg(F.expr("max_by(struct(slot, filtered_rate_per_s), slot) AS last"))
        .selectExpr(key, f"last.filtered_rate_per_s * {faded} AS filtered_rate_per_s")
    )
    mean = f"weight / {moving(window.duration_s)} AS rate_per_s"
    return totals.selectExpr("*", mean).join(last, key)

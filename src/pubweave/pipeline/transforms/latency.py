"""Delivery latency over time, apart for publications that a transformation may have held up.

A transformation is a period in which links came or went while publications were on their way; the
links that the overlay was started with are none. A publication is affected if it was in flight
during the period and its delivery tree touches a broker whose links changed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from pubweave.pipeline.frames.mergeable import KLL, MAX, SUM, Sums
from pubweave.pipeline.frames.schemas import as_declared, columns
from pubweave.pipeline.frames.settings import ProfileWindow, moving
from pubweave.pipeline.transforms.publications import KEY
from pubweave.pipeline.transforms.sketches import quantile_columns, sketched

AFFECTED_PUBLICATIONS = columns(
    transformation=LongType(), publisher=StringType(), sequence=LongType()
)


def link_change_periods(
    changes: DataFrame, first_published_at: float, margin_s: float
) -> DataFrame:
    """Changes of the topology after traffic began, each with the transformation it is part of."""
    moved = (
        changes.where("change in ('added', 'removed')")
        .where(f"changed_at > {moving(first_published_at)}")
        .withColumn("from_at", F.col("changed_at") - margin_s)
        .withColumn("to_at", F.col("changed_at") + margin_s)
    )
    by_time = Window.partitionBy().orderBy("from_at", "broker", "neighbor", "change")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    begins = F.coalesce(F.col("from_at") > F.max("to_at").over(before), F.lit(True))
    return moved.withColumn("begins", begins.cast("int")).withColumn(
        "transformation", F.sum("begins").over(by_time)
    )


def affected_publications(
    facts: DataFrame, periods: DataFrame, tree_brokers: DataFrame
) -> DataFrame:
    """Publications and the transformation they were affected by."""
    spans = periods.groupBy("transformation").agg(
        F.min("from_at").alias("from_at"), F.max("to_at").alias("to_at")
    )
    moved = periods.select("transformation", "broker").unionByName(
        periods.select("transformation", F.col("neighbor").alias("broker"))
    )
    touched = tree_brokers.join(F.broadcast(moved.distinct()), "broker")
    touched = touched.select("transformation", "tree").distinct()
    in_flight = facts.where("recorded > 0").join(
        F.broadcast(spans),
        F.expr("published_at <= to_at and coalesce(last_delivered_at, published_at) >= from_at"),
    )
    return in_flight.join(touched, ["transformation", "tree"]).select("transformation", *KEY)


AFFECTED = Sums(("started_at",), {"affected_publications": SUM})


def affected_sums(periods: DataFrame, affected: DataFrame) -> DataFrame:
    """How many publications each transformation affected; its beginning names it for good."""
    counted = affected.groupBy("transformation").agg(
        F.count(F.lit(1)).alias("affected_publications")
    )
    began = periods.groupBy("transformation").agg(F.min("from_at").alias("started_at"))
    return counted.join(began, "transformation").select("started_at", "affected_publications")


def transformations(periods: DataFrame, affected: DataFrame) -> DataFrame:
    """Each period with what changed in it; both brokers of a link record it, it counts once."""
    link = F.struct(F.least("broker", "neighbor"), F.greatest("broker", "neighbor"))
    table = periods.groupBy("transformation").agg(
        F.min("from_at").alias("started_at"),
        F.max("to_at").alias("ended_at"),
        F.countDistinct(F.when(F.col("change") == "added", link)).alias("links_added"),
        F.countDistinct(F.when(F.col("change") == "removed", link)).alias("links_removed"),
    )
    together = table.join(affected, "started_at", "left").fillna(0, ["affected_publications"])
    return as_declared(together, "transformations")


def merging(kll_k: int) -> Sums:
    """How latencies of different publications merge."""
    counts = {"deliveries": SUM, "latency_ms": SUM, "latency_ms_max": MAX, "sketch": KLL}
    return Sums(("slot", "affected"), counts, kll_k)


def latency_sums(
    deliveries: DataFrame, affected: DataFrame | None, window: ProfileWindow, kll_k: int
) -> DataFrame:
    """Latencies by slot of publishing; ``affected`` is None if nothing was transformed."""
    if affected is None:
        marked = deliveries.withColumn("affected", F.lit(False))
    else:
        keys = affected.select(*KEY).distinct().withColumn("affected", F.lit(True))
        marked = deliveries.join(keys, KEY, "left").fillna(False, ["affected"])
    published_at = F.col("delivered_at") - F.col("latency_ms") / 1e3
    # A publisher's clock may be behind the first record: its publications are in the first slot.
    slot = F.greatest(window.slot(published_at), F.lit(0))
    return marked.groupBy(slot.alias("slot"), "affected").agg(
        F.expr("count(1) AS deliveries"),
        F.expr("sum(latency_ms) AS latency_ms"),
        F.expr("max(latency_ms) AS latency_ms_max"),
        sketched("latency_ms", kll_k),
    )


def latency(sums: DataFrame, window: ProfileWindow) -> DataFrame:
    """Mean, maximum and percentiles by slot of publishing."""
    table = sums.withColumn("slot_started_at", window.slot_started_at()).selectExpr(
        "*", "latency_ms / deliveries AS latency_ms_mean", *quantile_columns("sketch", "latency")
    )
    return as_declared(table, "latency")

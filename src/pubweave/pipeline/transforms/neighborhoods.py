"""Who is near whom: brokers within some hops, by the topology at the window's end."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def distances(links: DataFrame, hops: int) -> DataFrame:
    """Pairs of brokers at most ``hops`` apart, both ways: broker, other, hops."""
    present = links.where("is_present").select("broker_a", "broker_b")
    step = present.toDF("broker", "other").unionByName(
        present.select(F.col("broker_b").alias("broker"), F.col("broker_a").alias("other"))
    )
    known = step.withColumn("hops", F.lit(1))
    for distance in range(2, hops + 1):
        onward = step.toDF("other", "next")
        farther = (
            known.where(F.col("hops") == distance - 1)
            .join(onward, "other")
            .where("broker != next")
            .select("broker", F.col("next").alias("other"), F.lit(distance).alias("hops"))
        )
        known = (
            known.unionByName(farther).groupBy("broker", "other").agg(F.min("hops").alias("hops"))
        )
    return known


def ways(near: DataFrame) -> DataFrame:
    """The triples CI asks for: via is a neighbor of far and one hop nearer to the broker."""
    last_hop = near.where("hops = 1").select(
        F.col("broker").alias("via"), F.col("other").alias("far")
    )
    to_far = near.where("hops >= 2").select("broker", F.col("other").alias("far"), "hops")
    to_via = near.select("broker", F.col("other").alias("via"), F.col("hops").alias("via_hops"))
    return (
        to_far.join(last_hop, "far")
        .join(to_via, ["broker", "via"])
        .where(F.col("via_hops") == F.col("hops") - 1)
        .select("broker", "via", "far", "hops")
    )

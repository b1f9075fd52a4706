"""The cost of the overlay as it is: CI's cost(N, T) and DYNATOPS' relay overhead and delay.

CI Eq. 1 adds up the processing cost p_v of every broker in a delivery tree and the communication
cost c_e of every link; Eq. 2 sums over all publications. DYNATOPS counts the brokers that only
relay (the root is none) and, for every receiving broker, the delay from the root; its Eqs. 1 to 4
sum both over publications, Eq. 5 weighs them. The trees are those that publications really took,
so Eqs. 1 and 2 hold through changes of subscriptions and of the topology.

c_e is half the median round trip, p_v the mean of queueing and matching, both in milliseconds.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.schemas import as_declared


def delivery_trees(
    sets: DataFrame,
    roots: DataFrame,
    links: DataFrame,
    receivers: DataFrame,
    paths: DataFrame,
    topics: DataFrame,
    broker_costs: DataFrame,
    link_costs: DataFrame,
) -> DataFrame:
    """Each tree with its size, its relays and what one publication costs on it."""
    root_of = roots.select(F.col("root_tree").alias("tree"), F.col("root_broker").alias("broker"))
    members = (
        root_of.select("tree", "broker")
        .unionByName(receivers.select("tree", "broker"))
        .unionByName(links.select("tree", F.col("to_broker").alias("broker")))
        .distinct()
    )
    processing = (
        members.join(F.broadcast(broker_costs.select("broker", "processing_ms")), "broker", "left")
        .groupBy("tree")
        .agg(F.count(F.lit(1)).alias("brokers"),
             F.sum(F.coalesce("processing_ms", F.lit(0.0))).alias("processing_ms"))
    )  # fmt: skip
    named = topics.select("topic", F.xxhash64("topic").alias("topic_hash"))
    trees = (
        sets.select("tree", "topic_hash", "publications", "weight")
        .join(F.broadcast(named), "topic_hash")
        .join(root_of, "tree")
        .join(processing, "tree")
        .join(_communication(links, link_costs), "tree", "left")
        .join(_reception(receivers, roots, paths), "tree", "left")
    )
    return as_declared(_with_sums(trees), "delivery_trees")


def topic_costs(trees: DataFrame) -> DataFrame:
    """What each topic costs over the window."""
    weight = F.col("weight")
    costs = trees.groupBy("topic").agg(
        F.sum(weight).alias("weight"),
        F.sum(weight * F.col("relays")).alias("relay_overhead"),
        F.sum(weight * F.col("delay_ms")).alias("delay_ms"),
        F.sum(weight * F.col("cost_ms")).alias("cost_ms"),
    )
    return as_declared(costs, "topic_costs")


def overlay_cost(trees: DataFrame, delay_weight: float) -> DataFrame:
    """The sums over all publications, in one row."""
    weight = F.col("weight")

    def total(name: str) -> Column:
        return F.coalesce(F.sum(weight * F.col(name)), F.lit(0.0))

    costs = trees.agg(
        F.coalesce(F.sum(weight), F.lit(0.0)).alias("weight"),
        total("processing_ms").alias("processing_ms"),
        total("communication_ms").alias("communication_ms"),
        total("cost_ms").alias("cost_ms"),
        total("relays").alias("relay_overhead"),
        total("delay_ms").alias("delay_ms"),
    ).withColumn("delay_weight", F.lit(delay_weight))
    notification_cost = F.col("relay_overhead") + F.col("delay_weight") * F.col("delay_ms")
    return as_declared(costs.withColumn("notification_cost", notification_cost), "overlay_cost")


def _communication(links: DataFrame, link_costs: DataFrame) -> DataFrame:
    costs = link_costs.select("broker_a", "broker_b", "cost_ms")
    return (
        links.withColumn("broker_a", F.least("from_broker", "to_broker"))
        .withColumn("broker_b", F.greatest("from_broker", "to_broker"))
        .join(F.broadcast(costs), ["broker_a", "broker_b"], "left")
        .groupBy("tree")
        .agg(F.count(F.lit(1)).alias("links"),
             F.sum(F.coalesce("cost_ms", F.lit(0.0))).alias("communication_ms"))
    )  # fmt: skip


def _reception(receivers: DataFrame, roots: DataFrame, paths: DataFrame) -> DataFrame:
    """Receivers by tree, whether the root is one, and the sum of their delays."""
    root = roots.select(F.col("root_tree").alias("tree"), F.col("root_broker").alias("broker"),
                        F.lit(1).alias("is_root"))  # fmt: skip
    return (
        receivers.join(paths, ["tree", "broker"], "left")
        .join(root, ["tree", "broker"], "left")
        .groupBy("tree")
        .agg(
            F.count(F.lit(1)).alias("receivers"),
            F.count("is_root").alias("receiving_root"),
            F.sum(F.coalesce("delay_ms", F.lit(0.0))).alias("delay_ms"),
        )
    )


def _with_sums(trees: DataFrame) -> DataFrame:
    def known(name: str) -> Column:
        return F.coalesce(F.col(name), F.lit(0))

    return trees.select(
        "tree", "topic", "broker", "publications", "weight", "brokers", "processing_ms",
        known("links").alias("links"),
        known("receivers").alias("receivers"),
        known("communication_ms").alias("communication_ms"),
        known("delay_ms").alias("delay_ms"),
        (F.col("brokers") - 1 - known("receivers") + known("receiving_root")).alias("relays"),
        (F.col("processing_ms") + known("communication_ms")).alias("cost_ms"),
    )  # fmt: skip

"""Subscriptions over time: intervals from changes, the state at the end, and how fast it changes.

An interval begins when a broker records that a client's subscription came and ends with the next
record of the same subscription there, or with the broker's next incarnation, whose tables are
empty. The same subscription at two brokers is two intervals: a client moves by coming to one before
it leaves the other.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pubweave.pipeline.frames.mergeable import together
from pubweave.pipeline.frames.schemas import as_declared
from pubweave.pipeline.frames.settings import ProfileWindow, moving


def subscriptions(changes: DataFrame, incarnations: DataFrame) -> DataFrame:
    """Intervals; ``incarnations`` has broker, epoch and next_began_at (null for the last)."""
    ordered = _in_order(changes)
    ended = F.coalesce(F.col("next_at"), F.col("next_began_at"))
    intervals = (
        ordered.where("change = 'added'")
        .join(F.broadcast(incarnations), ["broker", "epoch"], "left")
        .select(
            "client", "subscription", "broker", "topic", "filter",
            F.col("changed_at").alias("added_at"), ended.alias("removed_at"),
        )
    )  # fmt: skip
    return as_declared(intervals, "subscriptions")


def never_added(changes: DataFrame) -> DataFrame:
    """Removals of subscriptions that were not there: each contradicts what was told before."""
    return _in_order(changes).where(
        "change = 'removed' and (previous_change is null or previous_change = 'removed')"
    )


def broker_topics(intervals: DataFrame) -> DataFrame:
    """S_b at the window's end: the topics a broker's clients ask for."""
    standing = client_topics(intervals)
    counted = standing.groupBy("broker", "topic").agg(F.count(F.lit(1)).alias("clients"))
    return as_declared(counted, "broker_topics")


def client_topics(intervals: DataFrame) -> DataFrame:
    """Who asks for which topic at the window's end; at two brokers, where it came last."""
    standing = _standing(intervals).where("topic is not null").groupBy("client", "topic")
    newest = F.max_by("broker", F.struct("added_at", "broker"))
    return as_declared(standing.agg(newest.alias("broker")), "client_topics")


def subscription_counts(intervals: DataFrame, changes: DataFrame) -> DataFrame:
    """A broker's subscriptions at the end, and its changes over the window."""
    state = _standing(intervals).groupBy("broker").agg(
        F.countDistinct("client").alias("clients"),
        F.count(F.lit(1)).alias("subscriptions"),
        F.countDistinct("topic").alias("topics"),
    )  # fmt: skip
    counted = changes.groupBy("broker").agg(
        F.expr("count_if(change = 'added') AS added"),
        F.expr("count_if(change = 'removed') AS removed"),
    )
    turns = _topic_turns(intervals).groupBy("broker").agg(F.expr("count(1) AS topic_changes"))
    return together(["broker"], state, counted, turns)


def broker_subscriptions(counts: DataFrame, brokers: DataFrame, window: ProfileWindow) -> DataFrame:
    """What was counted for every broker, the changes as rates over the window."""
    recorded = brokers.selectExpr("broker", "true AS is_known")
    table = together(["broker"], recorded, counts).where("is_known").fillna(0)
    duration_s = moving(window.duration_s)
    rates = (f"{name} / {duration_s} AS {name}_per_s"
             for name in ("added", "removed", "topic_changes"))  # fmt: skip
    return as_declared(table.selectExpr("*", *rates), "broker_subscriptions")


def subscription_rates(changes: DataFrame, window: ProfileWindow) -> DataFrame:
    """Changes per slot and broker."""
    counted = changes.groupBy(window.slot(F.col("changed_at")).alias("slot"), "broker").agg(
        F.count(F.when(F.col("change") == "added", 1)).alias("added"),
        F.count(F.when(F.col("change") == "removed", 1)).alias("removed"),
    )
    return as_declared(
        counted.withColumn("slot_started_at", window.slot_started_at()), "subscription_rates"
    )


def placement_candidates(
    wanted: DataFrame, topics_of_brokers: DataFrame, intervals: DataFrame, count: int
) -> DataFrame:
    """The brokers most similar to each client: Sim = |S_b and s_u| / |s_u| (DYNATOPS, section 4).

    What a client asks for itself does not make its own broker similar to it.
    """
    sizes = wanted.groupBy("client").agg(F.count(F.lit(1)).alias("topics"))
    current = wanted.select("client", "topic", F.col("broker").alias("current"))
    counted = (
        current.join(topics_of_brokers, "topic")
        .where("broker != current or clients > 1")
        .groupBy("client", "current", "broker")
        .agg(F.count(F.lit(1)).alias("shared"))
        .join(sizes, "client")
        .join(F.broadcast(_loads(intervals)), "broker", "left")
        .withColumn("similarity", F.col("shared") / F.col("topics"))
    )
    # A client may stand at two brokers for different topics: one row per candidate.
    by_broker = counted.groupBy("client", "broker").agg(
        F.sum("similarity").alias("similarity"),
        F.first("load").alias("load"),
        F.max(F.col("broker") == F.col("current")).alias("is_current"),
    )
    best = Window.partitionBy("client").orderBy(F.desc("similarity"), "load", "broker")
    ranked = by_broker.withColumn("rank", F.row_number().over(best)).where(F.col("rank") <= count)
    return as_declared(ranked, "placement_candidates")


def _in_order(changes: DataFrame) -> DataFrame:
    """Changes with what came before and after for the same subscription at the same broker."""
    order = Window.partitionBy("client", "subscription", "broker").orderBy(
        "changed_at", "epoch", "record_number"
    )
    return changes.withColumn("next_at", F.lead("changed_at").over(order)).withColumn(
        "previous_change", F.lag("change").over(order)
    )


def _standing(intervals: DataFrame) -> DataFrame:
    return intervals.where("removed_at is null")


def _topic_turns(intervals: DataFrame) -> DataFrame:
    """Each time a broker's subscriptions to a topic went from none to some, or back."""
    named = intervals.where("topic is not null")
    came = named.select("broker", "topic", F.col("added_at").alias("at"), F.lit(1).alias("change"))
    went = named.where("removed_at is not null").select(
        "broker", "topic", F.col("removed_at").alias("at"), F.lit(-1).alias("change")
    )
    # What comes and goes at one instant is no turn: the sum over the instant counts.
    moments = (
        came.unionByName(went).groupBy("broker", "topic", "at").agg(F.sum("change").alias("change"))
    )
    so_far = Window.partitionBy("broker", "topic").orderBy("at")
    counted = moments.withColumn("after", F.sum("change").over(so_far)).withColumn(
        "before", F.col("after") - F.col("change")
    )
    return counted.where("(before = 0) != (after = 0)")


def _loads(intervals: DataFrame) -> DataFrame:
    """L_b: a broker's share of all subscriptions."""
    counted = _standing(intervals).groupBy("broker").agg(F.count(F.lit(1)).alias("subscriptions"))
    everything = Window.partitionBy()
    total = F.sum("subscriptions").over(everything)
    return counted.select("broker", (F.col("subscriptions") / total).alias("load"))

"""Which deliveries were due: publications held against the subscriptions of their moment.

A delivery is due if the subscription stood ``settle_s`` before and after the publication; nearer to
a change it is uncertain, for a subscription takes time to travel. Most clients ask for a topic by
one plain subscription: their number and the XOR of their hashes per topic and moment are enough to
see that a publication reached exactly them. Only what does not add up is looked at client by
client (`pairs_of`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pubweave.pipeline.transforms.filters import (
    is_plain,
    parsed_filters,
    satisfies,
    with_values,
)
from pubweave.pipeline.transforms.publications import KEY

BEGINNING = float("-inf")
END = float("inf")
DUE = 2
UNCERTAIN = 1


def prepared(spark: SparkSession, intervals: DataFrame) -> DataFrame:
    """Intervals with predicates, and whether a client's plain subscription is all it has there."""
    plain = intervals.withColumn("plain", is_plain())
    filters = parsed_filters(spark, plain.where("not plain"))
    parsed = plain.join(F.broadcast(filters), "filter", "left").withColumn(
        "is_known", F.col("plain") | F.coalesce("is_known", F.lit(False))
    )
    if "predicates" in filters.columns:
        nothing = F.array().cast(filters.schema["predicates"].dataType)
        parsed = parsed.withColumn("predicates", F.coalesce("predicates", nothing))
    of_client = Window.partitionBy("client")
    of_topic = Window.partitionBy("client", "topic")
    # A filter without a topic may match any publication, also one its client asks for otherwise.
    is_all = (
        F.col("plain")
        & (F.count(F.lit(1)).over(of_topic) == 1)
        & (F.count(F.when(F.col("topic").isNull(), 1)).over(of_client) == 0)
    )
    return parsed.withColumn("steady", is_all)


def steady_versions(subs: DataFrame, first_published: DataFrame, settle_s: float) -> DataFrame:
    """Per topic and period: how many steady clients are due, and their digest.

    ``first_published`` has topic and first_at: what changed well before is one version.
    """
    steady = subs.where("steady").join(F.broadcast(first_published), "topic")
    came = steady.select("topic", "first_at", "client", F.col("added_at").alias("at"),
                         F.lit(1).alias("change"))  # fmt: skip
    went = steady.where("removed_at is not null").select(
        "topic", "first_at", "client", F.col("removed_at").alias("at"), F.lit(-1).alias("change")
    )
    early = F.col("at") + settle_s <= F.col("first_at")
    moments = came.unionByName(went).select(
        "topic",
        F.when(early, BEGINNING).otherwise(F.col("at")).alias("from_at"),
        "change",
        F.xxhash64("client").alias("digest"),
    )
    beginnings = moments.select("topic").distinct().select(
        "topic", F.lit(BEGINNING).alias("from_at"), F.lit(0).alias("change"),
        F.lit(0).cast("long").alias("digest"),
    )  # fmt: skip
    changes = moments.unionByName(beginnings).groupBy("topic", "from_at").agg(
        F.sum("change").alias("change"), F.bit_xor("digest").alias("digest")
    )  # fmt: skip
    by_time = Window.partitionBy("topic").orderBy("from_at")
    return changes.select(
        F.xxhash64("topic").alias("topic_hash"),
        "from_at",
        F.coalesce(F.lead("from_at").over(by_time), F.lit(END)).alias("to_at"),
        F.sum("change").over(by_time).alias("steady_due"),
        F.bit_xor("digest").over(by_time).alias("steady_digest"),
    )


def with_steady_due(facts: DataFrame, versions: DataFrame, settle_s: float) -> DataFrame:
    """Facts with what their steady clients are due; ``near_change`` if that just changed."""
    at = F.col("published_at")
    version = versions.withColumnRenamed("topic_hash", "version_topic_hash")
    joined = facts.join(
        F.broadcast(version),
        (F.col("topic_hash") == F.col("version_topic_hash"))
        & (at >= F.col("from_at"))
        & (at < F.col("to_at")),
        "left",
    )
    near = (at - F.col("from_at") < settle_s) | (F.col("to_at") - at < settle_s)
    return (
        joined.withColumn("near_change", F.coalesce(near, F.lit(False)))
        .fillna(0, ["steady_due", "steady_digest"])
        .drop("version_topic_hash", "from_at", "to_at")
    )


def pairs_of(publications: DataFrame, subs: DataFrame, settle_s: float) -> DataFrame:
    """Publications with each client that is due, or may be: ``certainty`` is DUE or UNCERTAIN."""
    at = F.col("published_at")
    of_pair = {"client", "broker", "added_at", "removed_at", "is_known", "bounds", "predicates"}
    columns = [name for name in subs.columns if name in of_pair]
    wanted = subs.select(F.col("topic").alias("asked_topic"), *columns)
    content = with_values(publications.select(*KEY, "topic", "published_at", "attributes"), subs)
    named = content.join(
        wanted.where("asked_topic is not null"), F.col("topic") == F.col("asked_topic")
    )
    nameless = content.crossJoin(F.broadcast(wanted.where("asked_topic is null")))
    still = F.col("removed_at").isNull()
    certainly = (F.col("added_at") + settle_s <= at) & (
        still | (at + settle_s <= F.col("removed_at"))
    )
    possibly = (F.col("added_at") - settle_s <= at) & (
        still | (at <= F.col("removed_at") + settle_s)
    )
    # An unknown filter may match: neither due nor wrong.
    is_due = F.col("is_known") & certainly
    return (
        named.unionByName(nameless)
        .where(possibly & (~F.col("is_known") | satisfies(subs)))
        .withColumn("certainty", F.when(is_due, DUE).otherwise(UNCERTAIN))
        .groupBy(*KEY, "client")
        .agg(
            F.max("certainty").alias("certainty"),
            F.max_by("broker", F.struct("certainty", "added_at")).alias("broker"),
            F.max("topic").alias("topic"),
        )
    )


def explicit_due(pairs: DataFrame) -> DataFrame:
    """Pairs of clients that are not steady, counted and digested per publication."""
    is_due = F.col("certainty") == DUE
    return pairs.groupBy(*KEY).agg(
        F.count(F.when(is_due, 1)).alias("explicit_due"),
        F.bit_xor(F.when(is_due, F.xxhash64("client")).otherwise(F.lit(0).cast("long"))).alias(
            "explicit_digest"
        ),
        F.count(F.when(~is_due, 1)).alias("explicit_uncertain"),
    )

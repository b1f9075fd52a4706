"""Which deliveries were due: publications held against the subscriptions of their moment.

A delivery is due if the subscription stood ``settle_s`` before and after the publication; nearer to
a change it is uncertain, for a subscription takes time to travel. Most clients ask for a topic by
one plain subscription: their number and the XOR of their hashes per topic and moment are enough to
see that a publication reached exactly them. Only what does not add up is looked at client by
client (`pairs_of`).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pubweave.pipeline.transforms.filters import (
    asked_text,
    is_plain,
    parsed_filters,
    satisfies,
    with_values,
)
from pubweave.pipeline.transforms.publications import KEY

BEGINNING = "double('-infinity')"
END = "double('infinity')"
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


@dataclass(frozen=True)
class Kinds:
    """Which kinds of subscriptions there are: a query leaves out what no subscription asks for."""

    steady: bool
    loose: bool
    """Some client has more than one plain subscription to a topic, or others."""
    nameless: bool
    """Some filter names no topic."""

    @classmethod
    def of(cls, counted: DataFrame) -> Kinds:
        """What `kinds` counted."""
        [row] = counted.collect()
        return cls(**row.asDict())


def kinds(subs: DataFrame) -> DataFrame:
    """One row for `Kinds`."""
    checks = {"steady": "steady", "loose": "not steady", "nameless": "topic is null"}
    return subs.agg(*(F.expr(f"count_if({is_so}) > 0 AS {name}") for name, is_so in checks.items()))


def steady_versions(subs: DataFrame, first_published: DataFrame, settle_s: float) -> DataFrame:
    """Per topic and period: how many steady clients are due, and their digest.

    ``first_published`` has topic and first_at: what changed well before is one version.
    """
    steady = subs.where("steady").join(F.broadcast(first_published), "topic")
    named = ("topic", "first_at", "client")
    came = steady.selectExpr(*named, "added_at AS at", "1 AS change")
    went = steady.where("removed_at is not null").selectExpr(
        *named, "removed_at AS at", "-1 AS change"
    )
    moments = came.unionByName(went).selectExpr(
        "topic",
        f"if(at + {settle_s}D <= first_at, {BEGINNING}, at) AS from_at",
        "change",
        "xxhash64(client) AS digest",
    )
    beginnings = moments.selectExpr("topic").distinct().selectExpr(
        "topic", f"{BEGINNING} AS from_at", "0 AS change", "0L AS digest"
    )  # fmt: skip
    changes = moments.unionByName(beginnings).groupBy("topic", "from_at").agg(
        F.expr("sum(change) AS change"), F.expr("bit_xor(digest) AS digest")
    )  # fmt: skip
    by_time = "OVER (PARTITION BY topic ORDER BY from_at)"
    return changes.selectExpr(
        "xxhash64(topic) AS topic_hash",
        "from_at",
        f"coalesce(lead(from_at) {by_time}, {END}) AS to_at",
        f"sum(change) {by_time} AS steady_due",
        f"bit_xor(digest) {by_time} AS steady_digest",
    )


def with_nothing_due(facts: DataFrame) -> DataFrame:
    """Facts where no client is steady."""
    return facts.selectExpr("*", "false AS near_change", "0L AS steady_due", "0L AS steady_digest")


def with_steady_due(facts: DataFrame, versions: DataFrame, settle_s: float) -> DataFrame:
    """Facts with what their steady clients are due; ``near_change`` if that just changed."""
    version = versions.withColumnRenamed("topic_hash", "version_topic_hash")
    of_its_time = (
        "topic_hash = version_topic_hash and published_at >= from_at and published_at < to_at"
    )
    joined = facts.join(F.broadcast(version), F.expr(of_its_time), "left")
    near = f"published_at - from_at < {settle_s}D or to_at - published_at < {settle_s}D"
    return joined.selectExpr(
        *facts.columns,
        f"coalesce({near}, false) AS near_change",
        "coalesce(steady_due, 0L) AS steady_due",
        "coalesce(steady_digest, 0L) AS steady_digest",
    )


def pairs_of(
    publications: DataFrame, subs: DataFrame, settle_s: float, *, nameless: bool = True
) -> DataFrame:
    """Publications with each client that is due, or may be: ``certainty`` is DUE or UNCERTAIN.

    ``nameless``: whether any filter names no topic.
    """
    kept = {"client", "broker", "added_at", "removed_at", "is_known", "bounds", "predicates"}
    columns = [name for name in subs.columns if name in kept]
    wanted = subs.selectExpr("topic AS asked_topic", *columns)
    asked = publications.selectExpr(*KEY, "topic", "published_at", "attributes")
    content = with_values(asked, subs)
    pairs = _of_topic(content, wanted.where("asked_topic is not null"), asked_text(subs))
    if nameless:
        of_any = F.broadcast(wanted.where("asked_topic is null"))
        pairs = pairs.unionByName(content.crossJoin(of_any))
    certainly = (
        f"added_at + {settle_s}D <= published_at"
        f" and (removed_at is null or published_at + {settle_s}D <= removed_at)"
    )
    possibly = (
        f"added_at - {settle_s}D <= published_at"
        f" and (removed_at is null or published_at <= removed_at + {settle_s}D)"
    )
    # An unknown filter may match: neither due nor wrong.
    is_due = f"if(is_known and {certainly}, {DUE}, {UNCERTAIN})"
    return (
        pairs.where(F.expr(possibly) & (F.expr("not is_known") | satisfies(subs)))
        .withColumn("certainty", F.expr(is_due))
        .groupBy(*KEY, "client")
        .agg(
            F.expr("max(certainty) AS certainty"),
            F.expr("max_by(broker, struct(certainty, added_at)) AS broker"),
            F.expr("max(topic) AS topic"),
        )
    )


def _of_topic(content: DataFrame, wanted: DataFrame, text: tuple[str, str] | None) -> DataFrame:
    """Publications with the subscriptions to their topic, but for those to another text."""
    same_topic = "topic = asked_topic"
    if text is None:
        return content.join(wanted, F.expr(same_topic))
    # By a key, or the join would look at all pairs of the topic: a publication has that of its
    # text, and that of subscriptions which ask for none.
    keyed = content.selectExpr("*", f"explode(array('', concat('=', {text[1]}))) AS own_key")
    asked = wanted.selectExpr("*", f"coalesce(concat('=', {text[0]}), '') AS asked_key")
    pairs = keyed.join(asked, F.expr(f"{same_topic} and own_key = asked_key"))
    return pairs.drop("own_key", "asked_key")


def explicit_due(pairs: DataFrame) -> DataFrame:
    """Pairs of clients that are not steady, counted and digested per publication."""
    return pairs.groupBy(*KEY).agg(
        F.expr(f"count_if(certainty = {DUE}) AS explicit_due"),
        F.expr(f"bit_xor(if(certainty = {DUE}, xxhash64(client), 0L)) AS explicit_digest"),
        F.expr(f"count_if(certainty != {DUE}) AS explicit_uncertain"),
    )

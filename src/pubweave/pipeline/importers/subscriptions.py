"""Who follows what, as subscriptions that all come at the beginning.

Understood are pairs of client and topic under several names: client,topic (or client,filter),
follower,topic, user,artist and the plain u,v of friendships.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pubweave.pipeline.importers.rows import (
    Imported,
    read_rows,
    recorded,
    split_sound,
    write_import,
)

HEADERS = (
    ("client", "topic"),
    ("client", "filter"),
    ("follower", "topic"),
    ("user", "artist"),
    ("user", "friend"),
    ("u", "v"),
)


def import_subscriptions(spark: SparkSession, paths: Sequence[str], output: str) -> Imported:
    """Pairs of CSV files into the table of subscription changes."""
    pairs = read_rows(spark, paths, HEADERS)
    is_filter = pairs.columns[1] == "filter"
    named = pairs.toDF("client", "wanted")
    checks = [
        (F.col(name).isNull() | (F.trim(name) == ""), f"missing value: {pairs.columns[place]}")
        for place, name in enumerate(("client", "wanted"))
    ]
    sound, refused = split_sound(named, "subscription_changes", checks)
    changes = subscription_changes(sound, is_filter=is_filter)
    records = recorded(changes, "subscription_changes", ["client", "filter"])
    return write_import(
        spark, output, "subscription_changes", records, refused, {"kind": "subscriptions"}
    )


def subscription_changes(pairs: DataFrame, *, is_filter: bool) -> DataFrame:
    """Each distinct pair as a subscription that came at second 0."""
    distinct = pairs.distinct()
    topic = F.lit(None).cast("string") if is_filter else F.col("wanted")
    written = F.col("wanted") if is_filter else topic_filter()
    return distinct.select(
        F.lit(0.0).alias("changed_at"),
        "client",
        F.concat(F.lit("s-"), F.col("wanted")).alias("subscription"),
        written.alias("filter"),
        topic.alias("topic"),
        F.lit("added").alias("change"),
    )


def topic_filter(column: str = "wanted") -> Column:
    """The filter of one topic, as the model writes it."""
    quoted = F.replace(F.col(column), F.lit("'"), F.lit("''"))
    return F.concat(F.lit("class = '"), quoted, F.lit("'"))

"""POP's and GRAPE's inputs: what became of each publisher's last publications.

A trace window are the publications among the last ``trace_length`` sequence numbers of a publisher
(as many more as the sampling leaves out). GRAPE asks each broker for a bit vector over them and for
its local deliveries (section 4.1); POP for the subscribers behind each link (section 3.1), a mean
and a running average that gives the newest publication a weight of 0.25.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.frames.bitsets import WORD_BITS, bit_in_word, word_of
from pubweave.pipeline.frames.mergeable import together
from pubweave.pipeline.frames.schemas import as_declared
from pubweave.pipeline.transforms.publications import KEY


def traced_publications(
    traffic: DataFrame, trace_length: int, facts: DataFrame, old: DataFrame | None
) -> DataFrame:
    """The publications of every publisher's trace window, and their trees; ``old`` ones too."""
    last = traffic.groupBy("publisher").agg(
        F.max("last_sequence").alias("last"),
        F.ceil(F.lit(float(trace_length)) / F.min("sample_ratio")).alias("span"),
    )
    recorded = facts.where("recorded > 0").select(*KEY, "tree")
    together = recorded if old is None else recorded.unionByName(old)
    within = F.col("sequence") > F.col("last") - F.col("span")
    return together.join(F.broadcast(last), "publisher").where(within).select(*KEY, "tree")


def traced_deliveries(deliveries: DataFrame, traced: DataFrame, old: DataFrame | None) -> DataFrame:
    """Deliveries of traced publications, counted by broker."""
    names = F.broadcast(traced.select(*KEY))
    counted = (
        deliveries.select(*KEY, "broker")
        .join(names, KEY)
        .groupBy(*KEY, "broker")
        .agg(F.count(F.lit(1)).alias("deliveries"))
    )
    return counted if old is None else counted.unionByName(old.join(names, KEY, "left_semi"))


def traces(traced: DataFrame, deliveries: DataFrame) -> DataFrame:
    """GRAPE's bit vectors and local deliveries, by publisher and broker."""
    windows = traced.groupBy("publisher").agg(
        F.expr("min(sequence) AS first_sequence"),
        F.expr("max(sequence) AS last_sequence"),
        F.expr("count(1) AS traced"),
    )
    position = "row_number() OVER (PARTITION BY publisher ORDER BY sequence) - 1L AS position"
    delivered = deliveries.join(traced.selectExpr(*KEY, position), KEY)
    words = delivered.groupBy("publisher", "broker", word_of("position").alias("word")).agg(
        F.bit_or(bit_in_word("position")).alias("bits"), F.sum("deliveries").alias("deliveries")
    )
    vectors = words.groupBy("publisher", "broker").agg(
        F.expr("map_from_entries(collect_list(struct(word, bits))) AS by_word"),
        F.expr("sum(bit_count(bits)) AS distinct_publications"),
        F.expr("sum(deliveries) AS local_deliveries"),
    )
    numbers = f"sequence(0L, floor((traced - 1) / {WORD_BITS}))"
    dense = f"transform({numbers}, word -> coalesce(by_word[word], 0L)) AS bit_vector"
    dated = vectors.join(F.broadcast(windows), "publisher")
    return as_declared(dated.selectExpr("*", dense), "traces")


def downstream_counts(
    alpha: float, traced: DataFrame, delivered: DataFrame, links: DataFrame, paths: DataFrame
) -> DataFrame:
    """POP's publisher profile: deliveries at and behind the far end of each link crossed."""
    crossed = traced.join(links, "tree").selectExpr(*KEY, "from_broker", "to_broker")
    behind = (
        delivered.join(traced, KEY)
        .join(paths.selectExpr("tree", "broker", "path"), ["tree", "broker"])
        .selectExpr(*KEY, "explode(path) AS to_broker", "deliveries")
        .groupBy(*KEY, "to_broker")
        .agg(F.expr("sum(deliveries) AS subscribers"))
    )
    met = together([*KEY, "to_broker"], crossed, behind).where("from_broker is not null")
    counted = met.fillna(0, ["subscribers"])
    table = _averaged(counted, alpha).selectExpr(
        "publisher",
        "from_broker AS broker",
        "to_broker AS neighbor",
        "publications",
        "subscribers_mean",
        "subscribers_running",
    )
    return as_declared(table, "downstream_counts")


def _averaged(counted: DataFrame, alpha: float) -> DataFrame:
    """Mean and running average over a link's publications; the first value counts as it is."""
    link = ("publisher", "from_broker", "to_broker")
    of_link = f"PARTITION BY {', '.join(link)}"
    aged = counted.selectExpr(
        *link,
        "subscribers",
        f"row_number() OVER ({of_link} ORDER BY sequence DESC) - 1 AS age",
        f"count(1) OVER ({of_link}) - 1 AS oldest",
    )
    share = f"pow({1.0 - alpha}D, age) * if(age = oldest, 1.0D, {alpha}D)"
    return aged.groupBy(*link).agg(
        F.expr("count(1) AS publications"),
        F.expr("avg(subscribers) AS subscribers_mean"),
        F.expr(f"sum({share} * subscribers) AS subscribers_running"),
    )

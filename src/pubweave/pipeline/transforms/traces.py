"""POP's and GRAPE's inputs: what became of each publisher's last publications.

A trace window are the publications among the last ``trace_length`` sequence numbers of a publisher
(as many more as the sampling leaves out). GRAPE asks each broker for a bit vector over them and for
its local deliveries (section 4.1); POP for the subscribers behind each link (section 3.1), a mean
and a running average that gives the newest publication a weight of 0.25.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pubweave.pipeline.schemas import as_declared
from pubweave.pipeline.transforms.publications import KEY
from pubweave.pipeline.words import WORD_BITS, bit_in_word, word_of


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
        F.min("sequence").alias("first_sequence"),
        F.max("sequence").alias("last_sequence"),
        F.count(F.lit(1)).alias("traced"),
    )
    by_sequence = Window.partitionBy("publisher").orderBy("sequence")
    position = (F.row_number().over(by_sequence) - 1).cast("long")
    delivered = deliveries.join(traced.select(*KEY, position.alias("position")), KEY)
    words = delivered.groupBy("publisher", "broker", word_of("position").alias("word")).agg(
        F.bit_or(bit_in_word("position")).alias("bits"),
        F.sum("deliveries").alias("deliveries"),
    )
    vectors = words.groupBy("publisher", "broker").agg(
        F.map_from_entries(F.collect_list(F.struct("word", "bits"))).alias("by_word"),
        F.sum(F.bit_count("bits")).alias("distinct_publications"),
        F.sum("deliveries").alias("local_deliveries"),
    )
    last_word = F.floor((F.col("traced") - 1) / WORD_BITS)
    dense = F.transform(
        F.sequence(F.lit(0).cast("long"), last_word),
        lambda word: F.coalesce(F.col("by_word")[word], F.lit(0).cast("long")),
    )
    return as_declared(
        vectors.join(F.broadcast(windows), "publisher").withColumn("bit_vector", dense), "traces"
    )


def downstream_counts(
    alpha: float, traced: DataFrame, delivered: DataFrame, links: DataFrame, paths: DataFrame
) -> DataFrame:
    """POP's publisher profile: deliveries at and behind the far end of each link crossed."""
    crossed = traced.join(links, "tree").select(*KEY, "from_broker", "to_broker")
    behind = (
        delivered.join(traced, KEY)
        .join(paths.select("tree", "broker", "path"), ["tree", "broker"])
        .select(*KEY, F.explode("path").alias("to_broker"), "deliveries")
        .groupBy(*KEY, "to_broker")
        .agg(F.sum("deliveries").alias("subscribers"))
    )
    counted = crossed.join(behind, [*KEY, "to_broker"], "left").fillna(0, ["subscribers"])
    table = _averaged(counted, alpha).select(
        "publisher",
        F.col("from_broker").alias("broker"),
        F.col("to_broker").alias("neighbor"),
        "publications",
        "subscribers_mean",
        "subscribers_running",
    )
    return as_declared(table, "downstream_counts")


def _averaged(counted: DataFrame, alpha: float) -> DataFrame:
    """Mean and running average over a link's publications; the first value counts as it is."""
    link = ["publisher", "from_broker", "to_broker"]
    newest_first = Window.partitionBy(*link).orderBy(F.desc("sequence"))
    age = F.row_number().over(newest_first) - 1
    is_first = F.count(F.lit(1)).over(Window.partitionBy(*link)) - 1 == F.col("age")
    share = F.pow(F.lit(1.0 - alpha), F.col("age")) * F.when(is_first, 1.0).otherwise(alpha)
    return (
        counted.withColumn("age", age)
        .withColumn("share", share)
        .groupBy(*link)
        .agg(
            F.count(F.lit(1)).alias("publications"),
            F.avg("subscribers").alias("subscribers_mean"),
            F.sum(F.col("share") * F.col("subscribers")).alias("subscribers_running"),
        )
    )

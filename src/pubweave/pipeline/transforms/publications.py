"""One row per publication: who received it, over which links, how often. The pipeline's main pass.

Everything that the papers count per publication follows from this frame, so all publications,
deliveries and hops are brought together once. The aggregates are numbers of fixed width (Spark
keeps those in a hash table and sorts the others), hence hashes in place of names:

- ``receivers_0``, ...: the brokers with local deliveries, one bit each (see `words`);
- ``client_digest``: the clients it was delivered to, as the XOR of their hashes;
- ``link_digest``: the links it crossed, likewise; ``tree`` names all publications of a topic that
  left the same broker over the same links to the same receivers.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from pubweave.pipeline.schemas import columns, local_frame
from pubweave.pipeline.words import WORD_BITS, bit_in_word, has_bit, word_of

KEY = ["publisher", "sequence"]


def broker_numbers(spark: SparkSession, brokers: Sequence[str]) -> DataFrame:
    """Brokers numbered by their ids, for bit sets."""
    rows = [(broker, number) for number, broker in enumerate(sorted(brokers))]
    return local_frame(spark, rows, columns(broker=StringType(), number=LongType()))


def receiver_columns(broker_count: int) -> list[str]:
    words = max(1, -(-broker_count // WORD_BITS))
    return [f"receivers_{word}" for word in range(words)]


def publication_facts(
    publications: DataFrame, deliveries: DataFrame, hops: DataFrame, brokers: DataFrame,
    broker_count: int,
) -> DataFrame:  # fmt: skip
    """All publications; those without a record of their own have ``recorded`` = 0."""
    masks = receiver_columns(broker_count)
    parts = [
        _from_publications(publications, masks),
        _from_deliveries(deliveries, brokers, masks),
        _from_hops(hops, masks),
    ]
    everything = parts[0].unionByName(parts[1]).unionByName(parts[2])
    facts = everything.groupBy(*KEY).agg(
        F.sum("recorded").alias("recorded"),
        F.max("topic_hash").alias("topic_hash"),
        F.max("root_hash").alias("root_hash"),
        F.max("published_at").alias("published_at"),
        F.max("weight").alias("weight"),
        *(F.bit_or(mask).alias(mask) for mask in masks),
        F.sum("deliveries").alias("deliveries"),
        F.bit_xor("client_digest").alias("client_digest"),
        F.max("delivered_at").alias("last_delivered_at"),
        F.sum("hops").alias("hops"),
        F.bit_xor("link_digest").alias("link_digest"),
    )
    return facts.withColumn(
        "tree", F.xxhash64("topic_hash", "root_hash", "hops", "link_digest", *masks)
    )


def decoded(
    sets: DataFrame, masks: Sequence[str], brokers: DataFrame, keep: Sequence[str]
) -> DataFrame:
    """One row per set and member: the columns ``keep`` and the member's ``broker``."""
    placed = brokers.select(
        "broker",
        word_of("number").alias("word"),
        F.col("number").bitwiseAND(F.lit(WORD_BITS - 1)).alias("place"),
    )
    word = F.coalesce(*(F.when(F.col("word") == i, F.col(mask)) for i, mask in enumerate(masks)))
    return sets.join(F.broadcast(placed), has_bit(word, "place")).select(*keep, "broker")


def _from_publications(publications: DataFrame, masks: Sequence[str]) -> DataFrame:
    return publications.select(
        *KEY,
        F.lit(1).cast("long").alias("recorded"),
        F.xxhash64("topic").alias("topic_hash"),
        F.xxhash64("broker").alias("root_hash"),
        "published_at",
        (1.0 / F.col("sample_ratio")).alias("weight"),
        *(_nothing(mask) for mask in masks),
        _nothing("deliveries"),
        _nothing("client_digest"),
        _unknown("delivered_at", "double"),
        _nothing("hops"),
        _nothing("link_digest"),
    )


def _from_deliveries(deliveries: DataFrame, brokers: DataFrame, masks: Sequence[str]) -> DataFrame:
    placed = brokers.select(
        "broker",
        *(
            F.when(word_of("number") == word, bit_in_word("number")).otherwise(0).alias(mask)
            for word, mask in enumerate(masks)
        ),
    )
    return deliveries.join(F.broadcast(placed), "broker").select(
        *KEY,
        _nothing("recorded"),
        _unknown("topic_hash", "long"),
        _unknown("root_hash", "long"),
        _unknown("published_at", "double"),
        _unknown("weight", "double"),
        *masks,
        F.lit(1).cast("long").alias("deliveries"),
        F.xxhash64("client").alias("client_digest"),
        "delivered_at",
        _nothing("hops"),
        _nothing("link_digest"),
    )


def _from_hops(hops: DataFrame, masks: Sequence[str]) -> DataFrame:
    return hops.select(
        *KEY,
        _nothing("recorded"),
        _unknown("topic_hash", "long"),
        _unknown("root_hash", "long"),
        _unknown("published_at", "double"),
        _unknown("weight", "double"),
        *(_nothing(mask) for mask in masks),
        _nothing("deliveries"),
        _nothing("client_digest"),
        _unknown("delivered_at", "double"),
        F.lit(1).cast("long").alias("hops"),
        F.xxhash64("from_broker", "to_broker").alias("link_digest"),
    )


def _nothing(name: str) -> Column:
    return F.lit(0).cast("long").alias(name)


def _unknown(name: str, type_: str) -> Column:
    return F.lit(None).cast(type_).alias(name)

"""One row per publication: who received it, over which links, how often. The pipeline's main pass.

Everything that the papers count per publication follows from this frame, so all publications,
deliveries and hops are brought together once. The aggregates are numbers of fixed width (Spark
keeps those in a hash table and sorts the others), hence hashes in place of names:

- ``receivers_0``, ...: the brokers with local deliveries, one bit each (see `frames/bitsets`);
- ``client_digest``: the clients it was delivered to, as the XOR of their hashes;
- ``link_digest``: the links it crossed, likewise; ``tree`` names all publications of a topic that
  left the same broker over the same links to the same receivers.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from pubweave.pipeline.frames.bitsets import WORD_BITS, bit_in_word, has_bit, word_of
from pubweave.pipeline.frames.schemas import columns, local_frame

KEY = ["publisher", "sequence"]
_MERGES = {
    "recorded": "sum", "topic_hash": "max", "root_hash": "max", "published_at": "max",
    "weight": "max", "deliveries": "sum", "client_digest": "bit_xor", "last_delivered_at": "max",
    "hops": "sum", "link_digest": "bit_xor",
}  # fmt: skip
"""How what the records of one publication say of it becomes one row, beside the receivers."""
_NOTHING = {"sum": "0L", "bit_or": "0L", "bit_xor": "0L", "max": "NULL"}


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
    merges = {**_MERGES, **dict.fromkeys(masks, "bit_or")}
    facts = everything.groupBy(*KEY).agg(
        *(F.expr(f"{merge}({name}) AS {name}") for name, merge in merges.items())
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
    return _part(
        publications,
        masks,
        recorded="1L",
        topic_hash="xxhash64(topic)",
        root_hash="xxhash64(broker)",
        published_at="published_at",
        weight="1.0D / sample_ratio",
    )


def _from_deliveries(deliveries: DataFrame, brokers: DataFrame, masks: Sequence[str]) -> DataFrame:
    placed = brokers.select(
        "broker",
        *(
            F.when(word_of("number") == word, bit_in_word("number")).otherwise(0).alias(mask)
            for word, mask in enumerate(masks)
        ),
    )
    return _part(
        deliveries.join(F.broadcast(placed), "broker"),
        masks,
        **{mask: mask for mask in masks},
        deliveries="1L",
        client_digest="xxhash64(client)",
        last_delivered_at="delivered_at",
    )


def _from_hops(hops: DataFrame, masks: Sequence[str]) -> DataFrame:
    return _part(hops, masks, hops="1L", link_digest="xxhash64(from_broker, to_broker)")


def _part(records: DataFrame, masks: Sequence[str], **known: str) -> DataFrame:
    """What one kind of records knows of publications, as texts; it adds nothing to the rest."""
    # As text: columns built call by call would cross to the JVM hundreds of times.
    nothing = {name: _NOTHING[merge] for name, merge in _MERGES.items()}
    texts = {**nothing, **dict.fromkeys(masks, _NOTHING["bit_or"]), **known}
    return records.selectExpr(*KEY, *(f"{text} AS {name}" for name, text in texts.items()))

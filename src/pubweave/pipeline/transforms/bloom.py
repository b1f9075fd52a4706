"""What CI's brokers would have estimated from each other's Bloom filters, beside the truth.

Each broker caches the names of its last notifications and sends a Bloom filter of them. The
receiving broker counts those of its own entries that the filter affirms: never too few, some too
many. Both caches cover the same publications, the last ones of the window.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.schemas import as_declared
from pubweave.pipeline.transforms.publications import KEY, decoded
from pubweave.pipeline.words import WORD_BITS, bit_in_word, has_bit, word_of


def bloom_estimates(cached: DataFrame, bits: int, hashes: int) -> DataFrame:
    """For every ordered pair of brokers with a cache: cached, common, affirmed."""
    filters = _filters(cached, bits, hashes)
    entries = cached.select("entry").distinct()
    affirmed = entries.join(F.broadcast(filters), _affirms(bits, hashes)).select("entry", "other")
    own = cached.groupBy("broker").agg(F.count(F.lit(1)).alias("cached"))
    estimate = cached.join(affirmed, "entry").groupBy("broker", "other")
    counted = estimate.agg(F.count(F.lit(1)).alias("bloom_estimate"))
    holders = cached.select("entry", F.col("broker").alias("other"))
    common = cached.join(holders, "entry").groupBy("broker", "other")
    exact = common.agg(F.count(F.lit(1)).alias("common"))
    pairs = own.join(own.select(F.col("broker").alias("other")), F.expr("broker != other"))
    table = pairs.join(counted, ["broker", "other"], "left").join(
        exact, ["broker", "other"], "left"
    )
    return as_declared(table.fillna(0, ["bloom_estimate", "common"]), "bloom_estimates")


def newest(
    facts: DataFrame, masks: Sequence[str], publications: int, old: DataFrame | None
) -> DataFrame:
    """The last publications of the overlay, of the facts and of ``old`` ones."""
    recorded = facts.where("recorded > 0").select("published_at", *KEY, "root_hash", *masks)
    together = recorded if old is None else recorded.unionByName(old)
    order = [F.desc("published_at"), F.desc("publisher"), F.desc("sequence")]
    return together.orderBy(*order).limit(publications)


def bloom_caches(newest: DataFrame, masks: Sequence[str], brokers: DataFrame) -> DataFrame:
    """broker, entry: which of the last publications each broker published or consumed."""
    last = newest.select(F.xxhash64(*KEY).alias("entry"), "root_hash", *masks)
    named = brokers.select("broker", F.xxhash64("broker").alias("root_hash"))
    published = last.join(F.broadcast(named), "root_hash").select("entry", "broker")
    return published.unionByName(decoded(last, masks, brokers, ["entry"])).distinct()


def _place(entry: Column, hash_: int, bits: int) -> Column:
    return F.pmod(F.xxhash64(F.lit(hash_), entry), F.lit(bits).cast("long"))


def _filters(cached: DataFrame, bits: int, hashes: int) -> DataFrame:
    """Each broker's filter as an array of words."""
    places = F.array(*(_place(F.col("entry"), hash_, bits) for hash_ in range(hashes)))
    words = (
        cached.select(F.col("broker").alias("other"), F.explode(places).alias("place"))
        .groupBy("other", word_of("place").alias("word"))
        .agg(F.bit_or(bit_in_word("place")).alias("bits"))
    )
    by_word = F.map_from_entries(F.collect_list(F.struct("word", "bits")))
    last_word = (bits - 1) // WORD_BITS
    dense = F.transform(
        F.sequence(F.lit(0).cast("long"), F.lit(last_word).cast("long")),
        lambda word: F.coalesce(F.col("by_word")[word], F.lit(0).cast("long")),
    )
    return (
        words.groupBy("other").agg(by_word.alias("by_word")).select("other", dense.alias("filter"))
    )


def _affirms(bits: int, hashes: int) -> Column:
    affirms = F.lit(True)
    for hash_ in range(hashes):
        place = _place(F.col("entry"), hash_, bits)
        word = F.get("filter", word_of(place).cast("int"))
        affirms &= has_bit(word, place.bitwiseAND(F.lit(WORD_BITS - 1)))
    return affirms

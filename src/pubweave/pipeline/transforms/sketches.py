"""Common interest by theta sketches, where exact sets would be too many, and as CI's brokers do.

A sketch keeps the 2^k smallest hashes of a broker's notifications; two sketches intersect without
looking at the notifications again. The error is measured against the exact count beside it.

`bloom_estimates`: each broker caches the names of its last notifications and sends a Bloom filter
of them. The receiving broker counts those of its own entries that the filter affirms: never too
few, some too many. Both caches cover the same publications, the last ones of the window.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.frames.bitsets import WORD_BITS, bit_in_word, word_of
from pubweave.pipeline.frames.mergeable import THETA, Sums, together
from pubweave.pipeline.frames.schemas import as_declared
from pubweave.pipeline.transforms.publications import KEY, decoded


def interest_sketches(
    publications: DataFrame, deliveries: DataFrame, log2_entries: int
) -> DataFrame:
    """One theta sketch per broker over what its clients published or consumed: see `merging`."""
    seen = publications.select("broker", F.xxhash64(*KEY).alias("notification")).unionByName(
        deliveries.select("broker", F.xxhash64(*KEY).alias("notification"))
    )
    return seen.groupBy("broker").agg(
        F.theta_sketch_agg("notification", log2_entries).alias("sketch")
    )


def merging(log2_entries: int) -> Sums:
    """How sketches of the same broker over different notifications merge."""
    return Sums(("broker",), {"sketch": THETA}, log2_entries)


def pair_estimates(sketches: DataFrame, log2_entries: int) -> DataFrame:
    """broker_a < broker_b, the estimate of what they share, and its standard deviation.

    An intersection keeps each common notification with the probability theta of the larger set,
    2^k / size: the count that is scaled up is binomial.
    """
    sized = sketches.withColumn("size", F.theta_sketch_estimate("sketch").cast("double"))
    one = sized.toDF("broker_a", "sketch_a", "size_a")
    other = sized.toDF("broker_b", "sketch_b", "size_b")
    estimate = F.theta_sketch_estimate(F.theta_intersection("sketch_a", "sketch_b"))
    larger = F.greatest("size_a", "size_b")
    spread = F.greatest(larger / float(2**log2_entries) - 1.0, F.lit(0.0))
    return (
        one.join(F.broadcast(other), F.col("broker_a") < F.col("broker_b"))
        .withColumn("theta_estimate", estimate.cast("double"))
        .withColumn("theta_std", F.sqrt(F.col("theta_estimate") * spread))
        .select("broker_a", "broker_b", "theta_estimate", "theta_std")
    )


PERCENTS = (50, 95, 99)


def sketched(column: str, kll_k: int, alias: str = "sketch") -> Column:
    return F.kll_sketch_agg_double(F.col(column), kll_k).alias(alias)


def quantile_columns(sketch: str, name: str) -> list[str]:
    """``<name>_ms_p50``, ``_p95`` and ``_p99`` of a sketch, as texts; null where there is none."""
    return [
        f"kll_sketch_get_quantile_double({sketch}, {percent / 100.0}D) AS {name}_ms_p{percent}"
        for percent in PERCENTS
    ]


def bloom_estimates(cached: DataFrame, bits: int, hashes: int) -> DataFrame:
    """For every ordered pair of brokers with a cache: cached, common, affirmed."""
    filters = _filters(cached, bits, hashes)
    entries = cached.selectExpr("entry").distinct()
    affirmed = entries.join(F.broadcast(filters), F.expr(_affirms(bits, hashes)))
    # A filter affirms all that is in it, so one look at what it affirms counts both.
    answers = together(
        ["entry", "other"],
        affirmed.selectExpr("entry", "other", "1 AS is_affirmed"),
        cached.selectExpr("entry", "broker AS other", "1 AS is_there"),
    )
    counted = (
        cached.join(answers, "entry")
        .groupBy("broker", "other")
        .agg(F.expr("count(is_affirmed) AS bloom_estimate"), F.expr("count(is_there) AS common"))
    )
    own = cached.groupBy("broker").agg(F.expr("count(1) AS cached"))
    pairs = own.join(own.selectExpr("broker AS other"), F.expr("broker != other"))
    table = together(["broker", "other"], pairs, counted).where("cached is not null")
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


def _place(hash_: int, bits: int) -> str:
    return f"pmod(xxhash64({hash_}, entry), {bits}L)"


def _filters(cached: DataFrame, bits: int, hashes: int) -> DataFrame:
    """Each broker's filter as an array of words."""
    places = ", ".join(_place(hash_, bits) for hash_ in range(hashes))
    words = (
        cached.selectExpr("broker AS other", f"explode(array({places})) AS place")
        .groupBy("other", word_of("place").alias("word"))
        .agg(F.bit_or(bit_in_word("place")).alias("bits"))
    )
    by_word = F.expr("map_from_entries(collect_list(struct(word, bits))) AS by_word")
    last_word = (bits - 1) // WORD_BITS
    dense = f"transform(sequence(0L, {last_word}L), word -> coalesce(by_word[word], 0L))"
    return words.groupBy("other").agg(by_word).selectExpr("other", f"{dense} AS filter")


def _affirms(bits: int, hashes: int) -> str:
    """Whether a filter has all places of an entry."""
    places = [_place(hash_, bits) for hash_ in range(hashes)]
    return " and ".join(
        f"(shiftright(get(filter, int(shiftright({place}, 6))), int({place} & 63)) & 1L) = 1L"
        for place in places
    )

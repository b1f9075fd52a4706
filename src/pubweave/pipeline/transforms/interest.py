"""Interest of brokers, and what pairs and triples of them have in common (CI), exactly.

A broker's interest are the notifications that its own clients published or consumed: the root and
the receivers of a delivery tree, not the relays. Publications with the same such set are counted
together, so pairs and triples are formed once per set. The sets come as bits, one per broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.schemas import as_declared
from pubweave.pipeline.transforms.publications import decoded
from pubweave.pipeline.words import bit_in_word, word_of


def interest_sets(sets: DataFrame, masks: Sequence[str], brokers: DataFrame) -> DataFrame:
    """Distinct sets {P(n)} and S(n) together, with how many publications have them."""
    roots = brokers.select(
        F.xxhash64("broker").alias("root_hash"),
        word_of("number").alias("root_word"),
        bit_in_word("number").alias("root_bit"),
    )
    with_root = sets.join(F.broadcast(roots), "root_hash")
    joined = [
        F.col(mask)
        .bitwiseOR(F.when(F.col("root_word") == i, F.col("root_bit")).otherwise(0))
        .alias(mask)
        for i, mask in enumerate(masks)
    ]
    return (
        with_root.select(*joined, "publications")
        .groupBy(*masks)
        .agg(F.sum("publications").alias("notifications"))
        .withColumn("set", F.xxhash64(*masks))
    )


def interest_members(interests: DataFrame, masks: Sequence[str], brokers: DataFrame) -> DataFrame:
    """One row per set and broker in it."""
    return decoded(interests, masks, brokers, ["set", "notifications"])


def pair_counts(members: DataFrame) -> DataFrame:
    """I(i, j) for every pair that shares anything: broker_a < broker_b, notifications."""
    one = members.select("set", F.col("broker").alias("broker_a"), "notifications")
    other = members.select("set", F.col("broker").alias("broker_b"))
    return (
        one.join(other, "set")
        .where("broker_a < broker_b")
        .groupBy("broker_a", "broker_b")
        .agg(F.sum("notifications").alias("notifications"))
    )


def broker_interest(
    brokers: DataFrame,
    sets: DataFrame,
    receivers: DataFrame,
    members: DataFrame,
    pairs: DataFrame,
    near: DataFrame,
) -> DataFrame:
    """Every broker's own interest, and phi of its neighborhood (CI Eq. 6)."""
    named = brokers.select("broker", F.xxhash64("broker").alias("root_hash"))
    published = (
        sets.join(F.broadcast(named), "root_hash")
        .groupBy("broker")
        .agg(F.sum("publications").alias("published"))
    )
    consumed = (
        receivers.join(sets.select("tree", "publications"), "tree")
        .groupBy("broker")
        .agg(F.sum("publications").alias("consumed"))
    )
    own = members.groupBy("broker").agg(F.sum("notifications").alias("notifications"))
    overlaps = _overlaps(pairs, near)
    table = reduce(
        lambda left, right: left.join(right, "broker", "left"),
        (published, consumed, own, overlaps),
        brokers.select("broker"),
    )
    counts = ("published", "consumed", "notifications", "neighbors_near")
    filled = table.fillna(0, list(counts))
    return as_declared(filled.withColumn("neighborhood_overlap", _phi()), "broker_interest")


def common_interest(pairs: DataFrame, theta: DataFrame) -> DataFrame:
    """Exact pairs with what the theta sketches say of them."""
    together = pairs.join(theta, ["broker_a", "broker_b"], "left").withColumn(
        "theta_error", F.col("theta_estimate") - F.col("notifications")
    )
    return as_declared(together, "common_interest")


def common_interest_triples(
    members: DataFrame, pairs: DataFrame, interest: DataFrame, ways: DataFrame
) -> DataFrame:
    """I(i, k, j) for the triples that CI asks for, beside its estimate."""
    i = members.select("set", F.col("broker"), "notifications")
    k = members.select("set", F.col("broker").alias("via"))
    j = members.select("set", F.col("broker").alias("far"))
    # The two ends of a link first: there are as many links as brokers, but far more pairs.
    links = ways.select("via", "far").distinct()
    exact = (
        k.join(F.broadcast(links), "via")
        .join(j, ["set", "far"])
        .join(i, "set")
        .join(F.broadcast(ways), ["broker", "via", "far"])
        .groupBy("broker", "via", "far")
        .agg(F.sum("notifications").alias("notifications"))
    )
    both_ways = pairs.select("broker_a", "broker_b", "notifications").unionByName(
        pairs.select(F.col("broker_b").alias("broker_a"), F.col("broker_a").alias("broker_b"),
                     "notifications")
    )  # fmt: skip
    with_far = both_ways.toDF("broker", "far", "i_far")
    with_via = both_ways.toDF("broker", "via", "i_via")
    phi = interest.select("broker", "neighborhood_overlap")
    table = (
        ways.join(exact, ["broker", "via", "far"], "left")
        .join(with_far, ["broker", "far"], "left")
        .join(with_via, ["broker", "via"], "left")
        .join(phi, "broker", "left")
        .fillna(0, ["notifications", "i_far", "i_via"])
        .withColumn("estimate", F.when(F.col("neighborhood_overlap").isNotNull(),
                    F.least("neighborhood_overlap", "i_far", "i_via")))
    )  # fmt: skip
    return as_declared(table, "common_interest_triples")


def _overlaps(pairs: DataFrame, near: DataFrame) -> DataFrame:
    """For each broker, the pairs it forms with the brokers near it, summed."""
    key = ["broker_a", "broker_b"]
    return (
        near.withColumn("broker_a", F.least("broker", "other"))
        .withColumn("broker_b", F.greatest("broker", "other"))
        .join(pairs, key, "left")
        .groupBy("broker")
        .agg(
            F.count(F.lit(1)).alias("neighbors_near"),
            F.coalesce(F.sum("notifications"), F.lit(0)).alias("overlap"),
        )
    )


def _phi() -> Column:
    average = (F.col("overlap") - F.col("notifications")) / (F.col("neighbors_near") - 1)
    return F.when(F.col("neighbors_near") >= 2, F.greatest(average, F.lit(0.0)))

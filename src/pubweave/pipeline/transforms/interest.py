"""Interest of brokers, and what pairs and triples of them have in common (CI), exactly.

A broker's interest are the notifications that its own clients published or consumed: the root and
the receivers of a delivery tree, not the relays. Publications with the same such set are counted
together, so pairs and triples are formed once per set. The sets come as bits, one per broker.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.frames.bitsets import bit_in_word, word_of
from pubweave.pipeline.frames.mergeable import together
from pubweave.pipeline.frames.schemas import as_declared
from pubweave.pipeline.transforms.publications import decoded

_AVERAGE = "(overlap - notifications) / (neighbors_near - 1)"
_PHI = f"if(neighbors_near >= 2, greatest({_AVERAGE}, 0.0D), null)"


def interest_sets(sets: DataFrame, masks: Sequence[str], brokers: DataFrame) -> DataFrame:
    """Distinct sets {P(n)} and S(n) together, with how many publications have them."""
    roots = brokers.select(
        F.xxhash64("broker").alias("root_hash"),
        word_of("number").alias("root_word"),
        bit_in_word("number").alias("root_bit"),
    )
    with_root = sets.join(F.broadcast(roots), "root_hash")
    joined = [
        f"{mask} | if(root_word = {i}, root_bit, 0L) AS {mask}" for i, mask in enumerate(masks)
    ]
    return (
        with_root.selectExpr(*joined, "publications")
        .groupBy(*masks)
        .agg(F.expr("sum(publications) AS notifications"))
        .withColumn("set", F.xxhash64(*masks))
    )


def interest_members(interests: DataFrame, masks: Sequence[str], brokers: DataFrame) -> DataFrame:
    """One row per set and broker in it."""
    return decoded(interests, masks, brokers, ["set", "notifications"])


def pair_counts(members: DataFrame) -> DataFrame:
    """I(i, j) for every pair that shares anything: broker_a < broker_b, notifications."""
    one = members.selectExpr("set", "broker AS broker_a", "notifications")
    other = members.selectExpr("set", "broker AS broker_b")
    return (
        one.join(other, "set")
        .where("broker_a < broker_b")
        .groupBy("broker_a", "broker_b")
        .agg(F.expr("sum(notifications) AS notifications"))
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
    named = brokers.selectExpr("broker", "xxhash64(broker) AS root_hash")
    published = (
        sets.join(F.broadcast(named), "root_hash")
        .groupBy("broker")
        .agg(F.expr("sum(publications) AS published"))
    )
    consumed = (
        receivers.join(sets.selectExpr("tree", "publications"), "tree")
        .groupBy("broker")
        .agg(F.expr("sum(publications) AS consumed"))
    )
    own = members.groupBy("broker").agg(F.expr("sum(notifications) AS notifications"))
    overlaps = _overlaps(pairs, near)
    recorded = brokers.selectExpr("broker", "true AS is_known")
    table = together(["broker"], recorded, published, consumed, own, overlaps).where("is_known")
    counts = ("published", "consumed", "notifications", "neighbors_near")
    filled = table.fillna(0, list(counts))
    return as_declared(filled.selectExpr("*", f"{_PHI} AS neighborhood_overlap"), "broker_interest")


def common_interest(pairs: DataFrame, theta: DataFrame) -> DataFrame:
    """Exact pairs with what the theta sketches say of them."""
    beside = together(["broker_a", "broker_b"], pairs, theta).where("notifications is not null")
    error = "theta_estimate - notifications AS theta_error"
    return as_declared(beside.selectExpr("*", error), "common_interest")


def common_interest_triples(
    members: DataFrame, pairs: DataFrame, interest: DataFrame, ways: DataFrame
) -> DataFrame:
    """I(i, k, j) for the triples that CI asks for, beside its estimate."""
    i = members.selectExpr("set", "broker", "notifications")
    k = members.selectExpr("set", "broker AS via")
    j = members.selectExpr("set", "broker AS far")
    # The two ends of a link first: there are as many links as brokers, but far more pairs.
    links = ways.selectExpr("via", "far").distinct()
    exact = (
        k.join(F.broadcast(links), "via")
        .join(j, ["set", "far"])
        .join(i, "set")
        .join(F.broadcast(ways), ["broker", "via", "far"])
        .groupBy("broker", "via", "far")
        .agg(F.expr("sum(notifications) AS notifications"))
    )
    both_ways = pairs.selectExpr("broker_a", "broker_b", "notifications").unionByName(
        pairs.selectExpr("broker_b AS broker_a", "broker_a AS broker_b", "notifications")
    )
    with_far = both_ways.toDF("broker", "far", "i_far")
    with_via = both_ways.toDF("broker", "via", "i_via")
    phi = interest.selectExpr("broker", "neighborhood_overlap")
    table = (
        together(["broker", "via", "far"], ways, exact)
        .join(with_far, ["broker", "far"], "left")
        .join(with_via, ["broker", "via"], "left")
        .join(phi, "broker", "left")
        .fillna(0, ["notifications", "i_far", "i_via"])
    )
    least = "least(neighborhood_overlap, i_far, i_via)"
    estimate = f"if(neighborhood_overlap is null, null, {least}) AS estimate"
    return as_declared(table.selectExpr("*", estimate), "common_interest_triples")


def _overlaps(pairs: DataFrame, near: DataFrame) -> DataFrame:
    """For each broker, the pairs it forms with the brokers near it, summed."""
    key = ["broker_a", "broker_b"]
    ends = ("least(broker, other) AS broker_a", "greatest(broker, other) AS broker_b")
    return (
        near.selectExpr("broker", *ends)
        .join(pairs, key, "left")
        .groupBy("broker")
        .agg(
            F.expr("count(1) AS neighbors_near"),
            F.expr("coalesce(sum(notifications), 0L) AS overlap"),
        )
    )

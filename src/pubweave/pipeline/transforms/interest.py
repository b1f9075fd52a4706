"""Interest of brokers, and what pairs and triples of them have in common (CI), exactly.

A broker's interest are the notifications that its own clients published or consumed: the root and
the receivers of a delivery tree, not the relays. Publications with the same such set are counted
together, so pairs and triples are formed once per set. The sets come as bits, one per broker.

Who is near whom is a search on the driver over the links at the window's end: as a query it would
be a join per hop, each slower than the whole search.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from pubweave.pipeline.frames.bitsets import bit_in_word, word_of
from pubweave.pipeline.frames.mergeable import together
from pubweave.pipeline.frames.schemas import as_declared, columns, local_frame
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


Neighbors = Mapping[str, set[str]]


def distances(spark: SparkSession, links: DataFrame, hops: int) -> DataFrame:
    """Pairs of brokers at most ``hops`` apart, both ways: broker, other, hops."""
    neighbors = _present(links)
    rows = [
        (broker, other, distance)
        for broker in sorted(neighbors)
        for other, distance in sorted(_reached(broker, neighbors, hops).items())
        if other != broker
    ]
    schema = columns(broker=StringType(), other=StringType(), hops=LongType())
    return local_frame(spark, rows, schema)


def longest_path(links: DataFrame, brokers: int) -> int:
    """A bound on the hops of any delivery tree: exact where the links make a tree.

    All links count that there ever were: a tree may be from before a transformation.
    """
    pairs = [(row["broker_a"], row["broker_b"]) for row in links.collect()]
    neighbors = _neighbors(pairs)
    if not neighbors:
        return 1
    if len(pairs) >= len(neighbors):
        return max(brokers, len(neighbors))
    return max(max(_reached(b, neighbors, len(neighbors)).values()) for b in sorted(neighbors))


def ways(spark: SparkSession, links: DataFrame, hops: int) -> DataFrame:
    """The triples CI asks for: via is a neighbor of far and one hop nearer to the broker."""
    neighbors = _present(links)
    rows = [
        (broker, via, far, distance)
        for broker in sorted(neighbors)
        for reached in (_reached(broker, neighbors, hops),)
        for far, distance in sorted(reached.items())
        for via in sorted(neighbors[far])
        if distance >= 2 and reached.get(via) == distance - 1
    ]
    schema = columns(broker=StringType(), via=StringType(), far=StringType(), hops=LongType())
    return local_frame(spark, rows, schema)


def _present(links: DataFrame) -> Neighbors:
    """Who is linked to whom now. Frames that are held come to the driver without a job."""
    rows = links.select("broker_a", "broker_b", "is_present").collect()
    return _neighbors((row["broker_a"], row["broker_b"]) for row in rows if row["is_present"])


def _neighbors(pairs: Iterable[tuple[str, str]]) -> Neighbors:
    found: dict[str, set[str]] = defaultdict(set)
    for a, b in pairs:
        found[a].add(b)
        found[b].add(a)
    return found


def _reached(broker: str, neighbors: Neighbors, hops: int) -> dict[str, int]:
    """All brokers within some hops, with their distance; the broker itself at 0."""
    found = {broker: 0}
    edge = deque([broker])
    while edge:
        at = edge.popleft()
        if found[at] == hops:
            break
        for neighbor in sorted(neighbors[at]):
            if neighbor not in found:
                found[neighbor] = found[at] + 1
                edge.append(neighbor)
    return found

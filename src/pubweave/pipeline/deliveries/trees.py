"""Delivery trees: the distinct ways publications took, their links, receivers, paths and cost.

Publications of one topic that left the same broker over the same links to the same receivers share
a tree (see `publications`); the papers' costs are computed once per tree and weighted. The links of
a tree are those of one of its publications.

**Costs.** CI Eq. 1 adds up the processing cost p_v of every broker in a delivery tree and the
communication cost c_e of every link; Eq. 2 sums over all publications. DYNATOPS counts the brokers
that only relay (the root is none) and, for every receiving broker, the delay from the root; its
Eqs. 1 to 4 sum both over publications, Eq. 5 weighs them. The trees are those that publications
really took, so Eqs. 1 and 2 hold through changes of subscriptions and of the topology. c_e is half
the median round trip, p_v the mean of queueing and matching, both in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.frames.mergeable import MAX, MIN, SUM, Sums, together
from pubweave.pipeline.frames.schemas import as_declared
from pubweave.pipeline.transforms.publications import KEY, decoded


def tree_sets(facts: DataFrame, masks: Sequence[str]) -> DataFrame:
    """One row per tree: hashes of topic and root, receivers as bits, how many took it."""
    return (
        facts.where("recorded > 0")
        .groupBy("tree")
        .agg(
            F.max("topic_hash").alias("topic_hash"),
            F.max("root_hash").alias("root_hash"),
            *(F.max(mask).alias(mask) for mask in masks),
            F.count(F.lit(1)).alias("publications"),
            F.sum("weight").alias("weight"),
            F.min(F.xxhash64(*KEY)).alias("example_hash"),
        )
    )


def merging(masks: Sequence[str]) -> Sums:
    """How the sets of different publications merge."""
    same = dict.fromkeys(("topic_hash", "root_hash", *masks), MAX)
    counted = {"publications": SUM, "weight": SUM}
    return Sums(("tree",), {**same, **counted, "example_hash": MIN})


def tree_receivers(sets: DataFrame, masks: Sequence[str], brokers: DataFrame) -> DataFrame:
    """The brokers with local deliveries, by tree."""
    return as_declared(decoded(sets, masks, brokers, ["tree"]), "tree_receivers")


def examples(sets: DataFrame, facts: DataFrame) -> DataFrame:
    """One publication of each tree that crossed a link, if it is among the facts."""
    return (
        facts.where("recorded > 0 and hops > 0")
        .withColumn("example_hash", F.xxhash64(*KEY))
        .join(sets.select("tree", "example_hash"), ["tree", "example_hash"])
        .select("tree", "example_hash", *KEY)
    )


def example_links(
    sets: DataFrame, examples: DataFrame, hops: DataFrame, old: DataFrame | None
) -> DataFrame:
    """The links of each tree's example: every broker has one parent.

    ``old`` has those of trees whose example is not among the facts.
    """
    first_hop = F.struct("received_at", "from_broker")
    links = (
        hops.join(examples, KEY)
        .groupBy("tree", "example_hash", "to_broker")
        .agg(F.min_by("from_broker", first_hop).alias("from_broker"))
    )
    if old is None:
        return links
    wanted = sets.select("tree", "example_hash")
    return links.unionByName(old.join(wanted, ["tree", "example_hash"], "left_semi"))


def tree_links(links: DataFrame, roots: DataFrame) -> DataFrame:
    """The links of each tree, away from its root."""
    # A root that gets its own publication back is still the root.
    away = links.join(roots, F.expr("tree = root_tree and to_broker = root_broker"), "left_anti")
    return as_declared(away, "tree_links")


def tree_roots(sets: DataFrame, brokers: DataFrame) -> DataFrame:
    """The broker that each tree's publications left from."""
    named = brokers.select(F.col("broker").alias("root_broker"),
                           F.xxhash64("broker").alias("root_hash"))  # fmt: skip
    return sets.join(F.broadcast(named), "root_hash").select(
        F.col("tree").alias("root_tree"), "root_broker"
    )


def priced(links: DataFrame, link_costs: DataFrame) -> DataFrame:
    """Directed links with the cost of the undirected link; a link without a price costs nothing."""
    costs = link_costs.selectExpr("broker_a", "broker_b", "cost_ms AS price_ms")
    of_link = (
        "broker_a = least(from_broker, to_broker) and broker_b = greatest(from_broker, to_broker)"
    )
    return links.join(F.broadcast(costs), F.expr(of_link), "left").selectExpr(
        "tree", "from_broker", "to_broker", "coalesce(price_ms, 0.0D) AS cost_ms"
    )


# Paths of delivery trees: from every broker that a tree reaches up to its root, with the delay.
#
# Two ways to the same frame. With few brokers, each tree becomes one row with a map from broker to
# parent, and everybody walks up in it: one query without a join per step, O(brokers^2 * depth)
# steps per tree. With many brokers that square counts, and pointer jumping takes over: O(brokers *
# log depth) rows per tree, in log2(depth) joins.


FEW_BROKERS = 64


def tree_paths(
    deepest: int, brokers: int, links: DataFrame, roots: DataFrame, link_costs: DataFrame
) -> DataFrame:
    """For every broker that a tree reaches: ``delay_ms`` from the root, and the ``path``.

    The path lists the brokers from this one up to the root, without the root. No tree has more
    than ``deepest`` links from the root to a broker.
    """
    find = _by_walking if brokers <= FEW_BROKERS else _by_jumping
    return find(deepest, links, roots, link_costs)


def _by_walking(
    deepest: int, links: DataFrame, roots: DataFrame, link_costs: DataFrame
) -> DataFrame:
    up = "struct(to_broker, struct(from_broker, cost_ms) AS up)"
    parents = priced(links, link_costs).groupBy("tree").agg(F.expr(f"collect_list({up}) AS links"))
    tops = roots.selectExpr("root_tree AS tree", "root_broker")
    trees = together(["tree"], tops, parents).where("root_broker is not null")
    mapped = trees.selectExpr(
        "tree", "root_broker",
        "map_from_entries(coalesce(links, array())) AS up_of",
        "array_union(array(root_broker), transform(coalesce(links, array()), l -> l.to_broker))"
        " AS brokers",
    )  # fmt: skip
    start = "struct(broker AS upper, 0.0D AS delay_ms, CAST(array() AS array<string>) AS path)"
    step = (
        "struct(up_of[at.upper].from_broker AS upper,"
        " at.delay_ms + up_of[at.upper].cost_ms AS delay_ms,"
        " concat(at.path, array(at.upper)) AS path)"
    )
    walk = (
        f"aggregate(sequence(1, {max(1, deepest)}), {start},"
        f" (at, i) -> if(at.upper is null or at.upper = root_broker, at, {step})) AS top"
    )
    walked = mapped.selectExpr("*", "explode(brokers) AS broker").selectExpr(
        "tree", "broker", "root_broker", walk
    )
    # What a gap in the telemetry cut off never arrives at the root.
    return walked.where("top.upper = root_broker").selectExpr(
        "tree", "broker", "top.delay_ms AS delay_ms", "top.path AS path"
    )


def _by_jumping(
    deepest: int, links: DataFrame, roots: DataFrame, link_costs: DataFrame
) -> DataFrame:
    """Each round doubles how far up everybody sees: log2 of ``deepest`` rounds for any shape."""
    top = roots.selectExpr(
        "root_tree AS tree",
        "root_broker AS broker",
        "root_broker AS upper",
        "0.0D AS delay_ms",
        "CAST(array() AS array<string>) AS path",
    )
    state = top.unionByName(
        priced(links, link_costs).selectExpr(
            "tree",
            "to_broker AS broker",
            "from_broker AS upper",
            "cost_ms AS delay_ms",
            "array(to_broker) AS path",
        )
    )
    for _ in range(max(0, deepest - 1).bit_length()):
        above = state.toDF("tree", "upper", "next_upper", "upper_delay_ms", "upper_path")
        state = (
            state.join(above, ["tree", "upper"])
            .selectExpr(
                "tree",
                "broker",
                "next_upper AS upper",
                "delay_ms + upper_delay_ms AS delay_ms",
                "concat(path, upper_path) AS path",
            )
            .persist()
        )  # used twice by the next round: unkept, the query would double every round
    is_root = roots.selectExpr("root_tree AS tree", "root_broker AS upper")
    # What a gap in the telemetry cut off never arrives at the root.
    return state.join(is_root, ["tree", "upper"], "left_semi").selectExpr(
        "tree", "broker", "delay_ms", "path"
    )


def delivery_trees(
    sets: DataFrame,
    roots: DataFrame,
    links: DataFrame,
    receivers: DataFrame,
    paths: DataFrame,
    topics: DataFrame,
    broker_costs: DataFrame,
    link_costs: DataFrame,
) -> DataFrame:
    """Each tree with its size, its relays and what one publication costs on it."""
    root_of = roots.selectExpr("root_tree AS tree", "root_broker AS broker")
    members = (
        root_of.unionByName(receivers.selectExpr("tree", "broker"))
        .unionByName(links.selectExpr("tree", "to_broker AS broker"))
        .distinct()
    )
    prices = broker_costs.selectExpr("broker", "processing_ms")
    processing = (
        members.join(F.broadcast(prices), "broker", "left")
        .groupBy("tree")
        .agg(F.expr("count(1) AS brokers"),
             F.expr("sum(coalesce(processing_ms, 0.0D)) AS processing_ms"))
    )  # fmt: skip
    named = topics.selectExpr("topic", "xxhash64(topic) AS topic_hash")
    trees = sets.selectExpr("tree", "topic_hash", "publications", "weight").join(
        F.broadcast(named), "topic_hash"
    )
    known = together(
        ["tree"],
        trees,
        root_of,
        processing,
        _communication(links, link_costs),
        _reception(receivers, root_of, paths),
    ).where("topic is not null and broker is not null")
    return as_declared(_with_sums(known), "delivery_trees")


def topic_costs(trees: DataFrame) -> DataFrame:
    """What each topic costs over the window."""
    costs = trees.groupBy("topic").agg(
        F.expr("sum(weight) AS weight"),
        F.expr("sum(weight * relays) AS relay_overhead"),
        F.expr("sum(weight * delay_ms) AS delay_ms"),
        F.expr("sum(weight * cost_ms) AS cost_ms"),
    )
    return as_declared(costs, "topic_costs")


def overlay_cost(trees: DataFrame, delay_weight: float) -> DataFrame:
    """The sums over all publications, in one row."""
    totals = {
        "weight": "weight",
        "processing_ms": "weight * processing_ms",
        "communication_ms": "weight * communication_ms",
        "cost_ms": "weight * cost_ms",
        "relay_overhead": "weight * relays",
        "delay_ms": "weight * delay_ms",
    }
    costs = trees.agg(
        *(F.expr(f"coalesce(sum({text}), 0.0D) AS {name}") for name, text in totals.items())
    ).selectExpr(
        "*",
        f"{delay_weight}D AS delay_weight",
        f"relay_overhead + {delay_weight}D * delay_ms AS notification_cost",
    )
    return as_declared(costs, "overlay_cost")


def _communication(links: DataFrame, link_costs: DataFrame) -> DataFrame:
    return (
        priced(links, link_costs)
        .groupBy("tree")
        .agg(F.expr("count(1) AS links"), F.expr("sum(cost_ms) AS communication_ms"))
    )


def _reception(receivers: DataFrame, root_of: DataFrame, paths: DataFrame) -> DataFrame:
    """Receivers by tree, whether the root is one, and the sum of their delays."""
    known = together(
        ["tree", "broker"],
        receivers.selectExpr("tree", "broker", "true AS receives"),
        paths.selectExpr("tree", "broker", "delay_ms"),
        root_of.selectExpr("tree", "broker", "1 AS is_root"),
    )
    return (
        known.where("receives")
        .groupBy("tree")
        .agg(
            F.expr("count(1) AS receivers"),
            F.expr("count(is_root) AS receiving_root"),
            F.expr("sum(coalesce(delay_ms, 0.0D)) AS delay_ms"),
        )
    )


def _with_sums(trees: DataFrame) -> DataFrame:
    return trees.selectExpr(
        "tree", "topic", "broker", "publications", "weight", "brokers", "processing_ms",
        "coalesce(links, 0L) AS links",
        "coalesce(receivers, 0L) AS receivers",
        "coalesce(communication_ms, 0.0D) AS communication_ms",
        "coalesce(delay_ms, 0.0D) AS delay_ms",
        "brokers - 1 - coalesce(receivers, 0L) + coalesce(receiving_root, 0L) AS relays",
        "processing_ms + coalesce(communication_ms, 0.0D) AS cost_ms",
    )  # fmt: skip

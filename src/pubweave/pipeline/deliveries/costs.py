"""The cost of the overlay as it is: CI's cost(N, T) and DYNATOPS' relay overhead and delay.

CI Eq. 1 adds up the processing cost p_v of every broker in a delivery tree and the communication
cost c_e of every link; Eq. 2 sums over all publications. DYNATOPS counts the brokers that only
relay (the root is none) and, for every receiving broker, the delay from the root; its Eqs. 1 to 4
sum both over publications, Eq. 5 weighs them. The trees are those that publications really took,
so Eqs. 1 and 2 hold through changes of subscriptions and of the topology.

c_e is half the median round trip, p_v the mean of queueing and matching, both in milliseconds.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.deliveries.trees import priced
from pubweave.pipeline.frames.mergeable import together
from pubweave.pipeline.frames.schemas import as_declared


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

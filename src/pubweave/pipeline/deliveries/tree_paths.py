"""Paths of delivery trees: from every broker that a tree reaches up to its root, with the delay.

Two ways to the same frame. With few brokers, each tree becomes one row with a map from broker to
parent, and everybody walks up in it: one query without a join per step, O(brokers^2 * depth) steps
per tree. With many brokers that square counts, and pointer jumping takes over: O(brokers * log
depth) rows per tree, in log2(depth) joins.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.deliveries.trees import priced
from pubweave.pipeline.frames.mergeable import together

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

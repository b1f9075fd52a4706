"""Links and brokers as they are: costs by round trips and processing, exact traffic and load.

Round trips are summarised by KLL sketches, which merge: their stated error is one of rank.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.frames.mergeable import KLL, MAX, SUM, Sums, together
from pubweave.pipeline.frames.schemas import as_declared
from pubweave.pipeline.transforms.sketches import quantile_columns, sketched

_LINK = ["broker_a", "broker_b"]


LINK_LOADS = Sums(
    ("broker", "neighbor"),
    dict.fromkeys(
        ("window_s", "messages_in", "messages_out", "bytes_in", "bytes_out", "queue_messages",
         "samples"), SUM,
    ),
)  # fmt: skip
CROSSINGS = Sums(tuple(_LINK), {"notifications": SUM})
BROKER_LOADS = Sums(
    ("broker", "epoch"),
    dict.fromkeys(
        ("window_s", "messages_in", "messages_out", "bytes_in", "bytes_out", "deliveries", "cpu_s",
         "cpu_window_s", "duplicates_dropped", "notifications_lost"), SUM,
    ) | {"queue_messages": MAX, "dropped_records": MAX},
)  # fmt: skip


def round_trips(kll_k: int) -> Sums:
    """How round trips of the same link merge."""
    return Sums(tuple(_LINK), {"rtt_samples": SUM, "sketch": KLL}, kll_k)


def broker_cost_merging(kll_k: int) -> Sums:
    """How what notifications cost at the same broker merges."""
    counts = dict.fromkeys(("handled", "queueing_ms", "matching_ms", "matched"), SUM)
    return Sums(("broker",), {**counts, "sketch": KLL}, kll_k)


def round_trip_sums(rtts: DataFrame, kll_k: int) -> DataFrame:
    """Round trips by link."""
    return (
        _undirected(rtts, "broker", "neighbor")
        .groupBy(*_LINK)
        .agg(F.count(F.lit(1)).alias("rtt_samples"), sketched("rtt_ms", kll_k))
    )


def crossing_sums(hops: DataFrame) -> DataFrame:
    """Recorded notifications by link."""
    counted = hops.groupBy("from_broker", "to_broker").count()
    return (
        _undirected(counted, "from_broker", "to_broker")
        .groupBy(*_LINK)
        .agg(F.sum("count").alias("notifications"))
    )


def link_load_sums(loads: DataFrame) -> DataFrame:
    """Exact traffic by broker and neighbor."""
    names = [name for name in LINK_LOADS.columns or () if name != "samples"]
    return loads.groupBy("broker", "neighbor").agg(
        *(F.expr(f"sum({name}) AS {name}") for name in names), F.expr("count(1) AS samples")
    )


def broker_load_sums(loads: DataFrame) -> DataFrame:
    """Exact load by broker and incarnation; a total of an incarnation has its last value."""
    watched = loads.withColumn(
        "cpu_window_s", F.when(F.col("cpu_s").isNotNull(), F.col("window_s"))
    )
    merges = (BROKER_LOADS.columns or {}).items()
    return watched.groupBy("broker", "epoch").agg(
        *(F.expr(f"{how}({name}) AS {name}") for name, how in merges)
    )


def broker_cost_sums(publications: DataFrame, hops: DataFrame, kll_k: int) -> DataFrame:
    """Queueing and matching of notifications, from clients and from neighbors, by broker."""
    handled = publications.selectExpr("broker", "queueing_ms", "matching_ms").unionByName(
        hops.selectExpr("to_broker AS broker", "queueing_ms", "matching_ms")
    )
    return handled.groupBy("broker").agg(
        F.expr("count(1) AS handled"),
        F.expr("sum(queueing_ms) AS queueing_ms"),
        F.expr("sum(matching_ms) AS matching_ms"),
        F.expr("count(matching_ms) AS matched"),
        sketched("queueing_ms", kll_k),
    )


def links(
    measured: DataFrame, loads: DataFrame, crossed: DataFrame, changes: DataFrame
) -> DataFrame:
    """Every link that was changed, measured, watched or crossed."""
    known = together(_LINK, _present(changes), measured, _traffic(loads), crossed)
    measures = known.selectExpr("*", *quantile_columns("sketch", "rtt"))
    counted = ["rtt_samples", "messages", "bytes", "notifications"]
    filled = measures.fillna(0, counted).fillna(0.0, ["messages_per_s", "bytes_per_s"])
    # Nobody recorded a change where the run's links stand from its beginning.
    with_state = filled.fillna(True, ["is_present"])
    return as_declared(with_state.selectExpr("*", "rtt_ms_p50 / 2 AS cost_ms"), "links")


def link_queues(loads: DataFrame) -> DataFrame:
    """Wait for output by Little's law: messages waiting over messages per second."""
    queues = loads.selectExpr(
        "broker",
        "neighbor",
        "queue_messages / samples AS queue_messages_mean",
        f"{_over('messages_out', 'window_s')} AS messages_out_per_s",
    )
    wait = "if(messages_out_per_s > 0, 1e3D * queue_messages_mean / messages_out_per_s, null)"
    return as_declared(queues.selectExpr("*", f"{wait} AS output_queueing_ms"), "link_queues")


def broker_costs(sums: DataFrame) -> DataFrame:
    """What a notification costs at each broker."""
    costs = sums.selectExpr(
        "broker",
        "handled",
        "queueing_ms / handled AS input_queueing_ms",
        f"{_over('matching_ms', 'matched')} AS matching_ms",
        "sketch",
    )
    processing = "input_queueing_ms + coalesce(matching_ms, 0.0D) AS processing_ms"
    priced = costs.selectExpr("*", processing, *quantile_columns("sketch", "queueing"))
    return as_declared(priced, "broker_costs")


def broker_loads(loads: DataFrame) -> DataFrame:
    """Every broker's load over the time it was watched."""
    rates = ("messages_in", "messages_out", "bytes_in", "bytes_out", "deliveries")
    totals = ("duplicates_dropped", "notifications_lost", "dropped_records")
    table = loads.groupBy("broker").agg(
        F.expr("sum(window_s) AS watched_s"),
        *(F.expr(f"{_over(f'sum({n})', 'sum(window_s)')} AS {n}_per_s") for n in rates),
        F.expr(f"{_over('sum(cpu_s)', 'sum(cpu_window_s)')} AS cpu_share"),
        F.expr("max(queue_messages) AS queue_messages_max"),
        *(F.expr(f"sum({n}) AS {n}") for n in totals),
        F.expr("count(1) - 1 AS restarts"),
    )
    return as_declared(table, "broker_loads")


def _over(amount: str, duration: str) -> str:
    return f"if({duration} > 0, {amount} / {duration}, null)"


def _undirected(frame: DataFrame, one: str, other: str) -> DataFrame:
    return frame.selectExpr(
        "*", f"least({one}, {other}) AS broker_a", f"greatest({one}, {other}) AS broker_b"
    )


def _present(changes: DataFrame) -> DataFrame:
    """Whether the last change of the topology that a link's brokers saw left it there."""
    of_topology = _undirected(changes, "broker", "neighbor").where("change in ('added', 'removed')")
    # At the same instant a removal is the end of what was added, not the other way round.
    last = "max_by(change, struct(changed_at, change))"
    return of_topology.groupBy(*_LINK).agg(F.expr(f"{last} = 'added' AS is_present"))


def _traffic(loads: DataFrame) -> DataFrame:
    """Both brokers of a link count all of its messages: the one that watched longer is taken."""
    by_broker = _undirected(loads, "broker", "neighbor").selectExpr(
        *_LINK,
        "broker",
        "window_s AS watched_s",
        "messages_in + messages_out AS messages",
        "bytes_in + bytes_out AS bytes",
    )
    longest = "max_by(struct(watched_s, messages, bytes), struct(watched_s, broker)) AS taken"
    taken = by_broker.groupBy(*_LINK).agg(F.expr(longest)).selectExpr(*_LINK, "taken.*")
    return taken.selectExpr(
        *_LINK,
        "messages",
        "bytes",
        f"{_over('messages', 'watched_s')} AS messages_per_s",
        f"{_over('bytes', 'watched_s')} AS bytes_per_s",
    )

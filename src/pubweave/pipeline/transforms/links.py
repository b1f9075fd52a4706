"""Links and brokers as they are: costs by round trips and processing, exact traffic and load.

Round trips are summarised by KLL sketches, which merge: their stated error is one of rank.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.schemas import as_declared
from pubweave.pipeline.sums import KLL, MAX, SUM, Sums
from pubweave.pipeline.transforms.quantiles import quantile_columns, sketched

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
        *(F.sum(name).alias(name) for name in names), F.count(F.lit(1)).alias("samples")
    )


def broker_load_sums(loads: DataFrame) -> DataFrame:
    """Exact load by broker and incarnation; a total of an incarnation has its last value."""
    watched = loads.withColumn(
        "cpu_window_s", F.when(F.col("cpu_s").isNotNull(), F.col("window_s"))
    )
    merges = (BROKER_LOADS.columns or {}).items()
    return watched.groupBy("broker", "epoch").agg(
        *((F.max if how == MAX else F.sum)(name).alias(name) for name, how in merges)
    )


def broker_cost_sums(publications: DataFrame, hops: DataFrame, kll_k: int) -> DataFrame:
    """Queueing and matching of notifications, from clients and from neighbors, by broker."""
    handled = publications.select("broker", "queueing_ms", "matching_ms").unionByName(
        hops.select(F.col("to_broker").alias("broker"), "queueing_ms", "matching_ms")
    )
    return handled.groupBy("broker").agg(
        F.count(F.lit(1)).alias("handled"),
        F.sum("queueing_ms").alias("queueing_ms"),
        F.sum("matching_ms").alias("matching_ms"),
        F.count("matching_ms").alias("matched"),
        sketched("queueing_ms", kll_k),
    )


def links(
    measured: DataFrame, loads: DataFrame, crossed: DataFrame, changes: DataFrame
) -> DataFrame:
    """Every link that was changed, measured, watched or crossed."""
    together = (
        _present(changes)
        .join(measured, _LINK, "full_outer")
        .join(_traffic(loads), _LINK, "full_outer")
        .join(crossed, _LINK, "full_outer")
        .select("*", *quantile_columns("sketch", "rtt"))
    )
    counted = ["rtt_samples", "messages", "bytes", "notifications"]
    filled = together.fillna(0, counted).fillna(0.0, ["messages_per_s", "bytes_per_s"])
    # Nobody recorded a change where the run's links stand from its beginning.
    with_state = filled.withColumn("is_present", F.coalesce("is_present", F.lit(True)))
    return as_declared(with_state.withColumn("cost_ms", F.col("rtt_ms_p50") / 2), "links")


def link_queues(loads: DataFrame) -> DataFrame:
    """Wait for output by Little's law: messages waiting over messages per second."""
    queues = loads.select(
        "broker",
        "neighbor",
        (F.col("queue_messages") / F.col("samples")).alias("queue_messages_mean"),
        _over(F.col("messages_out"), F.col("window_s")).alias("messages_out_per_s"),
    )
    wait = F.when(
        F.col("messages_out_per_s") > 0,
        1e3 * F.col("queue_messages_mean") / F.col("messages_out_per_s"),
    )
    return as_declared(queues.withColumn("output_queueing_ms", wait), "link_queues")


def broker_costs(sums: DataFrame) -> DataFrame:
    """What a notification costs at each broker."""
    costs = sums.select(
        "broker",
        "handled",
        (F.col("queueing_ms") / F.col("handled")).alias("input_queueing_ms"),
        _over(F.col("matching_ms"), F.col("matched")).alias("matching_ms"),
        "sketch",
    )
    processing = F.col("input_queueing_ms") + F.coalesce("matching_ms", F.lit(0.0))
    priced = costs.select(
        "*", processing.alias("processing_ms"), *quantile_columns("sketch", "queueing")
    )
    return as_declared(priced, "broker_costs")


def broker_loads(loads: DataFrame) -> DataFrame:
    """Every broker's load over the time it was watched."""

    def per_second(name: str) -> Column:
        return _over(F.sum(name), F.sum("window_s"))

    table = loads.groupBy("broker").agg(
        F.sum("window_s").alias("watched_s"),
        per_second("messages_in").alias("messages_in_per_s"),
        per_second("messages_out").alias("messages_out_per_s"),
        per_second("bytes_in").alias("bytes_in_per_s"),
        per_second("bytes_out").alias("bytes_out_per_s"),
        per_second("deliveries").alias("deliveries_per_s"),
        _over(F.sum("cpu_s"), F.sum("cpu_window_s")).alias("cpu_share"),
        F.max("queue_messages").alias("queue_messages_max"),
        F.sum("duplicates_dropped").alias("duplicates_dropped"),
        F.sum("notifications_lost").alias("notifications_lost"),
        F.sum("dropped_records").alias("dropped_records"),
        (F.count(F.lit(1)) - 1).alias("restarts"),
    )
    return as_declared(table, "broker_loads")


def _over(amount: Column, duration: Column) -> Column:
    return F.when(duration > 0, amount / duration)


def _undirected(frame: DataFrame, one: str, other: str) -> DataFrame:
    return frame.withColumn("broker_a", F.least(one, other)).withColumn(
        "broker_b", F.greatest(one, other)
    )


def _present(changes: DataFrame) -> DataFrame:
    """Whether the last change of the topology that a link's brokers saw left it there."""
    of_topology = _undirected(changes, "broker", "neighbor").where("change in ('added', 'removed')")
    # At the same instant a removal is the end of what was added, not the other way round.
    last = F.max_by("change", F.struct("changed_at", "change"))
    return of_topology.groupBy(*_LINK).agg((last == "added").alias("is_present"))


def _traffic(loads: DataFrame) -> DataFrame:
    """Both brokers of a link count all of its messages: the one that watched longer is taken."""
    by_broker = _undirected(loads, "broker", "neighbor").select(
        *_LINK,
        "broker",
        F.col("window_s").alias("watched_s"),
        (F.col("messages_in") + F.col("messages_out")).alias("messages"),
        (F.col("bytes_in") + F.col("bytes_out")).alias("bytes"),
    )
    longest = F.max_by(F.struct("watched_s", "messages", "bytes"), F.struct("watched_s", "broker"))
    taken = by_broker.groupBy(*_LINK).agg(longest.alias("taken")).select(*_LINK, "taken.*")
    return taken.select(
        *_LINK,
        "messages",
        "bytes",
        _over(F.col("messages"), F.col("watched_s")).alias("messages_per_s"),
        _over(F.col("bytes"), F.col("watched_s")).alias("bytes_per_s"),
    )

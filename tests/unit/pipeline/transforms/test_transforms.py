"""Transforms one at a time, on frames made for what the generated runs do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows))


def rows(table: DataFrame, *key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.toArrow().to_pylist()
    return sorted(found, key=lambda row: tuple(row[k] for k in key))


def test_the_filter_goes_on_over_blocks_of_slots(spark: SparkSession) -> None:
    """A weight of 0.999 makes blocks of 83 slots: the estimate must not notice where they meet."""
    from pubweave.pipeline.frames.settings import ProfileWindow
    from pubweave.pipeline.transforms.rates import topic_rates, topics, traffic

    for alpha in (0.3, 0.999, 1.0):
        rng = np.random.default_rng(5)
        slots = np.sort(rng.choice(400, 300, replace=False))
        counts = rng.integers(1, 5, len(slots))
        published = [
            {"published_at": float(slot) + 0.5, "topic": "t", "publisher": "p", "sequence": n,
             "sample_ratio": 0.5, "size_bytes": 10, "broker": "b", "accepted_at": float(slot)}
            for slot, count in zip(slots.tolist(), counts.tolist(), strict=True)
            for n in range(count)
        ]  # fmt: skip
        window = ProfileWindow(0.0, 400.5, 1.0)
        counted = traffic(frame(spark, published), window)
        rates = topic_rates(counted, window, alpha)
        rate = dict(zip(slots.tolist(), (counts / 0.5).tolist(), strict=True))
        expected: dict[int, float] = {}
        estimate = rate.get(0, 0.0)
        for slot in range(400):
            if slot:
                estimate = (1 - alpha) * estimate + alpha * rate.get(slot, 0.0)
            expected[slot] = estimate
        for row in rows(rates, "slot"):
            told = row["filtered_rate_per_s"]
            assert told == pytest.approx(expected[row["slot"]], rel=1e-9, abs=1e-12)
        [total] = rows(topics(counted, rates, window, alpha), "topic")
        assert total["filtered_rate_per_s"] == pytest.approx(expected[399], abs=1e-12)
        assert total["rate_per_s"] == pytest.approx(2 * len(published) / 400.5)


def change(at: float, broker: str, neighbor: str, kind: str) -> dict[str, Any]:
    return {"changed_at": at, "broker": broker, "neighbor": neighbor, "change": kind}


def test_publications_near_a_changed_link_are_affected(spark: SparkSession) -> None:
    from pubweave.pipeline.transforms.latency import (
        affected_publications,
        affected_sums,
        link_change_periods,
        transformations,
    )

    changes = frame(spark, [
        change(1.0, "a", "b", "added"),  # before traffic: how the overlay began
        change(50.0, "a", "b", "removed"), change(50.2, "b", "a", "removed"),
        change(51.0, "a", "c", "added"), change(51.0, "c", "a", "added"),
        change(50.5, "a", "b", "down"),
        change(90.0, "d", "e", "added"), change(90.0, "e", "d", "added"),
    ])  # fmt: skip
    periods = link_change_periods(changes, first_published_at=10.0, margin_s=2.0)
    flights = [("early", 47.0, 47.9), ("held", 47.0, 48.1), ("during", 50.0, 50.1),
               ("last", 53.0, 53.1), ("after", 53.1, 53.2), ("aside", 50.0, 50.1),
               ("second", 89.0, 89.1), ("lonely", 50.0, None)]  # fmt: skip
    trees = {"aside": 2, "second": 3}
    facts = frame(spark, [
        {"publisher": name, "sequence": 1, "recorded": 1, "tree": trees.get(name, 1),
         "published_at": begins, "last_delivered_at": ends}
        for name, begins, ends in flights
    ])  # fmt: skip
    brokers = frame(spark, [
        {"tree": 1, "broker": "a"}, {"tree": 1, "broker": "x"}, {"tree": 2, "broker": "x"},
        {"tree": 3, "broker": "e"},
    ])  # fmt: skip
    hit = affected_publications(facts, periods, brokers)
    named = {(row["publisher"], row["transformation"]) for row in rows(hit, "publisher")}
    assert named == {("held", 1), ("during", 1), ("last", 1), ("lonely", 1), ("second", 2)}
    table = transformations(periods, affected_sums(periods, hit))
    told = [tuple(row.values()) for row in rows(table, "transformation")]
    assert told == [(1, 48.0, 53.0, 1, 1, 4), (2, 88.0, 92.0, 1, 0, 1)]


def test_latencies_of_affected_publications_are_apart(spark: SparkSession) -> None:
    from pubweave.pipeline.frames.settings import ProfileWindow
    from pubweave.pipeline.transforms.latency import latency, latency_sums

    deliveries = frame(spark, [
        {"publisher": name, "sequence": 1, "delivered_at": 5.0 + ms / 1e3, "latency_ms": ms}
        for name, ms in (("plain", 10.0), ("plain", 30.0), ("held", 500.0))
    ])  # fmt: skip
    hit = frame(spark, [{"transformation": n, "publisher": "held", "sequence": 1} for n in (1, 2)])
    window = ProfileWindow(0.0, 20.0, 10.0)
    table = latency(latency_sums(deliveries, hit, window, 200), window)
    told = {row["affected"]: row for row in rows(table, "affected")}
    assert told[False]["deliveries"] == 2
    assert told[False]["latency_ms_mean"] == 20.0
    assert told[True]["deliveries"] == 1
    assert told[True]["latency_ms_p99"] == 500.0


def test_a_restart_ends_the_subscriptions_of_a_broker(spark: SparkSession) -> None:
    from pubweave.pipeline.transforms.subscriptions import never_added, subscriptions

    def changed(at: float, kind: str, name: str, epoch: int, number: int) -> dict[str, Any]:
        return {"changed_at": at, "broker": "b", "epoch": epoch, "record_number": number,
                "client": "c", "subscription": name, "filter": "*", "topic": "t",
                "change": kind}  # fmt: skip

    changes = frame(spark, [
        changed(1.0, "added", "kept", 1, 0), changed(2.0, "added", "left", 1, 1),
        changed(3.0, "added", "ended", 1, 2), changed(4.0, "removed", "ended", 1, 3),
        changed(12.0, "added", "kept", 2, 0), changed(13.0, "removed", "unknown", 2, 1),
    ])  # fmt: skip
    began = frame(spark, [
        {"broker": "b", "epoch": 1, "next_began_at": 10.0},
        {"broker": "b", "epoch": 2, "next_began_at": None},
    ])  # fmt: skip
    told = [
        (row["subscription"], row["added_at"], row["removed_at"])
        for row in rows(subscriptions(changes, began), "added_at")
    ]
    assert told == [("kept", 1.0, 12.0), ("left", 2.0, 10.0), ("ended", 3.0, 4.0),
                    ("kept", 12.0, None)]  # fmt: skip
    assert [row["subscription"] for row in rows(never_added(changes), "changed_at")] == ["unknown"]


def test_theta_sketches_keep_within_what_they_state(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from pubweave.pipeline.transforms.sketches import interest_sketches, pair_estimates

    numbers = spark.range(60_000).select(
        F.lit("p").alias("publisher"), F.col("id").alias("sequence")
    )
    shares = {"a": (0, 40_000), "b": (20_000, 60_000), "c": (38_000, 39_000)}
    deliveries = None
    for broker, (begin, end) in shares.items():
        part = numbers.where(f"sequence >= {begin} and sequence < {end}")
        part = part.withColumn("broker", F.lit(broker))
        deliveries = part if deliveries is None else deliveries.unionByName(part)
    assert deliveries is not None
    sketches = interest_sketches(deliveries.limit(0), deliveries, 12)
    told = {(r["broker_a"], r["broker_b"]): r for r in
            rows(pair_estimates(sketches, 12), "broker_a", "broker_b")}  # fmt: skip
    for pair, exact in {("a", "b"): 20_000, ("a", "c"): 1_000, ("b", "c"): 1_000}.items():
        row = told[pair]
        assert row["theta_std"] > 0
        assert abs(row["theta_estimate"] - exact) <= 4 * row["theta_std"], pair


def test_percentiles_keep_within_the_rank_error_they_state(spark: SparkSession) -> None:
    from pubweave.pipeline.transforms.sketches import quantile_columns, sketched
    from tests.naive.sketches import rank_error

    values = np.random.default_rng(8).lognormal(2.0, 1.0, 100_000)
    table = spark.createDataFrame(pa.table({"ms": values}))
    for kll_k in (100, 400):
        [row] = rows(table.agg(sketched("ms", kll_k)).selectExpr(*quantile_columns("sketch", "x")))
        for percent in (50, 95, 99):
            rank = float(np.mean(values <= row[f"x_ms_p{percent}"]))
            assert abs(rank - percent / 100) <= rank_error(kll_k)


def test_a_filter_matches_in_spark_what_it_matches_in_python(spark: SparkSession) -> None:
    from pubweave.model.filters.text import parse_filter
    from pubweave.model.publications import Value, make_publication
    from pubweave.pipeline.frames.schemas import local_frame, telemetry_schema
    from pubweave.pipeline.transforms.filters import parsed_filters, satisfies, with_values

    written = [
        "class = 'A'", "class != 'A'", "class prefix 'A'", "x = 1", "x = 1.0", "x != 1", "x < 2",
        "x >= 'b'", "x = true", "x != true", "x is present", "x suffix 'b'", "x contains 'a'",
        "x > 0 and y = 'z'", "*", "not a filter", "x > 1", "x >= 1", "x <= 1.5", "x < 1.5",
        "x >= 1 and x <= 1", "x > 0 and x > 1 and x < 9 and x < 2", "class = 'A' and class = 'AB'",
        "x = 'ab' and x contains 'b'", "x = 'b' and x = 'b'", "x = false",
    ]  # fmt: skip
    contents: list[dict[str, Value]] = [
        {}, {"x": 1}, {"x": 1.5, "y": "z"}, {"x": "ab"}, {"x": True}, {"x": False}, {"x": "b"},
    ]  # fmt: skip
    schema = telemetry_schema("publications")
    wanted = ("sequence", "topic", "attributes")
    from pyspark.sql.types import StructType

    narrow = StructType([schema[name] for name in wanted])
    stored = [
        (number, topic, [(name, _typed(value)) for name, value in content.items()])
        for topic in ("A", "AB")
        for number, content in enumerate(contents)
    ]
    publications = local_frame(spark, stored, narrow)
    filters = parsed_filters(spark, frame(spark, [{"filter": text} for text in written]))
    matched = (
        with_values(publications, filters)
        .crossJoin(filters)
        .select("sequence", "topic", "filter", "is_known", satisfies(filters).alias("matches"))
    )
    for row in rows(matched, "filter", "topic", "sequence"):
        content = contents[row["sequence"]]
        publication = make_publication("p", 1, row["topic"], content, b"", 0.0)
        assert row["is_known"] == (row["filter"] != "not a filter")
        if row["is_known"]:
            assert row["matches"] == parse_filter(row["filter"]).matches(publication), row


def test_pairs_are_those_whose_filters_match_in_python(spark: SparkSession) -> None:
    """Whatever text a filter asks for, or none; and whether the publication has one there."""
    from pyspark.sql.types import StructType

    from pubweave.model.filters.text import parse_filter
    from pubweave.model.publications import Value, make_publication
    from pubweave.pipeline.deliveries.due import pairs_of, prepared
    from pubweave.pipeline.frames.schemas import local_frame, profile_schema, telemetry_schema

    of_a = [
        "", " and `s``y` = 'u'", " and `s``y` = ''", " and `s``y` = '=u'", " and n > 1",
        " and `s``y` = 'v' and n > 1", " and `s``y` prefix 'u'", " and other = 'x'",
    ]  # fmt: skip
    filters: list[tuple[str, str | None]] = [(f"class = 'A'{rest}", "A") for rest in of_a]
    filters += [("class = 'B' and `s``y` = 'u'", "B"), ("`s``y` = 'u'", None), ("n > 1", None)]
    contents: list[dict[str, Value]] = [
        {}, {"s`y": "u"}, {"s`y": ""}, {"s`y": "=u", "n": 2}, {"s`y": "v", "n": 2.5}, {"s`y": 3},
        {"other": "x", "s`y": "u"}, {"other": "x"},
    ]  # fmt: skip
    intervals = local_frame(spark, [
        (f"c{number}", f"c{number}:1", "b", topic, text, 0.0, None)
        for number, (text, topic) in enumerate(filters)
    ], profile_schema("subscriptions"))  # fmt: skip
    schema = telemetry_schema("publications")
    names = ("publisher", "sequence", "topic", "published_at", "attributes")
    publications = local_frame(spark, [
        (topic, number, topic, 50.0, [(name, _typed(value)) for name, value in content.items()])
        for topic in ("A", "B") for number, content in enumerate(contents)
    ], StructType([schema[name] for name in names]))  # fmt: skip

    found = pairs_of(publications, prepared(spark, intervals), 2.0)
    pairs = {(row["publisher"], row["sequence"], row["client"]) for row in found.collect()}
    assert pairs == {
        (topic, number, f"c{place}")
        for topic in ("A", "B")
        for number, content in enumerate(contents)
        for place, (text, _) in enumerate(filters)
        if parse_filter(text).matches(make_publication("p", 1, topic, content, b"", 0.0))
    }


def _typed(value: str | float | bool) -> dict[str, Any]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        "text": value if isinstance(value, str) else None,
        "number": float(value) if is_number else None,
        "boolean": value if isinstance(value, bool) else None,
    }

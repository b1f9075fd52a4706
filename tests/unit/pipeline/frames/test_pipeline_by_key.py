"""Frames brought together by their key, against dictionaries; paths of trees, against a walk."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.naive.tree_paths import Parents, paths_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]


def frame(spark: SparkSession, rows: list[Row], schema: str) -> DataFrame:
    names = [column.split()[0] for column in schema.split(", ")]
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    kinds = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}
    types = {column.split()[0]: kinds[column.split()[1]] for column in schema.split(", ")}
    return spark.createDataFrame(table.cast(pa.schema(list(types.items()))), schema)


def test_rows_of_a_key_become_one(spark: SparkSession) -> None:
    from pubweave.pipeline.frames.mergeable import together

    rng = random.Random(1)
    expected: dict[tuple[str, int], Row] = {}
    frames = []
    for name, kind in (("count", "long"), ("text", "string"), ("cost", "double")):
        rows = []
        for key in rng.sample([(a, b) for a in "xyz" for b in range(4)], 6):
            value: Any = rng.choice([None, 0, -3, 7])
            value = value if value is None or kind == "long" else (
                str(value) if kind == "string" else float(value)
            )  # fmt: skip
            rows.append({"a": key[0], "b": key[1], name: value})
            expected.setdefault(key, {"count": None, "text": None, "cost": None})[name] = value
        frames.append(frame(spark, rows, f"a string, b long, {name} {kind}"))
    found = together(["a", "b"], *frames).collect()
    assert {(r["a"], r["b"]): {n: r[n] for n in ("count", "text", "cost")} for r in found} == (
        expected
    )
    assert len(found) == len(expected)


def test_without_a_key_all_is_one_row(spark: SparkSession) -> None:
    from pubweave.pipeline.frames.mergeable import together

    one = frame(spark, [{"n": 3}], "n long")
    other = frame(spark, [{"m": None, "k": 1}], "m long, k long")
    assert [row.asDict() for row in together([], one, other).collect()] == [
        {"n": 3, "m": None, "k": 1}
    ]


def drawn_trees(rng: random.Random, count: int) -> list[tuple[int, str, Parents]]:
    """Trees of up to nine brokers; links may be missing, or lead round in a circle."""
    trees: list[tuple[int, str, Parents]] = []
    for tree in range(count):
        brokers = [f"b{n}" for n in rng.sample(range(20), rng.randint(1, 9))]
        parents = {}
        for place, broker in enumerate(brokers[1:], start=1):
            upper = brokers[rng.randrange(place)] if rng.random() < 0.9 else rng.choice(brokers)
            if upper != broker and rng.random() < 0.95:
                parents[broker] = (upper, float(rng.randint(0, 9)))
        trees.append((tree, brokers[0], parents))
    return trees


@pytest.mark.parametrize("brokers", [20, 100])
def test_paths_are_those_of_a_walk(spark: SparkSession, brokers: int) -> None:
    """With few brokers by walking, with many by jumping."""
    from pubweave.pipeline.deliveries.trees import FEW_BROKERS, tree_paths

    assert 20 <= FEW_BROKERS < 100
    trees = drawn_trees(random.Random(7), 80)
    assert any(len(paths_up(root, up)) < len(up) + 1 for _, root, up in trees), "none is cut off"
    links = [
        {"tree": tree, "from_broker": upper, "to_broker": broker}
        for tree, _, up in trees
        for broker, (upper, _) in up.items()
    ]
    # A link costs the same in all trees: so costs are those of the last tree that has it.
    costs = {tuple(sorted((b, u))): cost for _, _, up in trees for b, (u, cost) in up.items()}
    priced = [{"broker_a": a, "broker_b": b, "cost_ms": c} for (a, b), c in costs.items()]
    found = tree_paths(
        8,
        brokers,
        frame(spark, links, "tree long, from_broker string, to_broker string"),
        frame(spark, [{"root_tree": t, "root_broker": r} for t, r, _ in trees],
              "root_tree long, root_broker string"),
        frame(spark, priced, "broker_a string, broker_b string, cost_ms double"),
    ).collect()  # fmt: skip
    expected = {}
    for tree, root, up in trees:
        same_costs = {b: (u, costs[tuple(sorted((b, u)))]) for b, (u, _) in up.items()}
        for broker, (delay_ms, path) in paths_up(root, same_costs).items():
            expected[tree, broker] = (delay_ms, path)
    assert {(r["tree"], r["broker"]): (r["delay_ms"], list(r["path"])) for r in found} == expected
    assert len(found) == len(expected)
    spark.catalog.clearCache()

"""Numbers that change between profiles change no generated code, and stay what they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pubweave.pipeline.frames.settings import moving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compiled(spark: SparkSession) -> int:
    """How many classes Spark has compiled so far."""
    package = spark.sparkContext._jvm.org.apache.spark.metrics.source  # type: ignore[union-attr]
    metrics = getattr(getattr(package, "CodegenMetrics$"), "MODULE$")
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def total(spark: SparkSession, text: str) -> float:
    return float(spark.range(5).selectExpr(f"sum(id * {text}) AS total").collect()[0]["total"])


def test_another_number_compiles_nothing(spark: SparkSession) -> None:
    total(spark, moving(1.25))
    before = compiled(spark)
    assert total(spark, moving(2.75)) == 27.5
    assert compiled(spark) == before
    assert total(spark, "3.75D") == 37.5
    assert compiled(spark) > before, "written into the query it would compile, or we count nothing"


@pytest.mark.parametrize("value", [0.1, 1794826452.409714, -3.5e-7, math.inf, 7, -(2**60)])
def test_a_number_arrives_as_it_is(spark: SparkSession, value: float) -> None:
    row = spark.range(1).selectExpr(f"{moving(value)} AS value").collect()[0]
    assert row["value"] == value
    assert type(row["value"]) is type(value)

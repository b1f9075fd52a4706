"""Sweeps over parameters on Spark: rows of parameters in, the rows of their runs out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from pubweave.pipeline.tco_build import on_spark

Row = dict[str, Any]


def swept_rows(
    spark: SparkSession,
    run: Callable[[Row], list[Row]],
    parameters: Sequence[Row],
    on_progress: Callable[[float], None],
) -> list[Row]:
    """What `run` makes of each row of parameters, in their order; one Spark task each.

    ``run`` must be a function of a module: workers import it."""
    if not parameters:
        return []
    found = on_spark(spark, on_progress)(run, parameters)
    return [row for rows in found for row in rows]

"""Matrices of round-trip times as measured links between all pairs.

Two forms are understood: a square matrix without a header (row i, column j), and a table
``slice,node,n0,n1,...`` with a row per time slice and node. Zero between different nodes means that
nothing was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pubweave.pipeline.importers.subscriptions import (
    ImportDataError,
    Imported,
    read_lines,
    recorded,
    split_sound,
    write_import,
)

HEADER = "slice,node,n0"


def import_latency(spark: SparkSession, paths: Sequence[str], output: str) -> Imported:
    """Matrices into the table of round trips; each file or slice is a second."""
    cells: DataFrame | None = None
    for number, path in enumerate(paths):
        found = _cells(read_lines(spark, path), number)
        cells = found if cells is None else cells.unionByName(found)
    if cells is None:
        raise ImportDataError("name at least one file")
    measured = cells.where("row != column and (rtt is null or rtt != 0)")
    checks = [(F.col("rtt").isNull() | (F.col("rtt") < 0), "not a round-trip time")]
    sound, refused = split_sound(measured, "link_rtts", checks)
    rtts = sound.select(
        F.col("at").cast("double").alias("sampled_at"),
        F.concat(F.lit("n"), F.lpad(F.col("row").cast("string"), 4, "0")).alias("broker"),
        F.concat(F.lit("n"), F.lpad(F.col("column").cast("string"), 4, "0")).alias("neighbor"),
        F.col("rtt").alias("rtt_ms"),
    )
    records = recorded(rtts, "link_rtts", ["sampled_at", "broker", "neighbor"])
    return write_import(spark, output, "link_rtts", records, refused, {"kind": "latency"})


def _cells(lines: DataFrame, file: int) -> DataFrame:
    """One row per cell: at, row, column, rtt, and the text it was."""
    first = lines.where("line = 0").first()
    if first is None:
        raise ImportDataError("an empty file has no matrix")
    if first["value"].startswith(HEADER):
        parts = F.split("value", ",")
        body = lines.where("line > 0").select(
            parts[0].try_cast("long").alias("at"),
            parts[1].try_cast("long").alias("row"),
            F.slice(parts, 3, 100_000).alias("cells"),
        )
    else:
        body = lines.select(
            F.lit(file).cast("long").alias("at"),
            F.col("line").cast("long").alias("row"),
            F.split("value", ",").alias("cells"),
        )
    return body.select("at", "row", F.posexplode("cells").alias("column", "text")).withColumn(
        "rtt", F.col("text").try_cast("double")
    )

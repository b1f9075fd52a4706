"""Stock quotes as publications: a publisher per symbol, a quote per trading day.

The columns are those of the quotes that POP and GRAPE were measured with: class, symbol, date,
open, high, low, close, volume. A calendar day becomes a second, so that decades can be replayed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pubweave.model.publications import FRAME_OVERHEAD_BYTES
from pubweave.pipeline.importers.subscriptions import (
    Imported,
    read_rows,
    recorded,
    split_sound,
    write_import,
)

NUMBERS = ("open", "high", "low", "close", "volume")
COLUMNS = ("class", "symbol", "date", *NUMBERS)


def import_stocks(spark: SparkSession, paths: Sequence[str], output: str) -> Imported:
    """Quotes of CSV files into the table of publications."""
    quotes = read_rows(spark, paths, [COLUMNS])
    parsed = quotes.withColumn("day", F.try_to_timestamp("date", F.lit("yyyy-MM-dd")).cast("date"))
    checks = [
        (F.col("day").isNull(), "not a date: date"),
        (F.col("symbol").isNull(), "missing value: symbol"),
        (F.col("class").isNull(), "missing value: class"),
        *((F.col(name).try_cast("double").isNull(), f"not a number: {name}") for name in NUMBERS),
    ]
    sound, refused = split_sound(parsed, "publications", checks)
    records = recorded(stock_publications(sound), "publications", ["published_at", "publisher"])
    return write_import(spark, output, "publications", records, refused, {"kind": "stocks"})


def stock_publications(quotes: DataFrame) -> DataFrame:
    """Quotes as publications; those of a day are spread over its second by their symbol."""
    by_day = Window.partitionBy("symbol").orderBy("day", *NUMBERS)
    in_day = Window.partitionBy("day").orderBy("symbol", *NUMBERS)
    of_day = Window.partitionBy("day")
    fraction = (F.row_number().over(in_day) - 1) / F.count(F.lit(1)).over(of_day)
    at = F.unix_date("day") + fraction
    size = F.lit(FRAME_OVERHEAD_BYTES) + F.length("symbol") * 2 + F.length("class")
    return quotes.select(
        at.alias("published_at"),
        at.alias("accepted_at"),
        F.col("symbol").alias("publisher"),
        F.row_number().over(by_day).alias("sequence"),
        F.col("class").alias("topic"),
        (size + sum(len(name) + 9 for name in NUMBERS)).alias("size_bytes"),
        _attributes().alias("attributes"),
        F.lit(1.0).alias("sample_ratio"),
        F.lit(0.0).alias("queueing_ms"),
        F.lit(None).cast("double").alias("matching_ms"),
    )


def _attributes() -> Column:
    def typed(text: Column | None, number: Column | None) -> Column:
        nothing = F.lit(None)
        return F.struct(
            (nothing if text is None else text).cast("string").alias("text"),
            (nothing if number is None else number).cast("double").alias("number"),
            nothing.cast("boolean").alias("boolean"),
        )

    pairs: list[Column] = [F.lit("symbol"), typed(F.col("symbol"), None)]
    for name in NUMBERS:
        pairs += [F.lit(name), typed(None, F.col(name))]
    return F.create_map(*pairs)

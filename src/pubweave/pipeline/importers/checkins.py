"""Check-ins of people as DYNATOPS' location-based subscriptions.

Where somebody checks in is where they want news from: the cell of a grid is a topic, and going to
another cell ends the subscription to the last one. Columns: user, time, lat, lon.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pubweave.pipeline.importers.subscriptions import (
    Imported,
    read_rows,
    recorded,
    split_sound,
    topic_filter,
    write_import,
)

COLUMNS = ("user", "time", "lat", "lon")
CELL_DEGREES = 0.01
"""About a kilometre: a neighborhood of a city."""


def import_checkins(
    spark: SparkSession, paths: Sequence[str], output: str, cell_degrees: float = CELL_DEGREES
) -> Imported:
    """Check-ins of CSV files into the table of subscription changes; the first is second 0."""
    rows = read_rows(spark, paths, [COLUMNS])
    instant = F.coalesce(
        F.try_to_timestamp("time", F.lit("yyyy-MM-dd'T'HH:mm:ssX")),
        F.try_to_timestamp("time", F.lit("yyyy-MM-dd HH:mm:ss")),
    )
    parsed = rows.select(
        "*",
        F.unix_seconds(instant).alias("at_s"),
        F.col("lat").try_cast("double").alias("latitude"),
        F.col("lon").try_cast("double").alias("longitude"),
    )
    checks = [
        (F.col("user").isNull(), "missing value: user"),
        (F.col("at_s").isNull(), "not a time: time"),
        (~F.coalesce(F.col("latitude").between(-90, 90), F.lit(False)), "not a latitude: lat"),
        (~F.coalesce(F.col("longitude").between(-180, 180), F.lit(False)), "not a longitude: lon"),
    ]
    sound, refused = split_sound(parsed, "subscription_changes", checks)
    changes = location_changes(sound, cell_degrees)
    order: list[str | Column] = ["changed_at", "client", F.desc("change"), "subscription"]
    records = recorded(changes, "subscription_changes", order)
    return write_import(
        spark, output, "subscription_changes", records, refused,
        {"kind": "checkins", "cell_degrees": str(cell_degrees)},
    )  # fmt: skip


def location_changes(checkins: DataFrame, cell_degrees: float) -> DataFrame:
    """A subscription comes with the check-in in another cell, and the one before goes."""
    cell = F.concat_ws(
        ":",
        F.lit("cell"),
        F.floor(F.col("latitude") / cell_degrees),
        F.floor(F.col("longitude") / cell_degrees),
    )
    first_at = F.min("at_s").over(Window.partitionBy())
    of_user = Window.partitionBy("user").orderBy("at_s", "wanted")
    moves = (
        checkins.select("user", (F.col("at_s") - first_at).cast("double").alias("changed_at"),
                        "at_s", cell.alias("wanted"))
        .withColumn("last", F.lag("wanted").over(of_user))
        .where("last is null or last != wanted")
        .withColumn("visit", F.row_number().over(of_user))
    )  # fmt: skip
    came = moves.select("user", "changed_at", "wanted", "visit", F.lit("added").alias("change"))
    went = moves.where("last is not null").select(
        "user", "changed_at", F.col("last").alias("wanted"), (F.col("visit") - 1).alias("visit"),
        F.lit("removed").alias("change"),
    )  # fmt: skip
    return came.unionByName(went).select(
        "changed_at",
        F.col("user").alias("client"),
        F.concat(F.lit("visit-"), F.col("visit")).alias("subscription"),
        topic_filter().alias("filter"),
        F.col("wanted").alias("topic"),
        "change",
    )

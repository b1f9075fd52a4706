"""Who follows what, as subscriptions that all come at the beginning.

Understood are pairs of client and topic under several names: client,topic (or client,filter),
follower,topic, user,artist and the plain u,v of friendships.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pubweave.model.telemetry import TABLES
from pubweave.pipeline.frames.locations import Storage, absolute, joined, local_path
from pubweave.pipeline.frames.schemas import as_declared, telemetry_schema
from pubweave.telemetry.run_description import RUN_FILE, RunClock, RunDescription

HEADERS = (
    ("client", "topic"),
    ("client", "filter"),
    ("follower", "topic"),
    ("user", "artist"),
    ("user", "friend"),
    ("u", "v"),
)


def import_subscriptions(spark: SparkSession, paths: Sequence[str], output: str) -> Imported:
    """Pairs of CSV files into the table of subscription changes."""
    pairs = read_rows(spark, paths, HEADERS)
    is_filter = pairs.columns[1] == "filter"
    named = pairs.toDF("client", "wanted")
    checks = [
        (F.col(name).isNull() | (F.trim(name) == ""), f"missing value: {pairs.columns[place]}")
        for place, name in enumerate(("client", "wanted"))
    ]
    sound, refused = split_sound(named, "subscription_changes", checks)
    changes = subscription_changes(sound, is_filter=is_filter)
    records = recorded(changes, "subscription_changes", ["client", "filter"])
    return write_import(
        spark, output, "subscription_changes", records, refused, {"kind": "subscriptions"}
    )


def subscription_changes(pairs: DataFrame, *, is_filter: bool) -> DataFrame:
    """Each distinct pair as a subscription that came at second 0."""
    distinct = pairs.distinct()
    topic = F.lit(None).cast("string") if is_filter else F.col("wanted")
    written = F.col("wanted") if is_filter else topic_filter()
    return distinct.select(
        F.lit(0.0).alias("changed_at"),
        "client",
        F.concat(F.lit("s-"), F.col("wanted")).alias("subscription"),
        written.alias("filter"),
        topic.alias("topic"),
        F.lit("added").alias("change"),
    )


def topic_filter(column: str = "wanted") -> Column:
    """The filter of one topic, as the model writes it."""
    quoted = F.replace(F.col(column), F.lit("'"), F.lit("''"))
    return F.concat(F.lit("class = '"), quoted, F.lit("'"))


# Reading files of outside data, and writing what they say as telemetry of a run.
#
# A row that cannot be understood is kept out with its reason, as records are. Everything imported
# is recorded by one made-up broker, numbered from 0: importing the same files again gives the
# same records.


BROKER = "imported"
QUARANTINE = "quarantine"


class ImportDataError(ValueError):
    """Files that cannot be imported, with the reason and what is expected."""


@dataclass(frozen=True)
class Imported:
    """What became of the rows of the files."""

    table: str
    records: int
    refused: int
    example: str | None


def read_rows(
    spark: SparkSession, paths: Sequence[str], expected: Iterable[Sequence[str]]
) -> DataFrame:
    """All rows of CSV files with a header, as texts, gzip or not.

    ``expected`` are the headers that the kind of data can have: each names columns that must be
    there; others are left alone.
    """
    frames = []
    choices = [tuple(names) for names in expected]
    for path in paths:
        _check_there(path)
        try:
            frame = spark.read.csv(absolute(path), header=True, inferSchema=False)
        except PySparkException as error:
            raise ImportDataError(f"{path} cannot be read: {error}") from error
        found = next((c for c in choices if set(c) <= set(frame.columns)), None)
        if found is None:
            wanted = " or ".join(",".join(names) for names in choices)
            raise ImportDataError(
                f"{path} has the columns {','.join(frame.columns)}: expected {wanted}"
            )
        frames.append(frame.select(*found))
    if any(frame.columns != frames[0].columns for frame in frames):
        raise ImportDataError(f"{', '.join(paths)} have different columns: import them apart")
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    return together


def read_lines(spark: SparkSession, path: str) -> DataFrame:
    """The lines of a file without a header, numbered from 0 in ``line``, as ``value``."""
    _check_there(path)
    lines = spark.read.text(absolute(path)).withColumn("place", F.monotonically_increasing_id())
    order = Window.partitionBy().orderBy("place")
    return lines.select((F.row_number().over(order) - 1).alias("line"), "value")


def recorded(frame: DataFrame, table: str, order: Sequence[str | Column]) -> DataFrame:
    """Rows as records of a telemetry table: the made-up broker's, numbered in an order."""
    numbered = Window.partitionBy().orderBy(*order)
    named = (
        frame.withColumn("epoch", F.lit(0).cast("long"))
        .withColumn("record_number", (F.row_number().over(numbered) - 1).cast("long"))
    )  # fmt: skip
    if "broker" not in frame.columns:
        named = named.withColumn("broker", F.lit(BROKER))
    fields = telemetry_schema(table).fields
    return named.select(*(F.col(field.name).cast(field.dataType) for field in fields))


def write_import(
    spark: SparkSession,
    output: str,
    table: str,
    records: DataFrame,
    refused: DataFrame,
    details: Mapping[str, str],
) -> Imported:
    """Write records and refused rows below ``output``; the run's description comes last."""
    storage = Storage(spark)
    target = absolute(output)
    if storage.exists(joined(target, table)):
        raise ImportDataError(f"{output} has {table} already: choose another -o")
    kept_out = joined(target, QUARANTINE, table)
    as_declared(refused, QUARANTINE).write.mode("overwrite").parquet(kept_out)
    bad = spark.read.parquet(kept_out)
    records.write.mode("error").parquet(joined(target, table))
    written = spark.read.parquet(joined(target, table))
    instant = TABLES[table].columns[0].name
    [row] = written.agg(F.count(F.lit(1)).alias("n"), F.min(instant).alias("first_at")).collect()
    if not row["n"]:
        storage.remove(joined(target, table))
        example = bad.first()
        reason = (
            "they have no rows" if example is None else f"{example['reason']}: {example['record']}"
        )
        raise ImportDataError(f"none of the rows can be used: {reason}")
    if not storage.exists(joined(target, RUN_FILE)):
        run = RunDescription("import", RunClock.VIRTUAL, float(row["first_at"]), 1.0, dict(details))
        text = msgspec.json.format(msgspec.json.encode(run), indent=2)
        storage.replace(joined(target, RUN_FILE), text + b"\n")
    example = bad.first()
    return Imported(
        table, int(row["n"]), bad.count(), None if example is None else str(example["record"])
    )


def split_sound(
    frame: DataFrame, table: str, checks: Sequence[tuple[Column, str]]
) -> tuple[DataFrame, DataFrame]:
    """Sound rows, and the others as rows of a quarantine. A check is true for a bad row."""
    reason = F.coalesce(*(F.when(wrong, F.lit(why)) for wrong, why in checks))
    judged = frame.withColumn("reason", reason)
    refused = judged.where("reason is not null").select(
        F.lit(table).alias("table"),
        "reason",
        F.lit(BROKER).alias("broker"),
        F.lit(None).cast("long").alias("epoch"),
        F.lit(None).cast("long").alias("record_number"),
        F.to_json(F.struct(*frame.columns)).alias("record"),
    )
    return judged.where("reason is null").drop("reason"), refused


def _check_there(path: str) -> None:
    local = local_path(path)
    if local is not None and not local.is_file():
        raise ImportDataError(f"{path} is no file")

"""Importers: data of other systems, written as the telemetry of a run, with a quarantine.

**Who follows what** are subscriptions that all come at the beginning: pairs of client and topic
under several names: client,topic (or client,filter), follower,topic, user,artist and the plain u,v
of friendships.

**Quotes** (class, symbol, date, open, high, low, close, volume) are publications: a publisher per
symbol, a quote per trading day. A calendar day becomes a second, so that decades can be replayed.
**Check-ins** (user, time, lat, lon) are DYNATOPS' location-based subscriptions: the cell of a grid
is a topic, and going to another cell ends the subscription to the last one.
**Matrices of round trips** are measured links between all pairs: a square matrix without a header
(row i, column j), or a table ``slice,node,n0,n1,...`` with a row per time slice and node. Zero
between different nodes means that nothing was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pubweave.model.publications import FRAME_OVERHEAD_BYTES
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


CHECKIN_COLUMNS = ("user", "time", "lat", "lon")
CELL_DEGREES = 0.01
"""About a kilometre: a neighborhood of a city."""


def import_checkins(
    spark: SparkSession, paths: Sequence[str], output: str, cell_degrees: float = CELL_DEGREES
) -> Imported:
    """Check-ins of CSV files into the table of subscription changes; the first is second 0."""
    rows = read_rows(spark, paths, [CHECKIN_COLUMNS])
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

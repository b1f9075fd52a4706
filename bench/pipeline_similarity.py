"""User-broker similarity candidates: by joins, as the pipeline does it, and by MinHash.

``python -m bench.pipeline_similarity``. DYNATOPS asks for the brokers that already want most
of a user's topics. A join over topics counts them exactly. MinHash estimates how alike two sets
are from the smallest hashes of each; here a user's set is small and a broker's large, so the share
of the union is turned into one of the user's set, by inclusion and exclusion: sizes are known.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

USERS, TOPICS, BROKERS, TOPICS_PER_USER, TASTES = 50_000, 1_000, 100, 10, 40
CANDIDATES = 5
HASHES = 128


def intervals(spark: SparkSession, rng: np.random.Generator) -> DataFrame:
    """Subscriptions that stand: users share tastes, and half of them are where theirs is common."""
    taste = rng.integers(0, TASTES, USERS)
    placed = np.where(rng.random(USERS) < 0.5, taste * BROKERS // TASTES, 0)
    broker = np.where(placed > 0, placed, rng.integers(0, BROKERS, USERS))
    liked = rng.permuted(np.tile(np.arange(TOPICS), (TASTES, 1)), axis=1)
    rank = np.minimum(rng.zipf(1.4, (USERS, TOPICS_PER_USER)) - 1, TOPICS - 1)
    topic = liked[taste[:, None], rank]
    pairs = np.unique(
        np.stack([np.repeat(np.arange(USERS), TOPICS_PER_USER), topic.ravel()]), axis=1
    )
    table = pa.table({
        "client": pa.array([f"u{i}" for i in pairs[0].tolist()]),
        "topic": pa.array([f"t{i}" for i in pairs[1].tolist()]),
        "broker": pa.array([f"b{i}" for i in broker[pairs[0]].tolist()]),
        "added_at": np.zeros(pairs.shape[1]),
        "removed_at": pa.nulls(pairs.shape[1], pa.float64()),
    })  # fmt: skip
    return spark.createDataFrame(table)


def by_joins(wanted: DataFrame, offered: DataFrame, stands: DataFrame) -> DataFrame:
    from pubweave.pipeline.transforms.subscriptions import placement_candidates

    return placement_candidates(wanted, offered, stands, CANDIDATES)


def by_minhash(wanted: DataFrame, offered: DataFrame, stands: DataFrame) -> DataFrame:
    """The same number of candidates by estimated similarity; the users' own topics count."""
    users = _signatures(wanted, "client")
    brokers = _signatures(offered, "broker").toDF("broker", "broker_signature", "broker_size")
    equal = F.expr("aggregate(zip_with(signature, broker_signature, (x, y) -> int(x = y)), 0, "
                   "(sum, x) -> sum + x)")  # fmt: skip
    alike = equal / HASHES
    shared = alike / (1.0 + alike) * (F.col("size") + F.col("broker_size"))
    scored = users.crossJoin(F.broadcast(brokers)).withColumn("similarity", shared / F.col("size"))
    best = Window.partitionBy("client").orderBy(F.desc("similarity"), "broker")
    ranked = scored.withColumn("rank", F.row_number().over(best)).where(f"rank <= {CANDIDATES}")
    return ranked.select("client", "broker", "similarity", "rank")


def _signatures(sets: DataFrame, key: str) -> DataFrame:
    smallest = [F.min(F.xxhash64(F.lit(i), "topic")).alias(f"h{i}") for i in range(HASHES)]
    return (
        sets.groupBy(key)
        .agg(*smallest, F.count(F.lit(1)).alias("size"))
        .select(key, F.array(*(f"h{i}" for i in range(HASHES))).alias("signature"), "size")
    )


def _timed(make: Callable[[], DataFrame], path: Path) -> float:
    started = time.monotonic()
    make().write.mode("overwrite").parquet(str(path))
    return time.monotonic() - started


def _similarities(
    wanted: DataFrame, offered: DataFrame, stands: DataFrame, exact: DataFrame, near: DataFrame
) -> dict[str, float]:
    """The true similarity of what each way chose, on the average."""
    from pubweave.pipeline.transforms.subscriptions import placement_candidates

    true = placement_candidates(wanted, offered, stands, BROKERS).select(
        "client", "broker", "similarity"
    )
    chosen = near.select("client", "broker").join(true, ["client", "broker"], "left")
    means = {
        name: frame.agg(F.avg(F.coalesce("similarity", F.lit(0.0)))).collect()[0][0]
        for name, frame in (("joins", exact), ("minhash", chosen))
    }
    return {name: round(mean, 3) for name, mean in means.items()}


def main() -> int:
    """Both ways, twice each: seconds of the second time, and how much MinHash finds."""
    from pubweave.pipeline.frames.session import spark_session
    from pubweave.pipeline.transforms.subscriptions import client_topics

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        spark = spark_session(memory="3g", log=folder / "spark.log")
        stands = intervals(spark, np.random.default_rng(1)).cache()
        wanted = client_topics(
            stands.withColumns({"subscription": F.lit("s"), "filter": F.lit("")})
        )
        wanted = wanted.cache()
        offered = wanted.groupBy("broker", "topic").agg(F.count(F.lit(1)).alias("clients")).cache()
        counts = {"pairs of user and topic": wanted.count(), "of broker and topic": offered.count()}
        seconds = {}
        for name, make in (("joins", by_joins), ("minhash", by_minhash)):
            for _ in range(2):
                took = _timed(lambda make=make: make(wanted, offered, stands), folder / name)
            seconds[name] = round(took, 2)
        exact, near = (spark.read.parquet(str(folder / name)) for name in ("joins", "minhash"))
        found = exact.join(near.select("client", "broker"), ["client", "broker"]).count()
        told = counts | {"seconds": seconds, "hashes": HASHES}
        told["share of the exact candidates found"] = round(found / exact.count(), 3)
        told["mean similarity of candidates"] = _similarities(wanted, offered, stands, exact, near)
        print(json.dumps(told))
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

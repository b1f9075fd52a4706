"""Outside data as telemetry: every row counted, bad rows told, and the result can be profiled."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from pubweave.model.files.profile import WorkloadProfile
from pubweave.pipeline.frames.settings import ProfileSettings
from tests.shared_data import shared_data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUOTES = """class,symbol,date,open,high,low,close,volume
STOCK,YHOO,1996-09-05,18.37,18.62,18.37,18.37,6200
STOCK,YHOO,1996-09-06,18.5,19,18.25,18.75,7000
STOCK,AAPL,1996-09-05,24,24.5,23,24.25,100
STOCK,AAPL,yesterday,24,24.5,23,24.25,100
STOCK,AAPL,1996-09-07,24,high,23,24.25,100
"""
CHECKINS = """user,time,lat,lon,venue
7,2010-10-07T15:00:00Z,40.643,-73.782,1
7,2010-10-07T16:00:00Z,40.6431,-73.7821,2
7,2010-10-07 17:00:00,40.75,-73.97,3
8,2010-10-07T15:30:00Z,40.643,-73.782,1
9,2010-10-07T15:30:00Z,140.643,-73.782,1
"""


def rows(directory: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(directory / table).to_pylist()
    return sorted(found, key=lambda row: row["record_number"] or 0)


def test_quotes_are_publications_of_their_symbol(spark: SparkSession, tmp_path: Path) -> None:
    from pubweave.pipeline.importers import import_stocks

    source = tmp_path / "quotes.csv.gz"
    source.write_bytes(gzip.compress(QUOTES.encode()))
    done = import_stocks(spark, [str(source)], str(tmp_path / "run"))
    assert (done.records, done.refused) == (3, 2)
    published = rows(tmp_path / "run", "publications")
    assert [row["record_number"] for row in published] == [0, 1, 2]
    named = [(row["publisher"], row["sequence"]) for row in published]
    assert named == [("AAPL", 1), ("YHOO", 1), ("YHOO", 2)]
    days = [int(row["published_at"]) for row in published]
    assert [day - days[0] for day in days] == [0, 0, 1]
    attributes = dict(published[1]["attributes"])
    assert attributes["symbol"] == {"text": "YHOO", "number": None, "boolean": None}
    assert attributes["open"]["number"] == 18.37
    reasons = {row["reason"] for row in rows(tmp_path / "run", "quarantine/publications")}
    assert reasons == {"not a date: date", "not a number: high"}


def test_a_checkin_elsewhere_changes_the_subscription(spark: SparkSession, tmp_path: Path) -> None:
    from pubweave.pipeline.importers import import_checkins

    source = tmp_path / "checkins.csv"
    source.write_text(CHECKINS)
    done = import_checkins(spark, [str(source)], str(tmp_path / "run"))
    assert done.refused == 1
    changes = [
        (row["changed_at"], row["client"], row["change"], row["topic"])
        for row in rows(tmp_path / "run", "subscription_changes")
    ]
    home, town = "cell:4064:-7379", "cell:4075:-7397"
    assert changes == [
        (0.0, "7", "added", home),
        (1800.0, "8", "added", home),
        (7200.0, "7", "removed", home),
        (7200.0, "7", "added", town),
    ]


def test_pairs_and_matrices_make_one_run_that_can_be_profiled(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pubweave.pipeline.batch import run_profile
    from pubweave.pipeline.importers import import_latency, import_subscriptions

    (tmp_path / "pairs.csv").write_text("follower,topic\n1,a\n1,it's\n2,a\n1,a\n,a\n")
    (tmp_path / "matrix.csv").write_text("0,2.5,0\n2.5,0,4\n0,x,0\n")
    run = tmp_path / "run"
    pairs = import_subscriptions(spark, [str(tmp_path / "pairs.csv")], str(run))
    assert (pairs.records, pairs.refused) == (3, 1)
    matrix = import_latency(spark, [str(tmp_path / "matrix.csv")], str(run))
    assert (matrix.records, matrix.refused) == (3, 1)
    run_profile(spark, str(run), str(tmp_path / "profile"), ProfileSettings(), now=0.0)
    profile = WorkloadProfile(tmp_path / "profile")
    wanted = {(row["client"], row["topic"]) for row in profile.rows("client_topics")}
    assert wanted == {("1", "a"), ("1", "it's"), ("2", "a")}
    costs = {(r["broker_a"], r["broker_b"]): r["cost_ms"] for r in profile.rows("links")}
    assert costs == {("n0000", "n0001"): 1.25, ("n0001", "n0002"): 2.0}
    assert not profile.description.quarantine


def test_files_of_another_kind_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    from pubweave.pipeline.importers import ImportDataError, import_stocks

    source = tmp_path / "checkins.csv"
    source.write_text(CHECKINS)
    with pytest.raises(ImportDataError, match="expected class,symbol,date"):
        import_stocks(spark, [str(source)], str(tmp_path / "run"))
    with pytest.raises(ImportDataError, match="is no file"):
        import_stocks(spark, [str(tmp_path / "missing.csv")], str(tmp_path / "run"))
    source.write_text("class,symbol,date,open,high,low,close,volume\nSTOCK,A,never,1,1,1,1,1\n")
    with pytest.raises(ImportDataError, match="none of the rows can be used: not a date"):
        import_stocks(spark, [str(source)], str(tmp_path / "run"))


@pytest.mark.data
@pytest.mark.slow
def test_the_papers_quotes_are_all_there(spark: SparkSession, tmp_path: Path) -> None:
    from pubweave.pipeline.importers import import_stocks

    source = shared_data("stocks/padres_stockquotes.csv.gz")
    with gzip.open(source, "rt") as lines:
        quotes = sum(1 for _ in lines) - 1
    done = import_stocks(spark, [str(source)], str(tmp_path / "run"))
    assert (done.records, done.refused) == (quotes, 0)

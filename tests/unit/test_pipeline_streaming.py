"""Following a run gives the tables of a batch, whatever happens in between."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pubweave.model.profile import ProfileError
from pubweave.model.profile_files import WorkloadProfile
from pubweave.pipeline.settings import ProfileSettings
from pubweave.telemetry.parquet import write_records
from tests.naive.profiles import assert_same_tables
from tests.naive.telemetry_world import World, make_world, write_description, write_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ProfileSettings(slot_s=7.0)


def write_part(world: World, directory: Path, part: int, parts: int, unique: str) -> None:
    """One share of the records, in the order of their making."""
    write_description(directory)
    for table, records in world.records.items():
        begin, end = (len(records) * p // parts for p in (part, part + 1))
        if records[begin:end]:
            write_records(directory, "all", part, table, records[begin:end], unique=unique)


@pytest.mark.slow
def test_a_stream_with_a_crash_and_a_restart_equals_a_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pubweave.pipeline import streaming
    from pubweave.pipeline.jobs.profile import run_profile

    world = make_world(21)
    source, output = tmp_path / "run", tmp_path / "followed"

    def follower() -> streaming.Follower:
        return streaming.Follower(spark, str(source), str(output), SETTINGS)

    write_part(world, source, 0, 3, "first")
    first = follower().catch_up()
    assert first is not None
    assert first.batch == 0

    # The second batch dies after its records are in the ledger; more comes before the restart.
    write_part(world, source, 1, 3, "second")
    build = streaming.build_profile

    def dying(*arguments: object, **named: object) -> None:
        raise RuntimeError("the machine went down")

    monkeypatch.setattr(streaming, "build_profile", dying)
    with pytest.raises(RuntimeError, match="the machine went down"):
        follower().catch_up()
    monkeypatch.setattr(streaming, "build_profile", build)
    assert WorkloadProfile(output).description.batch == 0
    write_part(world, source, 2, 3, "third")
    write_part(world, source, 0, 3, "again")

    last = follower().catch_up()
    assert last is not None
    assert last.batch == 2
    assert follower().catch_up() is None, "nothing new, nothing done"

    write_world(world, tmp_path / "whole")
    run_profile(spark, str(tmp_path / "whole"), str(tmp_path / "batch"), SETTINGS, now=0.0)
    followed, batch = WorkloadProfile(output), WorkloadProfile(tmp_path / "batch")
    assert_same_tables(followed, batch, but=("telemetry_gaps",))
    repeated = sum(source.duplicates for source in followed.description.sources.values())
    assert repeated == sum(len(records) // 3 for records in world.records.values())


def test_a_directory_follows_one_run(spark: SparkSession, tmp_path: Path) -> None:
    from pubweave.pipeline.streaming import Follower

    for name in ("one", "other"):
        write_description(tmp_path / name)
    Follower(spark, str(tmp_path / "one"), str(tmp_path / "out"), SETTINGS)
    with pytest.raises(ProfileError, match="choose another -o"):
        Follower(spark, str(tmp_path / "other"), str(tmp_path / "out"), SETTINGS)


def test_many_batches_are_copied_into_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pubweave.pipeline import ledger as ledgers

    monkeypatch.setattr(ledgers, "MANY_BATCHES", 2)
    world = make_world(22)
    ledger = ledgers.Ledger(spark, str(tmp_path / "ledger"))
    for batch in range(4):
        write_part(world, tmp_path / "run", batch, 4, "part")
        paths = sorted((tmp_path / "run" / "deliveries").glob(f"all-{batch:06d}-*.parquet"))
        ledger.write(batch, {"deliveries": [str(path) for path in paths]}, [])
        ledger.gather(batch)
    kept = sorted(path.name for path in (tmp_path / "ledger" / "deliveries").iterdir())
    assert kept == ["batch=000000003", "upto=000000002"]
    count = ledger.frames(3)["deliveries"].count()
    assert count == len(world.records["deliveries"])
    assert ledger.file_counts(3)["deliveries"] == 4

"""Bad input is named and kept out; what was read twice counts once; half a profile is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.profile import ProfileError
from pubweave.model.telemetry import TABLES, Record
from pubweave.pipeline.frames.settings import ProfileSettings
from pubweave.pipeline.profiling import screening as rules
from pubweave.pipeline.profiling import sources
from pubweave.telemetry.parquet import arrow_schema, write_records
from pubweave.telemetry.run_description import TelemetryError
from tests.naive.profiles import assert_same_tables
from tests.naive.telemetry_world import World, make_world, write_description, write_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ProfileSettings(slot_s=7.0)


def run(spark: SparkSession, source: Path, output: Path) -> WorkloadProfile:
    from pubweave.pipeline.batch import run_profile

    run_profile(spark, str(source), str(output), SETTINGS, now=0.0)
    return WorkloadProfile(output)


def changed(record: Record, table: str, **values: Any) -> Record:
    """A record with other values, and a number nobody else has."""
    row = dict(zip(TABLES[table].column_names, record, strict=True)) | values
    return tuple(row.values())


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("deliveries", {"delivered_at": math.nan}, f"{rules.NOT_FINITE}: delivered_at"),
    ("deliveries", {"client": ""}, f"{rules.MISSING}: client"),
    ("deliveries", {"delivered_at": -500.0}, rules.LATE),
    ("publications", {"sample_ratio": 0.0}, f"{rules.OUT_OF_RANGE}: sample_ratio"),
    ("publications", {"size_bytes": -1}, f"{rules.NEGATIVE}: size_bytes"),
    ("hops", {"from_broker": "b1", "to_broker": "b1"}, rules.CONTRADICTORY),
    ("link_changes", {"change": "exploded"}, rules.UNKNOWN_CHANGE),
    ("subscription_changes", {"change": "removed", "subscription": "none"}, rules.NEVER_ADDED),
]


def add_faults(world: World, directory: Path) -> None:
    """Records that break a rule each, beside the good ones."""
    for number, (table, values, _) in enumerate(FAULTS):
        # A sound record of another epoch would tell of a restart.
        name = {"record_number": 10_000 + number}
        if table != "subscription_changes":
            name["epoch"] = 99
        record = changed(world.records[table][0], table, **name, **values)
        write_records(directory, "bad", number, table, [record], unique="faults")
    # The same number again, with another content.
    twin = changed(world.records["deliveries"][0], "deliveries", latency_ms=99_999.0)
    write_records(directory, "bad", 100, "deliveries", [twin], unique="faults")


def add_bad_files(directory: Path) -> None:
    (directory / "hops" / "torn-000001-x.parquet").write_bytes(b"PAR1 and then the disk was full")
    (directory / "hops" / ".b1-000009-x.parquet.tmp").write_bytes(b"being written")
    other = pa.table({"delivered_at": [1.0], "broker": [5]})
    pq.write_table(other, directory / "deliveries" / "other-000001-x.parquet")


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(11)


@pytest.fixture(scope="module")
def sound(spark: SparkSession, world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run and its profile."""
    directory = tmp_path_factory.mktemp("sound")
    write_world(world, directory / "run")
    run(spark, directory / "run", directory / "profile")
    return directory


@pytest.fixture(scope="module")
def dirty(spark: SparkSession, world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, with copies of all its records, broken records and broken files."""
    directory = tmp_path_factory.mktemp("dirty")
    write_world(world, directory / "run" / "telemetry")
    write_world(world, directory / "run" / "telemetry", parts=3, unique="again")
    add_faults(world, directory / "run" / "telemetry")
    add_bad_files(directory / "run" / "telemetry")
    run(spark, directory / "run", directory / "profile")
    return directory


@pytest.mark.slow
def test_copies_and_broken_records_change_nothing(sound: Path, dirty: Path) -> None:
    left_out = ("quarantine", "telemetry_gaps", "subscription_rates", "broker_subscriptions")
    one, other = WorkloadProfile(dirty / "profile"), WorkloadProfile(sound / "profile")
    assert_same_tables(one, other, but=left_out)
    copies = {table: source.duplicates for table, source in one.description.sources.items()}
    records = {table: source.records for table, source in other.description.sources.items()}
    # One more delivery has a number that was taken.
    assert copies == {**records, "deliveries": records["deliveries"] + 1}


@pytest.mark.slow
def test_what_is_kept_out_has_its_reason(dirty: Path) -> None:
    profile = WorkloadProfile(dirty / "profile")
    reasons = {reason for _, _, reason in FAULTS}
    reasons |= {rules.CONTRADICTORY_COPY, sources.UNREADABLE, sources.WRONG_SCHEMA}
    assert set(profile.description.quarantine) == reasons
    assert profile.description.unreadable_files == 2
    rows = profile.rows("quarantine")
    assert len(rows) == len(reasons) == sum(profile.description.quarantine.values())
    files = [row["record"] for row in rows if row["reason"] == sources.UNREADABLE]
    assert files[0].endswith("torn-000001-x.parquet")


@pytest.mark.slow
def test_a_profile_made_again_is_the_same(spark: SparkSession, sound: Path, tmp_path: Path) -> None:
    first = WorkloadProfile(sound / "profile")
    again = run(spark, sound / "run", tmp_path / "again")
    assert_same_tables(again, first)


@pytest.mark.slow
def test_a_job_that_dies_leaves_the_profile_before_it(
    spark: SparkSession, sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pubweave.pipeline.profiling.output import ProfileOutput

    before = (sound / "profile" / "profile.json").read_bytes()
    write: Callable[..., Any] = ProfileOutput.write

    def dying(self: ProfileOutput, name: str, frame: Any) -> Any:
        if name == "audit":
            raise KeyboardInterrupt
        return write(self, name, frame)

    monkeypatch.setattr(ProfileOutput, "write", dying)
    with pytest.raises(KeyboardInterrupt):
        run(spark, sound / "run", sound / "profile")
    assert (sound / "profile" / "profile.json").read_bytes() == before
    left = sorted(path.name for path in (sound / "profile").glob("tables-*"))
    assert len(left) == 2, "the old tables and the unfinished ones"
    assert WorkloadProfile(sound / "profile").rows("audit")
    monkeypatch.undo()
    old = WorkloadProfile(sound / "profile")
    new = run(spark, sound / "run", sound / "profile")
    assert new.description.tables["audit"].path != old.description.tables["audit"].path
    assert not (sound / "profile" / left[1]).exists(), "what the dead job left is gone"
    assert old.rows("audit") == new.rows("audit"), "the version before is still there"
    assert not list((sound / "profile").glob("_scratch-*"))


def test_a_directory_without_a_run_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match="does not exist: name the directory of a run"):
        run(spark, tmp_path / "nowhere", tmp_path / "profile")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TelemetryError, match=r"has no run\.json"):
        run(spark, tmp_path / "empty", tmp_path / "profile")
    write_description(tmp_path / "empty")
    with pytest.raises(TelemetryError, match="has no telemetry yet"):
        run(spark, tmp_path / "empty", tmp_path / "profile")
    (tmp_path / "empty" / "hops").mkdir()
    (tmp_path / "empty" / "hops" / "a.parquet").write_bytes(b"half")
    with pytest.raises(TelemetryError, match="none of the 1 files"):
        run(spark, tmp_path / "empty", tmp_path / "profile")


@pytest.mark.slow
def test_two_jobs_do_not_write_to_one_directory(spark: SparkSession, sound: Path) -> None:
    from pubweave.pipeline.profiling.output import claimed

    with claimed(str(sound / "profile")), pytest.raises(ProfileError, match="another job"):
        run(spark, sound / "run", sound / "profile")


def test_every_telemetry_table_has_rules_that_accept_what_brokers_write(world: World) -> None:
    for table in TABLES:
        assert set(arrow_schema(table).names) == set(TABLES[table].column_names)
        assert world.records[table] or table == "advertisement_changes"

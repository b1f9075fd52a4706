"""Runs and profiles elsewhere than on a local path, by Hadoop's own file systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pubweave.model.files.profile import WorkloadProfile
from pubweave.pipeline.frames.settings import ProfileSettings
from tests.naive.profiles import assert_same_tables
from tests.naive.telemetry_world import make_world, write_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def mount(spark: SparkSession, folder: Path) -> str:
    """A view of a local folder that is no local path to us: everything goes through Hadoop."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    # Hadoop keeps the first view of a name: each folder has its own.
    name = folder.name.replace("_", "")
    settings.set(f"fs.viewfs.mounttable.{name}.link./data", folder.as_uri())
    return f"viewfs://{name}/data"


def test_files_are_replaced_listed_and_removed_by_uri(spark: SparkSession, tmp_path: Path) -> None:
    from pubweave.pipeline.frames.locations import Storage, local_path

    there = mount(spark, tmp_path)
    storage = Storage(spark)
    assert local_path(there) is None
    assert storage.read(f"{there}/a.json") is None
    storage.replace(f"{there}/a.json", b"one")
    storage.replace(f"{there}/a.json", b"two")
    assert storage.read(f"{there}/a.json") == b"two"
    assert (tmp_path / "a.json").read_bytes() == b"two"
    assert "a.json" in storage.names(there)
    storage.remove(f"{there}/a.json")
    assert not storage.exists(f"{there}/a.json")


def test_a_scheme_that_nobody_knows_is_named(spark: SparkSession) -> None:
    from pubweave.pipeline.frames.locations import LocationError, Storage

    with pytest.raises(LocationError, match="nowhere://host/run cannot be reached"):
        Storage(spark).names("nowhere://host/run")


@pytest.mark.slow
def test_a_profile_by_uris_equals_one_by_paths(spark: SparkSession, tmp_path: Path) -> None:
    from pubweave.pipeline.batch import run_profile

    settings = ProfileSettings(slot_s=7.0)
    write_world(make_world(31), tmp_path / "run")
    there = mount(spark, tmp_path)
    run_profile(spark, f"{there}/run", f"{there}/remote", settings, now=0.0)
    run_profile(spark, (tmp_path / "run").as_uri(), (tmp_path / "uri").as_uri(), settings, now=0.0)
    run_profile(spark, str(tmp_path / "run"), str(tmp_path / "path"), settings, now=0.0)
    by_path = WorkloadProfile(tmp_path / "path")
    assert_same_tables(WorkloadProfile(tmp_path / "remote"), by_path)
    assert_same_tables(WorkloadProfile(tmp_path / "uri"), by_path)

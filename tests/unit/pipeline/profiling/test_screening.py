"""One look at all records: what it counts, and when it looks for the future."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pubweave.model.telemetry import TABLES
from pubweave.pipeline.profiling.screening import TimeBounds
from tests.naive.telemetry_world import World, make_world, write_world

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(12)


@pytest.fixture(scope="module")
def frames(
    spark: SparkSession, world: World, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, DataFrame]:
    from pubweave.pipeline.profiling.sources import read_frames

    directory: Path = tmp_path_factory.mktemp("screened")
    write_world(world, directory, parts=1)
    tables = [table for table in TABLES if world.records[table]]
    return read_frames(spark, {table: [str(directory / table)] for table in tables})


@pytest.mark.parametrize("latest_at", [25.0, 1e9, float("inf")])
def test_only_what_lies_in_the_future_is_kept_out(
    frames: dict[str, DataFrame], world: World, latest_at: float
) -> None:
    from pubweave.pipeline.profiling.screening import screen

    found = screen(frames, TimeBounds(earliest_at=-60.0, latest_at=latest_at))
    for table, records in world.records.items():
        counted = [c for c in found.coverage if c.table == table]
        late = [record for record in records if record[0] > latest_at]
        assert sum(c.records for c in counted) == len(records)
        assert sum(c.faulty for c in counted) == len(late)
        assert found.has_faults(table) == bool(late)
    window = found.window()
    assert window is not None
    assert window[1] == max(
        record[0] for rows in world.records.values() for record in rows if record[0] <= latest_at
    )

"""Small tables that go by way of the driver."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pubweave.model.telemetry import TABLES
from pubweave.pipeline.frames import small_tables as held_tables
from pubweave.telemetry.parquet import record_batch
from tests.naive.telemetry_world import make_world, write_world


def test_several_files_become_one_with_all_their_records(tmp_path: Path) -> None:
    world = make_world(11)
    write_world(world, tmp_path, parts=3)
    for table, records in world.records.items():
        files = sorted((tmp_path / table).glob("*.parquet"))
        together = held_tables.gather(table, files)
        number = TABLES[table].column_names.index("record_number")
        told = sorted(together.column("record_number").to_pylist())
        assert told == sorted(record[number] for record in records)


def test_a_missing_value_is_left_for_the_quarantine(tmp_path: Path) -> None:
    batch = record_batch("deliveries", make_world(11).records["deliveries"][:1])
    place = batch.schema.get_field_index("client")
    broken = pa.Table.from_batches([batch]).set_column(place, "client", pa.nulls(1, pa.string()))
    pq.write_table(broken, tmp_path / "broken.parquet")
    told = held_tables.gather("deliveries", [tmp_path / "broken.parquet"])
    assert told.column("client").to_pylist() == [None]


def test_a_table_written_again_replaces_itself(tmp_path: Path) -> None:
    for rows in ([1, 2, 3], [4]):
        held_tables.write_table(tmp_path / "t", pa.table({"n": rows}))
    assert pq.read_table(tmp_path / "t").column("n").to_pylist() == [4]
    assert [path.name for path in (tmp_path / "t").iterdir()] == [held_tables.FILE_NAME]


def test_a_run_is_small_by_the_size_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not held_tables.is_small("hdfs://store/run"), "nobody looks there"
    assert not held_tables.is_small(str(tmp_path / "none"))
    (tmp_path / "hops").mkdir()
    (tmp_path / "hops" / "a.parquet").write_bytes(b"x" * 100)
    assert held_tables.is_small(str(tmp_path))
    monkeypatch.setattr(held_tables, "SMALL_BYTES", 99)
    assert not held_tables.is_small(str(tmp_path))

"""Following a run gives the tables of a batch, whatever happens in between."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.profile import ProfileError
from pubweave.pipeline.frames.settings import ProfileSettings
from pubweave.telemetry.parquet import write_records
from tests.naive.profiles import assert_same_tables
from tests.naive.telemetry_world import World, make_world, write_description, write_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pubweave.pipeline.streaming.follow import Follower

SETTINGS = ProfileSettings(slot_s=7.0, trace_length=20)


def write_part(world: World, directory: Path, part: int, parts: int, unique: str) -> None:
    """One share of the records, in the order of their making."""
    write_description(directory)
    for table, records in world.records.items():
        begin, end = (len(records) * p // parts for p in (part, part + 1))
        if records[begin:end]:
            write_records(directory, "all", part, table, records[begin:end], unique=unique)


def write_span(world: World, directory: Path, begin: float, end: float) -> None:
    """The records of a span of time."""
    write_description(directory)
    for table, records in world.records.items():
        chosen = [record for record in records if begin <= record[0] < end]
        if chosen:
            write_records(directory, "all", int(begin), table, chosen, unique="span")


@pytest.fixture
def closing_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A balance after every batch, of all that was over six seconds before its end."""
    from pubweave.pipeline.streaming import compaction as closing
    from pubweave.pipeline.streaming import follow as streaming

    monkeypatch.setattr(streaming, "OPEN_BATCHES_MAX", 1)
    monkeypatch.setattr(closing, "TELEMETRY_LAG_S", 6.0)


@pytest.mark.slow
@pytest.mark.usefixtures("closing_often")
def test_a_stream_with_a_crash_and_a_restart_equals_a_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pubweave.pipeline.batch import run_profile
    from pubweave.pipeline.streaming import follow as streaming

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
    assert last.refresh is not None
    assert last.refresh.rebuilt is not None, "copies of what is closed are not for a balance"
    assert follower().catch_up() is None, "nothing new, nothing done"

    write_world(world, tmp_path / "whole")
    run_profile(spark, str(tmp_path / "whole"), str(tmp_path / "batch"), SETTINGS, now=0.0)
    followed, batch = WorkloadProfile(output), WorkloadProfile(tmp_path / "batch")
    assert_same_tables(followed, batch, but=("telemetry_gaps",))
    repeated = sum(source.duplicates for source in followed.description.sources.values())
    assert repeated == sum(len(records) // 3 for records in world.records.values())


@pytest.mark.slow
@pytest.mark.usefixtures("closing_often")
@pytest.mark.parametrize("seed", [22, 23])
def test_what_is_closed_is_not_read_again_and_still_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """With a transformation in the middle, and a crash after a balance that nobody heard of."""
    from pubweave.pipeline.batch import run_profile
    from pubweave.pipeline.streaming import follow as streaming

    world = make_world(seed)
    child, parent = next(iter(world.parents.items()))
    for at, change in ((30.0, "removed"), (31.0, "added")):
        for one, other in ((child, parent), (parent, child)):
            world.record("link_changes", one, changed_at=at, neighbor=other, change=change)
    source, output = tmp_path / "run", tmp_path / "followed"

    def caught_up() -> tuple[int, int]:
        about = streaming.Follower(spark, str(source), str(output), SETTINGS).catch_up()
        assert about is not None
        assert about.refresh is not None
        assert about.refresh.rebuilt is None
        return about.refresh.open_records, about.refresh.closed_records

    tidy = streaming.ProfileOutput.tidy
    closed = []
    for begin, end in ((0.0, 15.0), (15.0, 33.0), (33.0, 48.0), (48.0, 100.0)):
        write_span(world, source, begin, end)
        if begin == 33.0:
            monkeypatch.setattr(streaming.ProfileOutput, "tidy", _crash)
            with pytest.raises(RuntimeError, match="after the balance"):
                caught_up()
            monkeypatch.setattr(streaming.ProfileOutput, "tidy", tidy)
        closed.append(caught_up())
    total = sum(len(records) for records in world.records.values())
    assert sum(closed[-1]) == total
    assert [c for _, c in closed] == sorted({c for _, c in closed}), "more with every batch"
    assert closed[-1][1] > total / 2

    write_world(world, tmp_path / "whole")
    run_profile(spark, str(tmp_path / "whole"), str(tmp_path / "batch"), SETTINGS, now=0.0)
    batch = WorkloadProfile(tmp_path / "batch")
    assert batch.rows("transformations")[0]["affected_publications"] > 0
    assert_same_tables(WorkloadProfile(output), batch)


@pytest.mark.slow
@pytest.mark.usefixtures("closing_often")
def test_a_balance_made_bit_by_bit_counts_once_it_is_complete(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Profiles between its beginning and its end go on from the balance before."""
    from pubweave.pipeline.batch import run_profile
    from pubweave.pipeline.streaming import follow as streaming
    from pubweave.pipeline.streaming.compaction import TASK_GOES

    goes: list[tuple[int, bool, int]] = []
    go_on = streaming.Compaction.go_on

    def watched(self: streaming.Compaction, for_s: float) -> bool:
        is_done = go_on(self, for_s)
        goes.append((self.batch, is_done, _records(follower)[1]))
        return is_done

    monkeypatch.setattr(streaming, "CLOSING_S", 0.0)
    monkeypatch.setattr(streaming.Compaction, "go_on", watched)
    world = make_world(24)
    source, output = tmp_path / "run", tmp_path / "followed"
    write_description(source)
    follower = streaming.Follower(
        spark, str(source), str(output), SETTINGS, every_s=0.1, threads=12
    )
    with follower.running():
        for begin, end in pairwise([0.0, 20.0, *range(21, 32), 100.0]):
            write_span(world, source, begin, end)
            due = sum(record[0] < end for rows in world.records.values() for record in rows)
            _wait_for_records(follower, due)
    done = [at for at, (_, is_done, _) in enumerate(goes) if is_done]
    assert done, "no balance was completed"
    first = goes[: done[0] + 1]
    assert 2 < len(first) <= TASK_GOES + 2, "it took several goes, and not more than it may"
    assert {batch for batch, _, _ in first} == {first[0][0]}, "all for the same balance"
    assert all(closed == 0 for _, _, closed in first), "it counts from the next profile on"
    assert _records(follower)[1] > 0
    write_world(world, tmp_path / "whole")
    run_profile(spark, str(tmp_path / "whole"), str(tmp_path / "batch"), SETTINGS, now=0.0)
    assert_same_tables(WorkloadProfile(output), WorkloadProfile(tmp_path / "batch"))


def _records(follower: Follower) -> tuple[int, int]:
    """Of the last profile: records that were open, and those that were closed before."""
    about = follower.latest()
    if about is None or about.refresh is None:
        return 0, 0
    assert about.refresh.rebuilt is None
    return about.refresh.open_records, about.refresh.closed_records


def _wait_for_records(follower: Follower, count: int) -> None:
    """Until a profile has so many; a span's files may come in two batches."""
    until = time.monotonic() + 60.0
    while sum(_records(follower)) < count:
        assert follower.is_active()
        assert time.monotonic() < until, f"{count} records do not come"
        time.sleep(0.05)


def _crash(_: object) -> None:
    raise RuntimeError("after the balance")


def test_a_directory_follows_one_run(spark: SparkSession, tmp_path: Path) -> None:
    from pubweave.pipeline.streaming.follow import Follower

    for name in ("one", "other"):
        write_description(tmp_path / name)
    Follower(spark, str(tmp_path / "one"), str(tmp_path / "out"), SETTINGS)
    with pytest.raises(ProfileError, match="choose another -o"):
        Follower(spark, str(tmp_path / "other"), str(tmp_path / "out"), SETTINGS)


def test_batches_of_a_balance_are_copied_into_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pubweave.pipeline.streaming import batch_log as ledgers

    monkeypatch.setattr(ledgers, "MANY_BATCHES", 2)
    world = make_world(22)
    ledger = ledgers.BatchLog(spark, str(tmp_path / "ledger"))
    for batch in range(5):
        write_part(world, tmp_path / "run", batch, 5, "part")
        paths = sorted((tmp_path / "run" / "deliveries").glob(f"all-{batch:06d}-*.parquet"))
        ledger.write(batch, {"deliveries": [str(path) for path in paths]}, [])
        ledger.gather(batch - 1)
    kept = sorted(path.name for path in (tmp_path / "ledger" / "deliveries").iterdir())
    assert kept == ["batch=000000003", "batch=000000004", "span=000000000-000000002"]
    total = len(world.records["deliveries"])
    assert ledger.frames(4)["deliveries"].count() == total
    assert ledger.frames(4, after=2)["deliveries"].count() == total - total * 3 // 5
    assert ledger.file_counts(4)["deliveries"] == 5
    assert len(list((tmp_path / "ledger" / "about").iterdir())) == 3

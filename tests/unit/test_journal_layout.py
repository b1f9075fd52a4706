"""The files of a journal on a disk that fails: what was synced is found again, whatever happens."""

from __future__ import annotations

import pytest

from pubweave.model.journal_records import EventRecord
from pubweave.sim.disk import SimDisk
from pubweave.sim.world import World
from pubweave.wire.journal_codec import JournalDamagedError, encode_record
from pubweave.wire.journal_layout import (
    JournalFiles,
    JournalRefusedError,
    SnapshotHead,
    find_journal,
)

HEAD = SnapshotHead("b1", "1.0")


def record(number: int) -> EventRecord:
    return EventRecord(float(number), "LinkAdded", (f"b{number}",))


def begun(world: World) -> tuple[SimDisk, JournalFiles]:
    disk = SimDisk(world)
    files = JournalFiles(disk, HEAD, 0)
    files.begin(b"first")
    return disk, files


def found_numbers(disk: SimDisk) -> list[int]:
    found = find_journal(disk, HEAD)
    assert found is not None
    return [int(each.now) for each in found.records()]


def test_there_is_no_journal_at_first() -> None:
    assert find_journal(SimDisk(World(0)), HEAD) is None


@pytest.mark.parametrize("seed", range(40))
def test_what_was_synced_survives_crashes_full_disks_and_snapshots(seed: int) -> None:
    """A writer that tries again, as the drivers do, on a disk that is full now and then."""
    world = World(seed)
    disk, files = begun(world)
    synced: list[int] = []
    pending: list[int] = []
    for number in range(1, 60):
        pending.append(number)
        disk.full_until = world.now + 1.0 if world.chance(0.2) else 0.0
        try:
            if world.chance(0.15):
                files.begin(b"snapshot")
                synced, pending = [], []
            else:
                files.append(b"".join(encode_record(record(each)) for each in pending))
                if world.chance(0.3):
                    break  # the crash comes before the sync
                files.sync()
                synced, pending = synced + pending, []
        except OSError:
            continue
    disk.full_until = 0.0
    disk.crash()
    numbers = found_numbers(disk)
    assert numbers[: len(synced)] == synced
    assert numbers[len(synced) :] in ([], pending)


def test_a_snapshot_replaces_everything_before_it() -> None:
    disk, files = begun(World(0))
    files.append(encode_record(record(1)))
    files.sync()
    files.begin(b"second")
    found = find_journal(disk, HEAD)
    assert found is not None
    assert (found.snapshot, list(found.records())) == (b"second", [])
    assert disk.names() == ["2.snapshot"]


def test_the_journal_of_another_broker_is_refused() -> None:
    disk, _ = begun(World(0))
    with pytest.raises(JournalRefusedError, match="broker 'b1': give 'b2' another directory"):
        find_journal(disk, SnapshotHead("b2", "1.0"))


def test_the_journal_of_another_version_is_refused() -> None:
    disk, _ = begun(World(0))
    with pytest.raises(JournalRefusedError, match=r"by pubweave 1\.0 .* this is 2\.0"):
        find_journal(disk, SnapshotHead("b1", "2.0"))


def test_a_snapshot_that_is_damaged_is_not_used() -> None:
    disk, _ = begun(World(0))
    disk.put("1.snapshot", disk.read("1.snapshot")[:-1])
    with pytest.raises(JournalDamagedError, match="snapshot is damaged"):
        find_journal(disk, HEAD)

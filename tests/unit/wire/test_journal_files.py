"""The files of a journal on a disk that fails: what was synced is found again, whatever happens."""

from __future__ import annotations

import pytest

from pubweave.model.records.journal_records import EventRecord
from pubweave.sim.kernel.disk import SimDisk
from pubweave.sim.kernel.world import World
from pubweave.wire.journal_codec import JournalDamagedError, encode_batch, encode_record
from pubweave.wire.journal_files import (
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
    doubtful = b""
    for number in range(1, 60):
        pending.append(number)
        disk.full_until = world.now + 1.0 if world.chance(0.2) else 0.0
        disk.failing_until = world.now + 1.0 if world.chance(0.2) else 0.0
        try:
            if world.chance(0.15):
                together = b"".join(encode_record(record(each)) for each in pending)
                doubtful = b"snapshot at %d" % number
                is_snapshot = files.begin_or_append(doubtful, together)
                synced, pending = [] if is_snapshot else synced + pending, []
                doubtful = b""
            else:
                files.append(b"".join(encode_record(record(each)) for each in pending))
                if world.chance(0.3):
                    break  # the crash comes before the sync
                files.sync()
                synced, pending = synced + pending, []
                doubtful = b""
        except OSError:
            continue
    disk.heal()
    disk.crash()
    found = find_journal(disk, HEAD)
    assert found is not None
    numbers = found_numbers(disk)
    if found.snapshot == doubtful:
        assert numbers == []  # it could not be put in place and is there: it has all of before
        return
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
    with pytest.raises(JournalRefusedError, match=r"by pubweave 1\.0, this is 2\.0.* SIGTERM"):
        find_journal(disk, SnapshotHead("b1", "2.0"), lambda: "shape")


def test_the_last_snapshot_of_another_version_is_read_if_its_state_has_the_same_shape() -> None:
    disk, files = begun(World(0))
    files.begin(b"last", "shape")
    found = find_journal(disk, SnapshotHead("b1", "2.0"), lambda: "shape")
    assert found is not None
    assert found.snapshot == b"last"
    with pytest.raises(JournalRefusedError, match=r"another kind of state, this is 2\.0.* take"):
        find_journal(disk, SnapshotHead("b1", "2.0"), lambda: "other")
    files.append(b"something that came later")
    files.sync()
    with pytest.raises(JournalRefusedError, match="not stopped in an orderly way"):
        find_journal(disk, SnapshotHead("b1", "2.0"), lambda: "shape")
    assert find_journal(disk, HEAD) is not None


def test_the_journal_of_another_format_is_refused_with_what_to_do() -> None:
    disk, _ = begun(World(0))
    older = disk.read("1.snapshot").replace(b"pwJ2", b"pwJ1")
    disk.put("1.snapshot", older)
    with pytest.raises(JournalRefusedError, match=r"in format 1, this is 1\.0 \(format 2\).* take"):
        find_journal(disk, HEAD)


def test_a_snapshot_whose_head_is_of_another_kind_is_refused_with_what_to_do() -> None:
    disk = SimDisk(World(0))
    disk.put("1.snapshot", encode_batch(b"\x81\xa1v\x01") + encode_batch(b"state"))
    with pytest.raises(JournalRefusedError, match=r"does not say which.* or remove the directory"):
        find_journal(disk, HEAD)


def test_a_snapshot_that_could_not_be_put_in_place_is_not_gone_on_from() -> None:
    """Its name is there, for the moment or for good: what is written meanwhile must count."""
    disk, files = begun(World(0))
    fails_at_rename(disk)
    assert not files.begin_or_append(b"second", encode_record(record(1)))
    assert found_numbers(disk) == [1]
    files.append(encode_record(record(2)))
    files.sync()
    disk.crash()
    assert found_numbers(disk) == [1, 2]


def fails_at_rename(disk: SimDisk) -> None:
    """The next file that is put in place is there, and yet that fails."""
    put = disk.put

    def failing(name: str, content: bytes) -> None:
        put(name, content)
        disk.put = put  # type: ignore[method-assign]
        raise OSError(5, "the directory cannot be synced")

    disk.put = failing  # type: ignore[method-assign]


def test_without_room_for_a_snapshot_the_journal_goes_on() -> None:
    disk, files = begun(World(0))
    files.append(encode_record(record(1)))
    files.sync()

    def full(name: str, content: bytes) -> None:
        raise OSError(28, "no space left")

    disk.put = full  # type: ignore[method-assign]
    assert not files.begin_or_append(b"second", encode_record(record(2)))
    disk.crash()
    assert found_numbers(disk) == [1, 2]


def test_what_a_crash_left_of_a_snapshot_is_cleared_away_by_the_next() -> None:
    disk, files = begun(World(0))
    disk.putting(b"a snapshot that is never finished")
    disk.crash()
    assert disk.torn_snapshots == 1
    assert [name for name in disk.names() if name.endswith(".tmp")]
    files.begin(b"second")
    assert disk.names() == ["2.snapshot"]


def test_a_snapshot_that_is_damaged_is_not_used() -> None:
    disk, _ = begun(World(0))
    disk.put("1.snapshot", disk.read("1.snapshot")[:-1])
    with pytest.raises(JournalDamagedError, match=r"1\.snapshot is cut off at byte \d+: put back"):
        find_journal(disk, HEAD)


@pytest.mark.parametrize(
    ("name", "first"), [("1.journal", 0), pytest.param("1.snapshot", 32, id="behind its format")]
)
def test_a_flipped_bit_is_told_with_the_file_the_byte_and_what_to_do(name: str, first: int) -> None:
    world = World(3)
    disk, files = begun(world)
    for number in range(1, 4):
        files.append(encode_record(record(number)))
        files.sync()
    whole = disk.read(name)
    for _ in range(400):
        bit = world.integer(first, 8 * len(whole) - 1)
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        disk.put(name, bytes(data))
        with pytest.raises(JournalDamagedError, match=rf"{name} is damaged .* at byte \d+.* copy"):
            find_journal(disk, HEAD)
    disk.put(name, whole)
    assert found_numbers(disk) == [1, 2, 3]

"""The files of a journal on a disk that fails: what was synced is found again, whatever happens."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pubweave.model.records.journal_records import (
    AppendBytes,
    DiskOperation,
    EventRecord,
    Remove,
    Sync,
)
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


class Writer:
    """Carries out what files want on a disk, in no time."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.files = JournalFiles(HEAD, 0, disk.names())

    def begin(self, content: bytes, *, is_last: bool = False) -> None:
        self._carry_out(self.files.snapshot(content, is_last=is_last))
        self.files.installed()
        self.disk.carry_out(self.files.clearing())
        self.files.cleared()

    def write(self, *numbers: int) -> None:
        self._carry_out(self.files.batch(b"".join(encode_record(record(n)) for n in numbers)))
        self.files.written()

    def _carry_out(self, operations: Sequence[DiskOperation]) -> None:
        try:
            self.disk.carry_out(operations)
        except OSError:
            self.files.failed()
            raise


def put(disk: SimDisk, name: str, content: bytes) -> None:
    disk.carry_out([Remove(name), AppendBytes(name, content), Sync(name)])


def begun(world: World) -> tuple[SimDisk, Writer]:
    disk = SimDisk(world)
    writer = Writer(disk)
    writer.begin(b"first")
    return disk, writer


def found_numbers(disk: SimDisk) -> list[int]:
    found = find_journal(disk, HEAD)
    assert found is not None
    return [int(each.now) for each in found.records()]


def test_there_is_no_journal_at_first() -> None:
    assert find_journal(SimDisk(World(0)), HEAD) is None


def test_a_snapshot_replaces_everything_before_it() -> None:
    disk, writer = begun(World(0))
    writer.write(1)
    writer.begin(b"second")
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
        find_journal(disk, SnapshotHead("b1", "2.0"))


def test_the_last_snapshot_of_another_version_is_read_if_nothing_is_behind_it() -> None:
    disk, writer = begun(World(0))
    writer.begin(b"last", is_last=True)
    found = find_journal(disk, SnapshotHead("b1", "2.0"))
    assert found is not None
    assert found.snapshot == b"last"
    writer.write(1)
    with pytest.raises(JournalRefusedError, match="not stopped in an orderly way"):
        find_journal(disk, SnapshotHead("b1", "2.0"))
    assert find_journal(disk, HEAD) is not None


def test_the_journal_of_another_format_is_refused_with_what_to_do() -> None:
    disk, _ = begun(World(0))
    older = disk.read("1.snapshot").replace(b"pwJ4", b"pwJ1")
    put(disk, "1.snapshot", older)
    with pytest.raises(JournalRefusedError, match=r"in format 1, this is 1\.0 \(format 4\).* take"):
        find_journal(disk, HEAD)


def test_a_snapshot_whose_head_is_of_another_kind_is_refused_with_what_to_do() -> None:
    disk = SimDisk(World(0))
    put(disk, "1.snapshot", encode_batch(b"\x81\xa1v\x01") + encode_batch(b"state"))
    with pytest.raises(JournalRefusedError, match=r"does not say which.* or remove the directory"):
        find_journal(disk, HEAD)


def test_a_snapshot_that_could_not_be_installed_is_not_gone_on_from() -> None:
    """Its name is there, for the moment or for good: what is written meanwhile must count."""
    disk, writer = begun(World(0))
    install = writer.files.snapshot(b"second")
    disk.carry_out(install[:-1])
    disk.begin(install[-1])  # the new name is there, and then the directory cannot be synced
    writer.files.failed()
    assert disk.names() == ["1.snapshot", "2.snapshot"]
    writer.write(1)
    assert found_numbers(disk) == [1]
    writer.write(2)
    disk.crash()
    assert found_numbers(disk) == [1, 2]


def test_what_a_crash_left_of_a_snapshot_is_cleared_away_by_the_next() -> None:
    disk, writer = begun(World(0))
    disk.carry_out(writer.files.snapshot(b"a snapshot that is never finished")[:2])
    disk.crash()
    assert disk.torn_snapshots == 1
    assert [name for name in disk.names() if name.endswith(".tmp")]
    again = Writer(disk)
    again.files = JournalFiles(HEAD, 1, disk.names())
    again.begin(b"second")
    assert disk.names() == ["2.snapshot"]


def test_what_could_not_be_removed_is_removed_after_the_next_snapshot() -> None:
    disk, writer = begun(World(1))
    writer.write(1)
    disk.carry_out(writer.files.snapshot(b"second"))
    writer.files.installed()  # and the old files stay, for the disk failed
    writer.begin(b"third")
    assert disk.names() == ["3.snapshot"]


def test_a_snapshot_that_is_damaged_is_not_used() -> None:
    disk, _ = begun(World(0))
    put(disk, "1.snapshot", disk.read("1.snapshot")[:-1])
    with pytest.raises(JournalDamagedError, match=r"1\.snapshot is cut off at byte \d+: put back"):
        find_journal(disk, HEAD)


@pytest.mark.parametrize(
    ("name", "first"), [("1.journal", 0), pytest.param("1.snapshot", 32, id="behind its format")]
)
def test_a_flipped_bit_is_told_with_the_file_the_byte_and_what_to_do(name: str, first: int) -> None:
    world = World(3)
    disk, writer = begun(world)
    for number in range(1, 4):
        writer.write(number)
    whole = disk.read(name)
    for _ in range(400):
        bit = world.integer(first, 8 * len(whole) - 1)
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        put(disk, name, bytes(data))
        with pytest.raises(JournalDamagedError, match=rf"{name} is damaged .* at byte \d+.* copy"):
            find_journal(disk, HEAD)
    put(disk, name, whole)
    assert found_numbers(disk) == [1, 2, 3]

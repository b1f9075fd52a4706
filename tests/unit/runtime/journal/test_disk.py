"""The files of a journal on this machine: private, whole, and without leftovers."""

from __future__ import annotations

import stat
from pathlib import Path

from pubweave.model.records.journal_records import EventRecord
from pubweave.runtime.journal.disk import FileDisk
from pubweave.wire.journal_codec import encode_record
from pubweave.wire.journal_files import JournalFiles, SnapshotHead, find_journal

HEAD = SnapshotHead("b1", "1.0")
RECORD = EventRecord(1.0, "LinkAdded", ("b2",))


def begun(directory: Path) -> tuple[FileDisk, JournalFiles]:
    disk = FileDisk(directory)
    files = JournalFiles(HEAD)
    disk.carry_out(files.snapshot(b"first"))
    files.installed()
    write(disk, files, RECORD)
    return disk, files


def write(disk: FileDisk, files: JournalFiles, record: EventRecord) -> None:
    disk.carry_out(files.batch(encode_record(record)))
    files.written()


def test_nobody_else_can_read_it_wherever_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    disk, _ = begun(tmp_path)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    disk.close()


def test_what_was_written_is_found_by_the_next_process(tmp_path: Path) -> None:
    disk, _ = begun(tmp_path)
    disk.close()
    found = find_journal(FileDisk(tmp_path), HEAD)
    assert found is not None
    assert (found.snapshot, list(found.records())) == (b"first", [RECORD])


def test_what_a_kill_left_of_a_snapshot_is_cleared_away(tmp_path: Path) -> None:
    disk, _ = begun(tmp_path)
    (tmp_path / "2.snapshot.tmp").write_bytes(b"half a snap")
    found = find_journal(disk, HEAD)
    assert found is not None
    assert found.number == 1
    files = JournalFiles(HEAD, 1, disk.names())
    disk.carry_out(files.snapshot(b"second"))
    files.installed()
    disk.carry_out(files.clearing())
    assert disk.names() == ["2.snapshot"]
    disk.close()


def test_a_batch_that_could_not_be_synced_is_written_again(tmp_path: Path) -> None:
    disk, files = begun(tmp_path)
    disk.carry_out(files.batch(encode_record(EventRecord(2.0, "LinkAdded", ("lost",))))[:-1])
    # The sync fails: what the file has behind the last good one is not to be trusted.
    files.failed()
    again = EventRecord(2.0, "LinkAdded", ("b3",))
    write(disk, files, again)
    found = find_journal(disk, HEAD)
    assert found is not None
    assert list(found.records()) == [RECORD, again]
    disk.close()

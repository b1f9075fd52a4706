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
    files = JournalFiles(disk, HEAD, 0)
    files.begin(b"first")
    files.append(encode_record(RECORD))
    files.sync()
    return disk, files


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
    disk, files = begun(tmp_path)
    (tmp_path / ".2.snapshot.4711.tmp").write_bytes(b"half a snap")
    found = find_journal(disk, HEAD)
    assert found is not None
    assert found.number == 1
    files.begin(b"second")
    assert disk.names() == ["2.snapshot"]
    disk.close()


def test_a_batch_that_could_not_be_synced_is_written_again(tmp_path: Path) -> None:
    disk, files = begun(tmp_path)
    files.append(encode_record(EventRecord(2.0, "LinkAdded", ("lost",))))
    # The sync fails: what the file has behind the last good one is not to be trusted.
    files._is_torn = True
    files.append(encode_record(EventRecord(2.0, "LinkAdded", ("b3",))))
    files.sync()
    found = find_journal(disk, HEAD)
    assert found is not None
    assert [record.now for record in found.records()] == [1.0, 2.0]
    assert list(found.records())[-1] == EventRecord(2.0, "LinkAdded", ("b3",))
    disk.close()

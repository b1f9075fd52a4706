"""The files of a journal: which there are, and in which order they change.

``N.snapshot`` is a broker's state, ``N.journal`` what came after it. The next snapshot is written
and synced under a scratch name and then installed, before the first batch behind it is written, and
only then the files of before are removed. So at every instant the newest snapshot and its journal
are the whole truth. A snapshot that could not be installed may be there all the same: it is removed
before anything is written that it lacks.

No I/O here: `JournalFiles` says what a disk is to do, and hears whether that worked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from pubweave.model.records.journal_records import (
    AppendBytes,
    Cut,
    DiskOperation,
    Install,
    Record,
    Remove,
    Sync,
)
from pubweave.wire.journal_codec import (
    END_BYTES,
    FORMAT,
    JournalDamagedError,
    decode_records,
    encode_batch,
    find_batches,
    format_of,
)

_SNAPSHOT, _JOURNAL, _SCRATCH = ".snapshot", ".journal", ".tmp"
_REMEDY = "put back a copy of the file, or remove the directory, with all that only this broker has"


class Disk(Protocol):
    """The directory of one journal. Every method may raise OSError."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def carry_out(self, operations: Sequence[DiskOperation]) -> None:
        """One after the other, up to the first that fails."""


class SnapshotHead(msgspec.Struct, frozen=True):
    """Whose snapshot it is. Another version would decide otherwise by the same journal.

    ``is_last``: nothing is to follow, so another version may go on with it."""

    broker: str
    version: str
    format: int = FORMAT
    is_last: bool = False


class JournalRefusedError(ValueError):
    """A journal that this broker must not go on with; says why and what to do."""


@dataclass(frozen=True)
class JournalContents:
    """What a broker left behind."""

    number: int
    snapshot: bytes
    journal: bytes
    batches: list[tuple[int, int]]

    @property
    def torn_bytes(self) -> int:
        """How much of the journal is a torn tail."""
        whole = self.batches[-1][1] + END_BYTES if self.batches else 0
        return len(self.journal) - whole

    def records(self) -> Iterator[Record]:
        """What came after the snapshot, in order."""
        for start, end in self.batches:
            yield from decode_records(self.journal[start:end])


def find_journal(disk: Disk, head: SnapshotHead) -> JournalContents | None:
    """The newest snapshot and what came after it; None: there is no journal yet.

    JournalRefusedError if it is another's or another version's; JournalDamagedError."""
    numbers = [_number(name) for name in disk.names() if name.endswith(_SNAPSHOT)]
    if not numbers:
        return None
    number = max(numbers)
    name = f"{number}{_SNAPSHOT}"
    snapshot, written = _take_off_head(name, disk.read(name), head)
    name = f"{number}{_JOURNAL}"
    journal = disk.read(name) if name in disk.names() else b""
    batches = _find_batches(name, journal)
    if written.version != head.version:
        _check_end(written, head, has_events=bool(batches))
    return JournalContents(number, snapshot, journal, batches)


def _find_batches(name: str, data: bytes) -> list[tuple[int, int]]:
    try:
        return find_batches(data)
    except JournalDamagedError as error:
        raise JournalDamagedError(f"{name} is {error}: {_REMEDY}") from error


def _take_off_head(name: str, data: bytes, head: SnapshotHead) -> tuple[bytes, SnapshotHead]:
    found_format = format_of(data)
    if found_format not in (None, FORMAT):
        raise _of_another_version(f"in format {found_format}", head)
    batches = _find_batches(name, data)
    if len(batches) != 2:
        raise JournalDamagedError(f"{name} is cut off at byte {len(data)}: {_REMEDY}")
    (start, end), (body_start, body_end) = batches
    try:
        found = msgspec.msgpack.decode(data[start:end], type=SnapshotHead)
    except msgspec.MsgspecError:
        raise _of_another_version("by a pubweave that does not say which", head) from None
    if found.broker != head.broker:
        raise JournalRefusedError(
            f"the journal is that of broker {found.broker!r}: "
            f"give {head.broker!r} another directory"
        )
    if found.format != head.format:
        raise _of_another_version(f"by pubweave {found.version} (format {found.format})", head)
    return data[body_start:body_end], found


def _check_end(written: SnapshotHead, head: SnapshotHead, *, has_events: bool) -> None:
    """JournalRefusedError unless another version may go on with what this one wrote."""
    if has_events or not written.is_last:
        raise JournalRefusedError(
            f"the journal was written by pubweave {written.version}, this is {head.version}, and "
            f"the broker was not stopped in an orderly way: start the version that wrote it once "
            f"more and stop it with SIGTERM, then upgrade; or remove the directory, with all that "
            f"only this broker has"
        )


def _of_another_version(written: str, head: SnapshotHead) -> JournalRefusedError:
    return JournalRefusedError(
        f"the journal was written {written}, this is {head.version} (format {head.format}), which "
        f"would decide otherwise by it: start the version that wrote it and take the broker out of "
        f"the overlay before the upgrade, or remove the directory, with all that only this broker "
        f"has"
    )


def _number(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isdigit() else -1


class JournalFiles:
    """The end of a journal that is being written.

    Whoever asks for operations carries them out in their order, and then says whether all of them
    worked (`written`, `installed`, `cleared`) or one failed (`failed`), before it asks again.

    >>> files = JournalFiles(SnapshotHead("b1", "1.0"))
    >>> [type(each).__name__ for each in files.snapshot(b"state")]
    ['Remove', 'AppendBytes', 'Sync', 'Install']
    >>> files.installed()
    >>> [type(each).__name__ for each in files.batch(b"records")]
    ['Cut', 'AppendBytes', 'Sync']
    """

    def __init__(self, head: SnapshotHead, number: int = 0, names: Iterable[str] = ()) -> None:
        """``number`` is that of the newest snapshot (0: there is none), ``names`` are those of the
        files that are there. `snapshot` comes first."""
        self._head = head
        self._number = number
        self._litter = {name for name in names if name.endswith((_SNAPSHOT, _JOURNAL, _SCRATCH))}
        """Files to be removed once a newer snapshot is installed."""
        self._synced_bytes = 0
        self._batch_bytes = 0
        self._is_torn = True
        """Whether the file may have something behind what was synced."""
        self._is_doubtful = False
        """Whether the next snapshot may be there although it could not be installed."""

    @property
    def journal_bytes(self) -> int:
        """Since the last snapshot."""
        return self._synced_bytes

    @property
    def _name(self) -> str:
        return f"{self._number}{_JOURNAL}"

    @property
    def _next_snapshot(self) -> str:
        return f"{self._number + 1}{_SNAPSHOT}"

    def snapshot(self, content: bytes, *, is_last: bool = False) -> list[DiskOperation]:
        """Put a snapshot in place of all that was written before it."""
        head = msgspec.msgpack.encode(msgspec.structs.replace(self._head, is_last=is_last))
        scratch = self._next_snapshot + _SCRATCH
        self._is_doubtful = True
        return [
            Remove(scratch),
            AppendBytes(scratch, encode_batch(head) + encode_batch(content)),
            Sync(scratch),
            Install(scratch, self._next_snapshot),
        ]

    def installed(self) -> None:
        """The snapshot is in place."""
        self._litter |= {self._name, f"{self._number}{_SNAPSHOT}"} if self._number else set()
        self._number += 1
        self._litter -= {self._name, f"{self._number}{_SNAPSHOT}"}
        self._synced_bytes = 0
        self._is_torn = True  # perhaps a file of this name was left behind
        self._is_doubtful = False

    def clearing(self) -> list[DiskOperation]:
        """Remove what is not needed any more; this may fail."""
        return [Remove(name) for name in sorted(self._litter)]

    def cleared(self) -> None:
        self._litter.clear()

    def batch(self, records: bytes) -> list[DiskOperation]:
        """Write a batch behind the others, which are synced."""
        operations: list[DiskOperation] = []
        if self._is_doubtful:
            operations += Remove(self._next_snapshot + _SCRATCH), Remove(self._next_snapshot)
        if self._is_torn:
            operations.append(Cut(self._name, self._synced_bytes))
        batch = encode_batch(records)
        self._batch_bytes = len(batch)
        return [*operations, AppendBytes(self._name, batch), Sync(self._name)]

    def written(self) -> None:
        """The batch is there and survives."""
        self._synced_bytes += self._batch_bytes
        self._is_torn = self._is_doubtful = False

    def failed(self) -> None:
        """What was to be done was not, or only a part of it, or it may be undone by a crash."""
        self._is_torn = True

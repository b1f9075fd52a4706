"""The files of a journal on a disk that is given: which there are, in which order they change.

``N.snapshot`` is a broker's state, ``N.journal`` what came after it. The next snapshot is in place
before the first batch behind it is written, and only then the files of before are removed. So at
every instant the newest snapshot and its journal are the whole truth. A snapshot that could not be
put in place may be there all the same: it is removed before anything is written that it lacks.

The disk is somebody else's (`runtime.journal.disk`, `sim.kernel.disk`): no I/O of its own here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from pubweave.model.records.journal_records import Record
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
    """One directory. Every method may raise OSError."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def put(self, name: str, content: bytes) -> None:
        """A whole new file, synced: there at once or not at all. Files that were not finished
        have names that end in ``.tmp``; if this raises, the file may be there or not."""

    def append(self, name: str, data: bytes) -> None: ...

    def sync(self, name: str) -> None:
        """What was appended survives from here on."""

    def cut(self, name: str, size: int) -> None:
        """Shorten a file, or make an empty one."""

    def remove(self, name: str) -> None:
        """A file is gone, if it was there at all, and stays so."""


class SnapshotHead(msgspec.Struct, frozen=True):
    """Whose snapshot it is. Another version would decide otherwise by the same journal.

    ``state`` is the shape of what is in it, if nothing is to follow: then another version with the
    same shape may go on with it."""

    broker: str
    version: str
    format: int = FORMAT
    state: str = ""


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


def find_journal(
    disk: Disk, head: SnapshotHead, state: Callable[[], str] = lambda: ""
) -> JournalContents | None:
    """The newest snapshot and what came after it; None: there is no journal yet. ``state`` is
    asked for the shape that this version can read if another one wrote it.

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
        _check_state(written, head, state, has_events=bool(batches))
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


def _check_state(
    written: SnapshotHead, head: SnapshotHead, state: Callable[[], str], *, has_events: bool
) -> None:
    """JournalRefusedError unless this version can go on with what another one wrote."""
    if has_events or not written.state:
        raise JournalRefusedError(
            f"the journal was written by pubweave {written.version}, this is {head.version}, and "
            f"the broker was not stopped in an orderly way: start the version that wrote it once "
            f"more and stop it with SIGTERM, then upgrade; or remove the directory, with all that "
            f"only this broker has"
        )
    if written.state != state():
        by = f"by pubweave {written.version} (format {written.format}), with another kind of state"
        raise _of_another_version(by, head)


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
    """The end of a journal that is being written. Methods raise what the disk raises; then
    `append` and `sync` can be tried again, with everything since the last `sync` that worked."""

    def __init__(self, disk: Disk, head: SnapshotHead, number: int) -> None:
        """``number`` is that of the newest snapshot; 0: there is none. `begin` comes first."""
        self._disk = disk
        self._head = head
        self._number = number
        self._synced_bytes = 0
        self._written_bytes = 0
        self._is_torn = False
        self._is_doubtful = False
        """Whether the next snapshot may be there although it could not be put in place."""

    @property
    def _name(self) -> str:
        return f"{self._number}{_JOURNAL}"

    @property
    def journal_bytes(self) -> int:
        """Since the last snapshot."""
        return self._written_bytes

    def begin(self, snapshot: bytes, state: str = "") -> None:
        """Put a snapshot in place of all that was written before it; with a ``state`` it is the
        last one (`SnapshotHead.state`)."""
        written = msgspec.structs.replace(self._head, state=state)
        head = encode_batch(msgspec.msgpack.encode(written))
        self._is_doubtful = True
        self._disk.put(self._next_snapshot, head + encode_batch(snapshot))
        self._is_doubtful = False
        self._number += 1
        self._synced_bytes = self._written_bytes = 0
        self._is_torn = True  # perhaps a file of this name was left behind
        with contextlib.suppress(OSError):  # the next snapshot finds what is left here
            self._clear()

    @property
    def _next_snapshot(self) -> str:
        return f"{self._number + 1}{_SNAPSHOT}"

    def _clear(self) -> None:
        for name in self._disk.names():
            is_old = name.endswith((_SNAPSHOT, _JOURNAL)) and _number(name) < self._number
            if is_old or name.endswith(_SCRATCH):
                self._disk.remove(name)

    def begin_or_append(self, snapshot: bytes, records: bytes) -> bool:
        """As `begin`; False: there is no room for the snapshot, and the records since the last
        batch, which it has, are synced behind the others instead."""
        try:
            self.begin(snapshot)
        except OSError:
            self.append(records)
            self.sync()
            return False
        return True

    def append(self, records: bytes) -> None:
        """Write a batch behind the others, which are synced."""
        if self._is_doubtful:
            self._disk.remove(self._next_snapshot)
            self._is_doubtful = False
        if self._is_torn:
            self._disk.cut(self._name, self._synced_bytes)
            self._written_bytes = self._synced_bytes
        assert self._written_bytes == self._synced_bytes, "one batch is being written at a time"
        self._is_torn = True
        batch = encode_batch(records)
        self._disk.append(self._name, batch)
        self._is_torn = False
        self._written_bytes += len(batch)

    def sync(self) -> None:
        """All that was appended survives from here on."""
        written = self._written_bytes
        self._is_torn = True
        self._disk.sync(self._name)
        self._is_torn = False
        self._synced_bytes = written

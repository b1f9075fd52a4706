"""The directory of a broker's journal on this machine: plain files, synced when it matters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pubweave.model.records.journal_records import (
    AppendBytes,
    Cut,
    DiskOperation,
    Install,
    Remove,
    Sync,
)
from pubweave.wire.journal_files import Disk

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class OpenDisk(Disk, Protocol):
    """A disk that is given back."""

    def close(self) -> None: ...


class FileDisk:
    """Files of one directory, made if it is not there (`wire.journal_files.Disk`). Only this
    user can read it: a journal has what clients publish."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: tuple[str, int] | None = None
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def names(self) -> list[str]:
        return sorted(os.listdir(self._directory))

    def read(self, name: str) -> bytes:
        return (self._directory / name).read_bytes()

    def carry_out(self, operations: Sequence[DiskOperation]) -> None:
        for operation in operations:
            match operation:
                case AppendBytes(name, data):
                    self._append(name, data)
                case Sync(name):
                    os.fdatasync(self._descriptor(name))
                case Install(scratch, name):
                    self.close()
                    (self._directory / scratch).replace(self._directory / name)
                    self._sync_directory()
                case Cut(name, size):
                    # Afresh: a descriptor that failed once may not tell of what it has lost.
                    self.close()
                    os.ftruncate(self._descriptor(name), size)
                    self._sync_directory()
                case Remove(name):
                    if self._open is not None and self._open[0] == name:
                        self.close()
                    (self._directory / name).unlink(missing_ok=True)
                    self._sync_directory()

    def _append(self, name: str, data: bytes) -> None:
        descriptor = self._descriptor(name)
        os.lseek(descriptor, 0, os.SEEK_END)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    def _descriptor(self, name: str) -> int:
        if self._open is None or self._open[0] != name:
            self.close()
            self._open = name, os.open(self._directory / name, _FLAGS, 0o600)
        return self._open[1]

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

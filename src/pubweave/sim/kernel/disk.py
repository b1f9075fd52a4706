"""A disk of the simulation: what is not synced may be lost, or half there, after a crash.

The directory of one broker's journal (`wire.journal_files.Disk`). It can be full for a while: then
there is room for a few bytes more, or for none, and a write that does not fit leaves a part of it
behind and fails. Or it fails now and then: writes, syncs, new names and removals raise EIO, what a
failed sync was to save may be lost though the next one works, and a file that could not be put in
place or removed may be there all the same, for the moment or for good. Or it is slow. A crash
tears what is being written then, also a snapshot.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field

from pubweave.core.journal.engine import JournalPolicy
from pubweave.core.vocabulary.rare_branches import sometimes
from pubweave.model.records.journal_records import (
    AppendBytes,
    Cut,
    DiskOperation,
    Install,
    Remove,
    Sync,
)
from pubweave.sim.kernel.marks import RunBranch
from pubweave.sim.kernel.world import World

FAILS = 0.4
"""How often each thing goes wrong while a disk fails."""
SNAPSHOT_BYTES = 1 << 14
"""What every snapshot counts for here: what it really takes depends on names in our code, and a run
must not change with those."""


def size_of(operation: AppendBytes) -> int:
    """How much room and time a disk needs for it."""
    return SNAPSHOT_BYTES if operation.name.endswith(".tmp") else len(operation.data)


@dataclass(frozen=True)
class DiskSetting:
    """How the disks of a run behave, and when brokers write and take snapshots."""

    sync_s: float = 0.004
    bytes_per_s: float = 2e8
    policy: JournalPolicy = field(default_factory=lambda: JournalPolicy(snapshot_bytes=1 << 16))

    @classmethod
    def draw(cls, world: World) -> DiskSetting:
        setting = cls(
            sync_s=world.uniform(0.0002, 0.02),
            bytes_per_s=world.choice([2e6, 2e7, 2e8]),
            policy=JournalPolicy(
                lazy_bytes=world.choice([1 << 8, 1 << 12, 1 << 20]),
                replay_s=world.choice([0.1, 0.5, 3.0]),
                snapshot_bytes=world.choice([1 << 12, 1 << 14, 1 << 16, 1 << 20]),
            ),
        )
        world.note("disks", f"{setting}")
        return setting


class SimDisk:
    """Files by name; of each, what survives a crash and what was appended since the last sync."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._synced: dict[str, bytearray] = {}
        """Grown in place: a journal is synced often, and may be long."""
        self._unsynced: dict[str, bytes] = {}
        self._before: dict[str, bytearray | None] = {}
        """What a crash may bring back in place of files that were just installed or removed."""
        self.full_until = 0.0
        self.room = 0
        """For so many bytes, while it is full."""
        self.failing_until = 0.0
        self.slow_until = 0.0
        self.slow_s = 0.0
        self.torn_tails = 0
        self.torn_snapshots = 0
        self.errors = 0

    @property
    def extra_s(self) -> float:
        """How much longer a sync takes at the moment."""
        return self.slow_s if self._world.now < self.slow_until else 0.0

    @property
    def is_troubled(self) -> bool:
        """Whether it is full, slow or failing at the moment."""
        return self._world.now < max(self.full_until, self.failing_until, self.slow_until)

    def heal(self) -> None:
        """End whatever is wrong with it."""
        self.full_until = self.failing_until = self.slow_until = 0.0

    def crash(self) -> None:
        """The machine goes down: of what is not synced any beginning may be there, and the end
        of that may be wrong."""
        for name, tail in self._unsynced.items():
            kept = self._part(tail)
            if kept and self._world.chance(0.3):
                kept = kept[:-1] + bytes([kept[-1] ^ 0x55])
            if name.endswith(".tmp"):
                self.torn_snapshots += 1
                sometimes(RunBranch.TORN_SNAPSHOT)
                self._world.note("disk", f"a crash tears {name}")
            else:
                self.torn_tails += bool(kept)
            self._save(name, kept)
        self._unsynced.clear()
        for name, before in self._before.items():
            if self._world.chance(0.5):
                self._synced.pop(name, None)
                if before is not None:
                    self._synced[name] = before
        self._before.clear()

    def _part(self, data: bytes) -> bytes:
        return data[: round(self._world.uniform(0.0, len(data)))] if data else b""

    # --- as a journal sees it --------------------------------------------------------------

    def names(self) -> list[str]:
        return [*self._synced, *(name for name in self._unsynced if name not in self._synced)]

    def read(self, name: str) -> bytes:
        return bytes(self._synced.get(name, b"")) + self._unsynced.get(name, b"")

    def begin(self, operation: DiskOperation) -> None:
        """From here on a crash finds a part of it done. OSError: it failed already."""
        match operation:
            case AppendBytes(name, data):
                self._append(name, data, size_of(operation))
            case Install(scratch, name):
                self._check_health()
                self._before[name] = self._synced.get(name)
                self._synced[name] = self._synced.pop(scratch)
            case Remove(name):
                if name in self.names():
                    self._before[name] = bytearray(self.read(name))
                    self._synced.pop(name, None)
                    self._unsynced.pop(name, None)

    def end(self, operation: DiskOperation) -> None:
        """It is done and lasts. OSError: it failed."""
        match operation:
            case Sync(name):
                self._sync(name)
            case Cut(name, size):
                self._check_health()
                whole = self.read(name)
                self._unsynced.pop(name, None)
                self._synced[name] = bytearray(whole[:size])
            case Install(_, name) | Remove(name):
                self._check_health()
                self._before.pop(name, None)

    def carry_out(self, operations: Sequence[DiskOperation]) -> None:
        """All of them, in no time."""
        for operation in operations:
            self.begin(operation)
            self.end(operation)

    def _append(self, name: str, data: bytes, size: int) -> None:
        before = self._unsynced.get(name, b"")
        try:
            if self._world.now < self.full_until:
                if size > self.room:
                    raise OSError(errno.ENOSPC, "no space left on the simulated disk")
                self.room -= size
            self._check_health()
        except OSError:
            self._unsynced[name] = before + self._part(data)
            raise
        self._unsynced[name] = before + data

    def _sync(self, name: str) -> None:
        try:
            self._check_health()
        except OSError:
            # Once a sync has failed, the system takes what it was to save for saved.
            self._save(name, self._part(self._unsynced.pop(name, b"")))
            raise
        self._save(name, self._unsynced.pop(name, b""))

    def _save(self, name: str, data: bytes) -> None:
        self._synced.setdefault(name, bytearray()).extend(data)

    def _check_health(self) -> None:
        if self._world.now < self.failing_until and self._world.chance(FAILS):
            self.errors += 1
            raise OSError(errno.EIO, "the simulated disk fails")

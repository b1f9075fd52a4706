"""A disk of the simulation: what is not synced may be lost, or half there, after a crash.

The directory of one broker's journal (`wire.journal_files.Disk`). It can be full for a while:
then a write leaves a part of it behind and fails. Or it fails now and then: writes, syncs, renames
and removals raise EIO, what a failed sync was to save may be lost though the next one works, and
a file that could not be put in place may be there all the same, for the moment or for good.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from pubweave.sim.kernel.world import World

FAILS = 0.4
"""How often each thing goes wrong while a disk fails."""


@dataclass(frozen=True)
class DiskSetting:
    """How the disks of a run behave, and how often brokers take snapshots."""

    sync_s: float = 0.004
    snapshot_bytes: int = 1 << 16

    @classmethod
    def draw(cls, world: World) -> DiskSetting:
        return cls(
            sync_s=world.uniform(0.0002, 0.02),
            snapshot_bytes=int(world.choice([1 << 12, 1 << 14, 1 << 16, 1 << 20])),
        )


class SimDisk:
    """Files by name; of each, what survives a crash and what was appended since the last sync."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._synced: dict[str, bytes] = {}
        self._unsynced: dict[str, bytes] = {}
        self._doubtful: set[str] = set()
        """Files whose names a crash may take along."""
        self._being_put = b""
        self.full_until = 0.0
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

    def putting(self, content: bytes) -> None:
        """A new file is being written, until `put`: a crash leaves a part of it."""
        self._being_put = content

    def crash(self) -> None:
        """The machine goes down: of what is not synced any beginning may be there, and the end
        of that may be wrong."""
        if self._being_put:
            self._synced[f".{len(self._being_put)}.tmp"] = self._part(self._being_put)
            self._being_put = b""
            self.torn_snapshots += 1
        for name, tail in self._unsynced.items():
            kept = self._part(tail)
            if kept and self._world.chance(0.3):
                kept = kept[:-1] + bytes([kept[-1] ^ 0x55])
            self.torn_tails += bool(kept)
            self._synced[name] = self._synced.get(name, b"") + kept
        self._unsynced.clear()
        for name in sorted(self._doubtful):
            if self._world.chance(0.5):
                self._synced.pop(name, None)
        self._doubtful.clear()

    def _part(self, data: bytes) -> bytes:
        return data[: self._world.integer(0, len(data))] if data else b""

    # --- as a journal sees it --------------------------------------------------------------

    def names(self) -> list[str]:
        return [*self._synced, *(name for name in self._unsynced if name not in self._synced)]

    def read(self, name: str) -> bytes:
        return self._synced.get(name, b"") + self._unsynced.get(name, b"")

    def put(self, name: str, content: bytes) -> None:
        self._being_put = b""
        self._check_room()
        self._check_health()  # writing or syncing the new file, or renaming it
        self._synced[name] = content
        self._doubtful.add(name)
        self._check_health()  # syncing the directory: the name is there, for the moment
        self._doubtful.discard(name)

    def append(self, name: str, data: bytes) -> None:
        before = self._unsynced.get(name, b"")
        try:
            self._check_room()
            self._check_health()
        except OSError:
            self._unsynced[name] = before + self._part(data)
            raise
        self._unsynced[name] = before + data

    def sync(self, name: str) -> None:
        self._check_room()
        try:
            self._check_health()
        except OSError:
            # Once a sync has failed, the system takes what it was to save for saved.
            self._synced[name] = self._synced.get(name, b"") + self._part(
                self._unsynced.pop(name, b"")
            )
            raise
        self._synced[name] = self.read(name)
        self._unsynced.pop(name, None)

    def cut(self, name: str, size: int) -> None:
        self._check_health()
        whole = self.read(name)
        self._unsynced.pop(name, None)
        self._synced[name] = whole[:size]

    def remove(self, name: str) -> None:
        self._check_health()
        self._synced.pop(name, None)
        self._unsynced.pop(name, None)
        self._doubtful.discard(name)

    def _check_room(self) -> None:
        if self._world.now < self.full_until:
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")

    def _check_health(self) -> None:
        if self._world.now < self.failing_until and self._world.chance(FAILS):
            self.errors += 1
            raise OSError(errno.EIO, "the simulated disk fails")

"""A disk of the simulation: what is not synced may be lost, or half there, after a crash.

The directory of one broker's journal (`wire.journal_layout.Disk`). It can be full for a while:
then a write leaves a part of it behind and fails.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from pubweave.sim.world import World


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
        self.full_until = 0.0
        self.slow_until = 0.0
        self.slow_s = 0.0
        self.torn_tails = 0

    @property
    def extra_s(self) -> float:
        """How much longer a sync takes at the moment."""
        return self.slow_s if self._world.now < self.slow_until else 0.0

    def crash(self) -> None:
        """The machine goes down: of what is not synced any beginning may be there, and the end
        of that may be wrong."""
        for name, tail in self._unsynced.items():
            kept = tail[: self._world.integer(0, len(tail))] if tail else b""
            if kept and self._world.chance(0.3):
                kept = kept[:-1] + bytes([kept[-1] ^ 0x55])
            self.torn_tails += bool(kept)
            self._synced[name] = self._synced.get(name, b"") + kept
        self._unsynced.clear()

    # --- as a journal sees it --------------------------------------------------------------

    def names(self) -> list[str]:
        return [*self._synced, *(name for name in self._unsynced if name not in self._synced)]

    def read(self, name: str) -> bytes:
        return self._synced.get(name, b"") + self._unsynced.get(name, b"")

    def put(self, name: str, content: bytes) -> None:
        self._check_room()
        self._synced[name] = content

    def append(self, name: str, data: bytes) -> None:
        before = self._unsynced.get(name, b"")
        try:
            self._check_room()
        except OSError:
            self._unsynced[name] = before + data[: self._world.integer(0, len(data))]
            raise
        self._unsynced[name] = before + data

    def sync(self, name: str) -> None:
        self._check_room()
        self._synced[name] = self.read(name)
        self._unsynced.pop(name, None)

    def cut(self, name: str, size: int) -> None:
        whole = self.read(name)
        self._unsynced.pop(name, None)
        self._synced[name] = whole[:size]

    def remove(self, name: str) -> None:
        self._synced.pop(name, None)
        self._unsynced.pop(name, None)

    def _check_room(self) -> None:
        if self._world.now < self.full_until:
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")
